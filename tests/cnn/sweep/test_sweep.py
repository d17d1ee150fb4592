"""Sweeps: their cases, what is kept of them, and the page that they end in."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumline._recorder import PARTS
from drumline.cnn.loop.reporting import BenchmarkLog
from drumline.cnn.sweep import command, page, picture
from drumline.cnn.sweep.cases import Case, Result, Results, cases_of, run, run_all
from drumline.cnn.sweep.page import Machine
from drumline.profiler import EpochProfile

GPUS = Machine("a GPU", peak_flops=1e12, copy_bytes=1e11, shares_processors=False)
SPEEDS = {
    (1, "replicated"): 100.0,
    (2, "replicated"): 150.0,
    (2, "parameter_server"): 120.0,
    (2, "independent"): 200.0,
}


def results() -> list[Result]:
    return [
        Result(
            Case("vgg16", n, mode),
            speed,
            32,
            step_time={"computing": 0.6, "communication": 0.25, "input": 0.1, "python": 0.05},
            stage="map decode",
        )
        for (n, mode), speed in SPEEDS.items()
    ]


def test_one_device_is_run_once() -> None:
    cases = cases_of(["a", "b"], [1, 2], ["replicated", "independent"], ["--use_bf16"])
    found = [(case.model, case.devices, case.mode) for case in cases]
    of_one = [(1, "replicated"), (2, "replicated"), (2, "independent")]
    assert found == [(model, *each) for model in ("a", "b") for each in of_one]
    assert cases[0].arguments == [
        "--model=a",
        "--num_gpus=1",
        "--variable_update=replicated",
        "--use_bf16",
    ]
    assert len({case.key for case in cases}) == len(cases)


def test_rows_beside_one_another() -> None:
    rows = {
        (row.result.case.devices, row.result.case.mode): row
        for row in page.rows_of(results(), GPUS, {"vgg16": 10**9})
    }
    assert rows[2, "replicated"].efficiency == pytest.approx(0.75)
    row = rows[2, "replicated"]
    assert (row.computing, row.communication, row.input) == (0.6, 0.25, 0.1)
    assert row.rest == pytest.approx(0.05)
    unknown = dataclasses.replace(row, communication=None)
    assert unknown.rest == pytest.approx(0.3)
    assert dataclasses.replace(row, computing=None).rest is None
    # 150 images of 3 x 2 x 1e9 FLOPs, of 2 x 1e12.
    assert rows[2, "replicated"].peak_share == pytest.approx(0.45)
    shared = dataclasses.replace(GPUS, shares_processors=True)
    (first, *_) = page.rows_of(results()[1:2] + results()[:1], shared, {})
    assert first.efficiency == pytest.approx(1.5) and first.peak_share is None


def test_the_page_says_what_was_found_and_what_failed() -> None:
    rows = page.rows_of(results(), GPUS, {"vgg16": 10**9})
    failed = [Result(Case("nasnet", 2, "replicated"), None, error="no memory\nof so much")]
    text = page.markdown(rows, failed, GPUS, "sweep.png")
    assert "| vgg16 | 2 | replicated | 32 | 150.0 | 75% | 45% | 60% | 25% | 10% | 5% |" in text
    assert "`--variable_update=replicated` is the fastest mode here" in text
    assert "25% of a step is communication" in text
    assert "devices wait for images 10% of the time (map decode)" in text
    assert "--model=nasnet --num_gpus=2 --variable_update=replicated`: of so much" in text
    assert "(sweep.png)" in text
    found = json.loads(json.dumps(page.to_json(rows, failed, GPUS)))
    assert found["advice"]
    for row in found["rows"]:
        shares = [row[part] for part in ("computing", "communication", "input", "rest")]
        assert sum(shares) == pytest.approx(1)


def test_modes_that_hardly_differ_are_not_ranked() -> None:
    close = [
        Result(Case("a", 2, mode), speed, 8)
        for mode, speed in (
            ("replicated", 100.0),
            ("parameter_server", 101.0),
        )
    ]
    assert not page.advice(page.rows_of(close, GPUS, {}), GPUS)


def test_flags_of_all_and_of_a_model_are_told_apart() -> None:
    flags = {"a": ("--x=1",), "b": ("--data_name=cifar10", "--x=1")}
    found = [Result(Case(m, 1, "replicated", own), 1.0, 8) for m, own in flags.items()]
    rows = page.rows_of(found, GPUS, {})
    assert "All with `--x=1`. b with `--data_name=cifar10`." in page.markdown(rows, [], GPUS, None)


def test_each_model_has_its_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Case] = []

    def run_all(cases: list[Case], *_: Any) -> Iterator[Any]:
        ran.extend(cases)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(command, "run_all", run_all)
    monkeypatch.setattr("drumline.cnn.models.build", lambda *_, **__: None)
    monkeypatch.setattr("drumline.cnn.models.multiply_adds", lambda _: 1)
    given = ["--models=lenet,resnet20", "--devices=1", f"--out={tmp_path}", "--batch_size=2"]
    assert command.main(given) == 130
    assert [case.flags for case in ran] == [
        ("--batch_size=2",),
        ("--data_name=cifar10", "--batch_size=2"),
    ]
    with pytest.raises(SystemExit):
        command.main([*given, "--data_name=imagenet"])


def test_a_sweep_that_is_ended_ends_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[subprocess.Popen[str]] = []
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *_: Any, **options: Any) -> None:
            super().__init__(sleeping, **options)
            began.append(self)

        def communicate(self, *args: Any, **options: Any) -> Any:
            os.kill(os.getpid(), signal.SIGTERM)
            return super().communicate(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, command.ended_with_its_case():
        run(Case("trivial", 1, "replicated"), 600)
    assert ended.value.code == 128 + signal.SIGTERM
    assert began[0].wait(timeout=60) == -signal.SIGKILL
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("most", [2, 4])
def test_the_picture_is_drawn(tmp_path: Path, most: int) -> None:
    path = tmp_path / "sweep.png"
    more = [] if most == 2 else [Result(Case("vgg16", 4, "replicated"), 280.0, 32)]
    picture.draw(page.rows_of(results() + more, GPUS, {}), GPUS, path)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 10_000


def test_what_has_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(case: Case, seconds: float) -> Result:
        ran.append(case.mode)
        return Result(case, None if case.mode == "independent" else 1.0, error="it failed")

    monkeypatch.setattr("drumline.cnn.sweep.cases.run", run)
    cases = cases_of(["a"], [2], ["replicated", "independent"], [])
    first = list(run_all(cases, Results(tmp_path), 1))
    assert [kept for _, kept in first] == [False, False]
    again = list(run_all(cases, Results(tmp_path), 1))
    assert [kept for _, kept in again] == [True, False], "what failed is tried again"
    assert ran == ["replicated", "independent", "independent"]
    assert again[0][0] == first[0][0]
    (tmp_path / "cases" / f"{cases[0].key}.json").write_text("{")
    assert Results(tmp_path).get(cases[0]) is None, "a damaged file is none"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--devices=two"], "write numbers"),
        (["--devices=0"], "one device or more"),
        (["--modes=horovod"], "a sweep is of one host"),
        (["--models=vgg17"], "Did you mean"),
        (["--models=trivial", "--modle=x"], "no flag --modle"),
    ],
)
def test_what_is_refused(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([*arguments, f"--out={tmp_path}"])
    assert ended.value.code == 2 and why in capsys.readouterr().err


def test_a_case_says_what_the_time_of_its_steps_went_to() -> None:
    flags = ("--batch_size=4", "--num_batches=8")
    found = run(Case("trivial", 2, "replicated", flags), 600)
    assert found.images_per_second and not found.error
    assert sum(found.step_time.values()) == pytest.approx(1)
    assert found.step_time["computing"] > 0 and "profiler" not in found.step_time
    assert 0 < found.step_time["communication"] < 1, "gradients are summed within the program"
    assert Result.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_the_profile_of_a_step_is_that_of_the_timed_steps(tmp_path: Path) -> None:
    parts = dict.fromkeys(PARTS, 0.0) | {"computing": 6.0, "input": 2.0, "profiler": 2.0}
    epoch = EpochProfile(1, 10.0, 4, 16, parts, {}, stage="map decode", communication_known=False)
    BenchmarkLog(tmp_path).step_time(epoch, step=7)
    lines = [json.loads(line) for line in (tmp_path / "metric.log").read_text().splitlines()]
    shares = {line["name"]: line["value"] for line in lines}
    assert shares["step_time_share_computing"] == 0.75
    assert shares["step_time_share_input"] == 0.25
    assert "step_time_share_communication" not in shares, "it is not known"
    assert {line["global_step"] for line in lines} == {7}
    assert lines[0]["extras"] == [{"name": "stage", "value": "map decode"}]
