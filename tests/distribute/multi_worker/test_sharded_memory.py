"""A model whose state no process may hold trains in several: what each of them is resident in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distribute.process_group.clusters import Cluster, running

MEMBER = "tests.distribute.multi_worker.sharded:member"
FOUR = ("127.0.0.1",) * 4


@pytest.mark.thorough
def test_four_processes_hold_little_more_than_a_fourth_each(tmp_path: Path) -> None:
    """With copies each would hold the state, of more than 3 GB; cut, less than 1.5 GB at any time.

    The state of a process is a fourth of that, 0.8 GB, and its part of the gradients 0.27 GB. The
    rest is XLA's code, and what a step holds of weights at a time: few of the sixteen.
    """
    arguments = {"trainings": [], "memory": {"layers": 16, "width": 4096}}
    one_each = {"DRUMLINE_CPU_DEVICES": "1"}
    cluster = Cluster("memory", MEMBER, arguments, FOUR, (0,) * 4, one_each)
    with running(tmp_path, [cluster]) as run:
        run.wait_for(*run.names, seconds=2400)
        ends = run.ended("memory")
    for end in ends:
        assert end.status == 0, end.log[-4000:]
        found = end.facts["memory"]
        print(found)
        assert found["whole state"] > 3e9
        assert found["peak"] < 1.5e9, found
        assert found["losses"] == ends[0].facts["memory"]["losses"]
