"""Processes that restore together: each comes to the same checkpoint, or says so and ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from drumline.distribute.process_group.group import ProcessGroup
from drumline.distribute.process_group.one_writer import OneWriter
from drumline.train import DamagedCheckpointError


class Blackboard:
    """What processes write for each other, without the processes."""

    def __init__(self) -> None:
        self.name = ""
        self.told: dict[tuple[int, int], dict[str, Any]] = {}

    def name_job(self, name: str) -> None:
        assert not self.name, "is written once"
        self.name = name

    def job(self) -> str:
        return self.name

    def tell_restored(self, number: int, process: int, restored: Mapping[str, Any]) -> None:
        assert (number, process) not in self.told, "is written once"
        self.told[number, process] = dict(restored)

    def restored(self, number: int) -> dict[int, dict[str, Any]]:
        return {process: each for (n, process), each in self.told.items() if n == number}


def writers(count: int) -> list[OneWriter]:
    board: Any = Blackboard()
    tasks = tuple(f"worker:{index}" for index in range(count))
    addresses = ("a:1",) * count
    return [OneWriter(ProcessGroup("worker", i, i, tasks, addresses), board) for i in range(count)]


def test_a_job_has_one_name() -> None:
    first, second = writers(2)
    assert first.job() == second.job() != writers(1)[0].job()


def test_processes_that_come_to_the_same_go_on() -> None:
    first, second = writers(2)
    for damaged in ([], ["d/ckpt-3"]):
        for each in (first, second):
            each.restored("d/ckpt-2", damaged)
    # Nothing was damaged: processes may restore what they like.
    first.restored("own-0/ckpt-4", [])
    second.restored(None, [])


@pytest.mark.parametrize("is_first", [False, True])
def test_one_that_had_to_go_back_further_than_another_ends(is_first: bool) -> None:
    first, second = writers(2)
    goes_back, other = (first, second) if is_first else (second, first)
    own = r"found \['ckpt-3'\] damaged"
    goes_back.restored("one/ckpt-2", ["one/ckpt-3"])
    with pytest.raises(
        DamagedCheckpointError, match=f"restored 'ckpt-3'.*restored 'ckpt-2'.*{own}"
    ):
        other.restored("two/ckpt-3", [])
    first, second = writers(2)
    goes_back, other = (first, second) if is_first else (second, first)
    other.restored("two/ckpt-3", [])
    with pytest.raises(DamagedCheckpointError, match=f"restored 'ckpt-2' and {own}"):
        goes_back.restored("one/ckpt-2", ["one/ckpt-3"])
