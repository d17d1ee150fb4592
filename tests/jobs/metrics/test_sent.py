"""Points of metric files on another machine: what arrives is what a reader there would find."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline._event_files import SummaryFile
from drumline._event_messages import scalar_message
from drumline.jobs.metrics import sent
from drumline.jobs.metrics.sent import PointFile, PointSender, is_written_by, point_path
from drumline.jobs.metrics.series import MetricReader, MetricSeries


class Link:
    """A folder there, and the folder of a start here, with lines of at most 4,096 bytes between."""

    def __init__(self, there: Path, here: Path, stem: str = "worker-0", **given: Any) -> None:
        here.mkdir(exist_ok=True)
        self.here = here
        self.lines: list[bytes] = []
        self.said: list[str] = []
        self.sender = PointSender(there, self._send, self.said.append, **given)
        self.path = point_path(here, stem)

    def _send(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(record, ensure_ascii=False).encode()
        assert len(line) < 4000
        self.lines.append(line)
        PointFile(self.path).add(json.loads(line))

    def found(self) -> dict[str, MetricSeries]:
        return MetricReader(self.here / "work").read([self.here])

    def sent(self) -> int:
        return sum(len(rows) for line in self.lines for rows in json.loads(line)["points"].values())


def write_csv(path: Path, rows: int, loss: float = 0.5, mode: str = "w") -> None:
    with open(path, mode, newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", "loss", "é"])
        writer.writerows([i, loss / (i + 1), math.nan] for i in range(rows))


def assert_same(found: Mapping[str, MetricSeries], wanted: Mapping[str, MetricSeries]) -> None:
    assert list(found) == list(wanted)
    for name, series in wanted.items():
        for own, other in zip(
            (found[name].steps, found[name].values, found[name].times),
            (series.steps, series.values, series.times), strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(own, other, name)


def test_what_arrives_is_what_is_there(tmp_path: Path) -> None:
    there = tmp_path / "there"
    (there / "runs").mkdir(parents=True)
    link, local = Link(there, tmp_path / "start"), MetricReader(there)
    files = [SummaryFile(there / "runs" / name) for name in ("train", "validation")]
    for part in range(4):
        for i, file in enumerate(files):
            for step in range(part * 50, part * 50 + 50):
                file.add(scalar_message("loss", step / 7 + i), step, 1e9 + step)
            file.flush()
        write_csv(there / "runs" / "log.csv", 10 * part)
        (there / "steps.prom").write_text(f"steps_total {part}\nseconds {part / 3}\n")
        wanted = local.read([])
        link.sender.look(end=part == 3)
        link.sender._due = 0.0
    for file in files:
        file.close()
    assert_same(link.found(), wanted)
    runs = ["runs/log/loss", "runs/log/é", "runs/train/loss", "runs/validation/loss"]
    assert sorted(wanted) == [*runs, "steps/seconds", "steps/steps_total"]
    assert link.said == []


def test_what_was_there_before_is_not_sent(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    write_csv(there / "old.csv", 5)
    write_csv(there / "grows.csv", 5)
    write_csv(there / "again.csv", 5)
    file = SummaryFile(there)
    file.add(scalar_message("x", 1.0), 1, 1e9)
    file.flush()
    link = Link(there, tmp_path / "start")
    link.sender.begin()
    file.add(scalar_message("x", 2.0), 2, 1e9 + 1)
    file.close()
    with open(there / "grows.csv", "a") as more:
        more.write("5,0.25,0\n")
    write_csv(there / "again.csv", 7, loss=3.0)
    link.sender.look(end=True)
    found = {name: series.values.tolist() for name, series in link.found().items()}
    assert found["x"] == [2.0] and found["grows/loss"] == [0.25]
    assert found["again/loss"] == [3.0 / (i + 1) for i in range(7)], "another one of that name"
    assert "old/loss" not in found


@given(st.lists(st.integers(0, 900), min_size=1, max_size=12))
@settings(deadline=None, max_examples=15)
def test_a_long_series_is_thinned(parts: list[int]) -> None:
    """It is begun and ended by its own points, evenly spaced between, and not much longer."""
    series, count = sent._Thinned(), 7 * sum(parts)
    took = [step for step in range(count) if series.takes((step, 0.0, math.nan))]
    if series.left:
        took.append(series.left[0])
    if not count:
        return
    assert took[0] == 0 and took[-1] == count - 1 and took[:1000] == list(range(count))[:1000]
    gaps = np.diff(took[:-1])
    assert (np.diff(gaps) >= 0).all(), "denser at the beginning"
    halvings = max(0.0, math.log2(max(1, count) / 1000))
    assert len(took) <= 1001 + 500 * (halvings + 1)


def test_which_points_of_a_long_series_are_sent() -> None:
    series = sent._Thinned()
    took = [step for step in range(8000) if series.takes((step, 0.0, math.nan))]
    every = [*range(1000), *range(1000, 2000, 2), *range(2000, 4000, 4), *range(4000, 8000, 8)]
    assert took == every and series.left == (7999, 0.0, series.left[2])


def test_there_is_an_end_to_what_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there"
    there.mkdir()
    file = SummaryFile(there)
    for number in range(300):
        file.add(scalar_message(f"m{number:03}", 1.0), 0, 1e9)
    file.add(scalar_message("n" * 300, 1.0), 0, 1e9)
    file.flush()
    link = Link(there, tmp_path / "start")
    link.sender.look()
    assert list(link.found()) == [f"m{i:03}" for i in range(256)]
    assert link.said == [
        "metrics behind the first 256 of them stay where they were written",
        "metrics with names of more than 200 characters stay where they were written",
    ]
    monkeypatch.setattr(sent, "_MOST_SENT", 1)
    before = link.sent()
    for step in range(1, 400):
        file.add(scalar_message("m000", step), step, 1e9 + step)
    file.close()
    link.sender._due = 0.0
    link.sender.look()
    link.sender.look(end=True)
    assert link.sent() == before
    assert len(link.said) == 3 and "points of metrics" in link.said[2]


def test_records_are_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = point_path(tmp_path, "worker-1.resumed-1")
    first = {"number": 1, "points": {"loss": [[0, 0.5, None]]}}
    PointFile(path).add(first)
    PointFile(path).add(first)
    with open(path, "a") as file:
        file.write('{"number": 2, "poi')  # as of a machine that lost power
    kept = PointFile(path)
    kept.add({"number": 2, "points": {"loss": [[1, 0.25, 1e9]], "x": []}})
    for wrong in ({"number": 3}, {"number": 3, "points": [1]}, {"number": 3, "points": {"a": [1]}},
                  {"number": 3, "points": {"a": [[2**63, 1, 1]]}}, {"number": "x"},
                  {"number": 3, "points": {"a": [[math.inf, 1, 1]]}}):  # fmt: skip
        with pytest.raises((KeyError, TypeError, ValueError, AttributeError, OverflowError)):
            kept.add(wrong)
    monkeypatch.setattr(sent, "_MOST_KEPT", path.stat().st_size + 10)
    kept.add({"number": 9, "points": {"loss": [[2, 0.125, 1e9]]}})
    (found,) = MetricReader(tmp_path).read([tmp_path]).items()
    assert found[0] == "loss" and found[1].values.tolist() == [0.5, 0.25]
    assert path.stat().st_mode & 0o777 == 0o600


def test_of_several_processes_the_others_are_named(tmp_path: Path) -> None:
    for index in range(2):
        there = tmp_path / f"there-{index}"
        there.mkdir()
        write_csv(there / "log.csv", 2, loss=index + 1)
        for number in (1, 2):  # Two starts, each of which goes on where the other was.
            link = Link(there, tmp_path / f"start-{number}", f"worker-{index}")
            if number == 2:
                link.sender.begin()
                with open(there / "log.csv", "a") as file:
                    file.write(f"2,{index}.125,0\n")
            link.sender.look(end=True)
    starts = [tmp_path / "start-1", tmp_path / "start-2"]
    found = MetricReader(tmp_path / "work").read(starts)
    assert {name: series.values.tolist() for name, series in found.items() if "loss" in name} == {
        "log/loss": [1.0, 0.5, 0.125],
        "log/loss (worker:1)": [2.0, 1.0, 1.125],
    }


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("events.out.tfevents.1700000000.j-8-1-x-worker-0-0.7.0.v2", True, False),
        ("events.out.tfevents.1700000000.j-8-1-x-worker-0-1.7.0.v2", False, True),
        ("events.out.tfevents.1700000000.j-8-1-x-worker-0-10.7.0.v2", False, False),
        ("events.out.tfevents.1700000000.elsewhere.7", True, False),
        ("log.csv", True, False),
        ("steps.prom", True, False),
    ],
)
def test_whose_files_are_in_a_shared_folder(name: str, first: bool, second: bool) -> None:
    assert is_written_by(name, "j-8-1-x-worker-0-0", "j-8-1-x-") is first
    assert is_written_by(name, "j-8-1-x-worker-0-1", "") is second
