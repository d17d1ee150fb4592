"""Runs of the programs of the support table: what several processes run, they run at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.support.programs import PROGRAMS
from tests.support.table import ROWS, columns_of, in_two_processes, with_parameter_servers
from tests.tpus import cpus_as_tpus


def tpu_of_two_cores() -> Any:
    """A `TPUStrategy` on two CPU devices in a TPU's place."""
    with cpus_as_tpus():
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect("local")
        topology = tf.tpu.experimental.initialize_tpu_system(resolver)
        cores = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=2)
        return tf.distribute.TPUStrategy(resolver, experimental_device_assignment=cores)


_HERE = {
    "one_device": lambda: tf.distribute.OneDeviceStrategy("/cpu:1"),
    "central_storage": lambda: tf.distribute.experimental.CentralStorageStrategy(
        ["/cpu:1", "/cpu:2"]
    ),
    "mirrored": lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "tpu": tpu_of_two_cores,
}
_TOGETHER = {"multi_worker": in_two_processes, "parameter_server": with_parameter_servers}


@pytest.fixture(scope="session")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], list[Any]]:
    """What a strategy's processes say of a column, run when first asked for."""
    known: dict[str, dict[str, list[Any]]] = {}

    def of(row: str, column: str) -> list[Any]:
        if row in _HERE:
            return [PROGRAMS[column](_HERE[row](), tmp_path_factory.mktemp(row), ROWS[row].epochs)]
        if row not in known:
            known[row] = _TOGETHER[row](tmp_path_factory.mktemp(row), columns_of(row))
        return known[row][column]

    return of


@pytest.fixture
def check(facts: Callable[[str, str], list[Any]], tmp_path: Path) -> Callable[[str, str], None]:
    """Compares a cell with the same program without a strategy."""

    def compare(row: str, column: str) -> None:
        expected = PROGRAMS[column](tf.distribute.get_strategy(), tmp_path, ROWS[row].epochs)
        rtol = ROWS[row].rtol
        for found in facts(row, column):
            assert found["replicas"] == ROWS[row].replicas
            assert found["evaluated"][0] == pytest.approx(found["evaluated"][1], rel=1e-5)
            if rtol is None:
                for name in ("weights", "continued"):
                    np.testing.assert_allclose(found[name], expected[name], atol=0.05)
                assert found["evaluated"][0] < 1e-2
                assert len(found["losses"]) == len(expected["losses"])
            else:
                for name in ("losses", "weights", "evaluated", "continued"):
                    np.testing.assert_allclose(
                        found[name], expected[name], rtol=rtol, atol=1e-6, err_msg=name
                    )

    return compare
