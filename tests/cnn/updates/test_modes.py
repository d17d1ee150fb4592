"""What the flags of a mode make: where variables live, the algorithm and packs of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.cnn import flags
from drumline.cnn.updates import hosts, modes, parameter_servers
from drumline.distribute.collectives.cross_device_ops import Packing
from tests.ports import free_addresses

SMALL = [np.zeros(count, np.float32) for count in (8, 1000, 16, 8)]


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ([], [[0, 1, 2, 3]]),
        (["--gradient_repacking=2"], [[0, 1], [2, 3]]),
        (["--agg_small_grads_max_bytes=100"], [[0, 2, 3], [1]]),
        (["--agg_small_grads_max_bytes=100", "--agg_small_grads_max_group=2"], [[0, 2], [3], [1]]),
        (["--all_reduce_spec=xring"], [[0], [1], [2], [3]]),
        (["--all_reduce_spec=xring", "--gradient_repacking=1"], [[0, 1, 2, 3]]),
    ],
)
@pytest.mark.parametrize("mode", ["replicated", "collective_all_reduce"])
def test_small_gradients_travel_in_the_packs_of_the_flags(
    mode: str, given: list[str], groups: list[list[int]]
) -> None:
    hosts = [f"--worker_hosts={free_addresses(1)[0]}", "--job_name=worker"]
    over = hosts if mode == "collective_all_reduce" else []
    parsed = flags.parse([f"--variable_update={mode}", "--num_gpus=4", *over, *given])
    strategy = modes.mode_of(parsed, lambda line: None).strategy
    packing = strategy.cross_device_ops.packing  # type: ignore[attr-defined]
    assert isinstance(packing, Packing)
    assert sorted(packing.groups(SMALL)) == sorted(groups)  # type: ignore[arg-type]


def mode_of(given: str) -> modes.Mode:
    return modes.mode_of(flags.parse(given.split()), lambda line: None)


@pytest.mark.parametrize(
    ("given", "devices", "home"),
    [
        ("--num_gpus=3 --local_parameter_device=cpu", ["cpu:1", "cpu:2", "cpu:3"], "cpu:0"),
        ("--num_gpus=4 --local_parameter_device=gpu", [f"cpu:{n}" for n in range(4)], "cpu:0"),
        (
            "--num_gpus=2 --gpu_indices=2,3 --local_parameter_device=gpu",
            ["cpu:2", "cpu:3"],
            "cpu:2",
        ),
    ],
)
def test_variables_of_one_host_live_where_the_flag_says(
    given: str, devices: list[str], home: str
) -> None:
    mode = mode_of(f"--variable_update=parameter_server {given}")
    assert mode.devices == tuple(devices)
    assert repr(mode.strategy) == (
        f"CentralStorageStrategy([{', '.join(map(repr, devices))}], parameter_device={home!r})"
    )


MODES = {
    "--variable_update=parameter_server": (False, False),
    "--variable_update=parameter_server --staged_vars": (False, True),
    "--variable_update=replicated": (False, False),
    "--variable_update=replicated --variable_consistency=relaxed": (False, True),
    "--variable_update=independent": (True, False),
}


@pytest.mark.parametrize("given", MODES)
def test_gradients_are_exchanged_and_late_as_the_flags_say(given: str) -> None:
    mode = mode_of(f"--num_gpus=4 --local_parameter_device=gpu {given}")
    assert (mode.independent, mode.delayed) == MODES[given]


@pytest.mark.parametrize(
    ("given", "algorithm"),
    [
        ("", "NcclAllReduce"),
        ("--hierarchical_copy", "HierarchicalCopyAllReduce"),
        ("--nouse_nccl --local_parameter_device=gpu", "psgpu"),
        ("--nouse_nccl --local_parameter_device=cpu", "pscpu"),
        ("--all_reduce_spec=xring#2", "xring of 2 shards"),
    ],
)
def test_gradients_are_reduced_by_the_algorithm_of_the_flags(given: str, algorithm: str) -> None:
    mode = mode_of(f"--num_gpus=4 --variable_update=replicated {given}")
    ops = mode.strategy.cross_device_ops  # type: ignore[attr-defined]
    axis = modes._axis(mode.strategy)
    assert type(ops).__name__ == algorithm or ops.describe(axis) == algorithm


@pytest.mark.parametrize(("given", "synchronous"), [("", True), ("--nocross_replica_sync", False)])
def test_workers_of_parameter_servers_wait_for_each_other_or_not(
    given: str, synchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []

    def strategy(resolver: Any, *, synchronous: bool) -> None:
        made.append(synchronous)

    monkeypatch.setattr(dl.distribute, "Server", lambda *_: None)
    monkeypatch.setattr(hosts, "wait_for_others", lambda flags, say: [])
    monkeypatch.setattr(dl.distribute, "ParameterServerStrategy", strategy)
    over = "--job_name=worker --worker_hosts=a:1,b:1 --ps_hosts=c:1"
    parameter_servers.strategy_of(flags.parse(f"{over} {given}".split()), lambda line: None)
    assert made == [synchronous]
