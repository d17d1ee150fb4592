"""Values that several processes reduce and gather outside of steps."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from drumline.distribute import MirroredStrategy, OneDeviceStrategy
from tests.distribute.multi_worker import reductions
from tests.distribute.process_group.clusters import Cluster, Ended, running
from tests.lost_processes import lost_in

MEMBER = "tests.distribute.multi_worker.reductions:member"
BY_GLOO = {"DRUMLINE_SHARED_MEMORY": "0"}
SOON = 15.0  # what takes about a second on an idle machine


def of(name: str, processes: int, env: dict[str, str] | None = None, **arguments: Any) -> Cluster:
    hosts, zygotes = ("127.0.0.1",) * processes, (0,) * processes
    return Cluster(name, MEMBER, arguments, hosts, zygotes, env or {})


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Ended]]:
    """How the processes of each cluster ended."""
    clusters = [
        of("2", 2),
        of("3", 3),
        of("2x2", 2, {"DRUMLINE_CPU_DEVICES": "2"}),
        of("2 by Gloo", 2, BY_GLOO),
        of("3 by Gloo", 3, BY_GLOO),
        of("killed", 3, fault=True),
        of("1, counted", 1, count=True),
        of("2, counted", 2, count=True),
    ]
    with running(tmp_path_factory.mktemp("reductions"), clusters) as run:
        run.wait_for(*run.names)
        ends = {cluster.name: run.ended(cluster.name) for cluster in clusters}
    for name, members in ends.items():
        for end in members:
            assert name == "killed" or end.status == 0, f"{name}: {end.log[-4000:]}"
    return ends


SIGNED = "gathered special"
"""XLA's own way, which adds what a replica has to zeros, makes zeros of -0.0 and of denormals."""


def without(combined: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in combined.items() if key != name}


@pytest.mark.parametrize("name", ["2", "3"])
def test_the_bits_are_those_of_messages(ended: dict[str, list[Ended]], name: str) -> None:
    first, *others = [end.facts["combined"] for end in ended[name]]
    assert others == [first] * (int(name) - 1)
    for end in ended[f"{name} by Gloo"]:
        assert without(end.facts["combined"], SIGNED) == without(first, SIGNED)


@pytest.mark.parametrize(("name", "replicas"), [("2", 2), ("2x2", 4)])
def test_the_bits_are_those_of_one_process(
    ended: dict[str, list[Ended]], name: str, replicas: int
) -> None:
    strategy = MirroredStrategy([f"cpu:{index}" for index in range(replicas)])
    expected = without(reductions.combined(strategy), SIGNED)
    for end in ended[name]:
        assert without(end.facts["combined"], SIGNED) == expected


def test_the_order_is_that_of_the_replicas(ended: dict[str, list[Ended]]) -> None:
    arrays = [reductions.given(replica)["float32"] for replica in range(3)]
    total = (arrays[0] + arrays[1]) + arrays[2]
    assert total.tobytes() != ((arrays[2] + arrays[1]) + arrays[0]).tobytes()
    assert ended["3"][0].facts["combined"]["sum float32"] == reductions.described(total)


def test_what_is_gathered_keeps_every_bit(ended: dict[str, list[Ended]]) -> None:
    gathered = np.concatenate([reductions.given(replica)["special"] for replica in range(3)])
    assert ended["3"][1].facts["combined"][SIGNED] == reductions.described(gathered)


def test_one_device_gives_what_it_has() -> None:
    found = reductions.combined(OneDeviceStrategy("cpu:0"))
    assert found["sum float32"] == reductions.described(reductions.given(0)["float32"])


@pytest.mark.parametrize(("name", "replicas"), [("2", 2), ("3", 3), ("2x2", 4)])
def test_steps_and_reductions_in_turns(
    ended: dict[str, list[Ended]], name: str, replicas: int
) -> None:
    for end in ended[name]:
        for number, found in enumerate(end.facts["totals"]):
            total = sum(number + replica for replica in range(replicas))
            assert found == [total, 3000 * total * replicas, total, number + replicas - 1]


@pytest.mark.parametrize(("name", "replicas"), [("2", 2), ("3", 3), ("2x2", 4)])
def test_a_step_has_reduced_its_small_results(
    ended: dict[str, list[Ended]], name: str, replicas: int
) -> None:
    total = replicas * (replicas + 1) / 2
    expected = [total / 8, total / 8 / replicas, total, total / replicas, 1, 1 / replicas]
    np.testing.assert_allclose(ended[name][1].facts["alone"], expected, rtol=1e-7)


def test_a_step_takes_as_many_instructions_in_two_processes_as_in_one(
    ended: dict[str, list[Ended]],
) -> None:
    alone = ended["1, counted"][0].facts["instructions"]
    for end in ended["2, counted"]:
        assert alone / 2 < end.facts["instructions"] < 1.1 * alone


def test_a_process_that_is_killed_meanwhile_is_named(ended: dict[str, list[Ended]]) -> None:
    survivor, killed, other = ended["killed"]
    assert killed.status == -9
    for end in (survivor, other):
        assert end.status not in (0, None), end.log
        assert end.record is not None, end.log
        assert (end.record.kind, end.record.peer) == ("peer lost", "worker:1")
        assert "has died (killed, or aborted)" in end.record.message
        assert lost_in(end.record.message, "worker:1")["pid"]
        assert end.time - killed.time < SOON
    assert all(end.facts["reduces"] == reductions.FATAL for end in itertools.chain(ended["killed"]))
