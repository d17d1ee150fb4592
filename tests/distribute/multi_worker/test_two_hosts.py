"""Two hosts that are 5 ms apart train the digits together, and lose each other."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from drumline.distribute import MirroredStrategy
from tests.distribute.multi_worker import trainings
from tests.distribute.multi_worker.test_equal_training import assert_close
from tests.distribute.process_group.clusters import Cluster, Ended, running
from tests.network_namespaces import two_hosts

SILENCE, SOON = 6, 30.0
TRAININGS = ["fit_digits", "loop", "eagerly"]


@pytest.fixture(scope="module")
def outcome(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[list[Ended], list[Ended], float]]:
    """How a training ended, how one whose cable was cut did, and when it was cut."""
    folder = tmp_path_factory.mktemp("hosts")
    with two_hosts(delay_milliseconds=5) as hosts:
        place: dict[str, Any] = {
            "hosts": hosts.addresses,
            "zygotes": (0, 1),
            "env": {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},
        }
        digits = {"trainings": TRAININGS, "folder": str(folder)}
        forever = {"fault": "none", "heartbeat": SILENCE}
        package = "tests.distribute.multi_worker"
        clusters = [
            Cluster("digits", f"{package}.trainings:member", digits, **place),
            Cluster("cut", f"{package}.faulty:member", forever, **place),
        ]
        start = [functools.partial(hosts.run, host) for host in (0, 1)]
        with running(folder, clusters, start) as run:
            run.wait_for("digits 0", "digits 1")
            for name in ("cut 0", "cut 1"):
                run.wait_until(name, '"training"')
            moment = time.time()
            hosts.link_down(1)
            run.wait_for("cut 0", "cut 1")
            yield run.ended("digits"), run.ended("cut"), moment


def test_two_hosts_train_as_one(outcome: tuple[list[Ended], list[Ended], float]) -> None:
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    for training in TRAININGS:
        expected = json.loads(json.dumps(getattr(trainings, training)(strategy)))
        for end in outcome[0]:
            assert end.status == 0, end.log
            assert_close(end.facts[training], expected)
    facts = outcome[0][0].facts
    assert facts["fit_digits"]["accuracy"] > 0.9
    assert_close(facts["eagerly"]["eager"], facts["eagerly"]["compiled"])


def test_a_cut_cable_is_named_on_both_sides(
    outcome: tuple[list[Ended], list[Ended], float],
) -> None:
    _, ends, moment = outcome
    for index, end in enumerate(ends):
        assert end.record is not None, end.log
        assert end.record.peer == f"worker:{1 - index}"
        message = end.record.message
        assert "has sent no heartbeat" in message or "does not answer" in message
        assert end.time - moment < SOON
