"""Summaries of steps that run in several processes: the chief's first replica records."""

from __future__ import annotations

from pathlib import Path

from tests.distribute.process_group.clusters import Cluster, running
from tests.summary.reading import numbers, values


def test_the_chief_records_once(tmp_path: Path) -> None:
    cluster = Cluster(
        "recording",
        "tests.summary.members:member",
        {"folder": str(tmp_path)},
        env={"DRUMLINE_CPU_DEVICES": "2"},
    )
    with running(tmp_path / "logs", [cluster]) as run:
        run.wait_for(*run.names)
        for end in run.ended("recording"):
            assert end.status == 0, end.log
    replicas = 4
    rows = [[float(n * replicas + each) for each in range(replicas)] for n in range(2)]
    rows.append([2.0 * replicas])
    found = [(tag, step, array.tolist()) for tag, step, array in values(tmp_path / "0")]
    assert found == sorted(
        [
            *(("constant", step, [0, 1]) for step in range(3)),
            *(
                ("first", now, batch[0] + 10)
                for step, batch in enumerate(rows)
                for now in (step, step + 1)
            ),
            ("largest", 0, 4.0 / replicas),
            ("largest", 1, 4 + 4.0 / replicas),
            ("largest", 2, 9.0),
            *(("total", step, sum(batch)) for step, batch in enumerate(rows)),
        ],
        key=lambda each: each[:2],
    )
    assert numbers(tmp_path / "1") == []
