"""Contenders on a GPU that take turns: who is asked when, and what a turn of the program counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import contender
from benchmarks.gpu.groups import GROUPS, Group, Program, Torch


class FakeProcess:
    """Answers as a contender's process does; ``dies`` ends in its first turn."""

    asked: list[str]

    def __init__(self, arguments: list[str], log: Any) -> None:
        self.name, self.turns = arguments[1], 0

    def begin(self) -> None:
        self.asked.append(self.name)
        if self.name == "dies":
            raise RuntimeError("ended with exit code 1")
        self.turns += 1

    def answer(self, seconds: float) -> dict[str, Any]:
        if self.turns < 2:
            return {"compiled_s": 3.0} if self.turns else {"ready": True}
        return {"rate": 10.0 * self.turns, "loss": 0.5}

    def close(self) -> None:
        self.asked.append(f"{self.name} closed")


@pytest.mark.parametrize("at_once", [False, True])
def test_contenders_take_turns(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Program(())
    monkeypatch.setitem(GROUPS, "a", Group(8, {"one": nothing, "dies": nothing}))
    monkeypatch.setitem(GROUPS, "b", Group(4, {"two": nothing}))
    monkeypatch.setattr(gpu, "Process", FakeProcess)
    monkeypatch.setattr(FakeProcess, "asked", [], raising=False)
    found = gpu.run_together({"a": 8, "b": 4}, 5, 2, 60.0, tmp_path, at_once)
    assert FakeProcess.asked[:7] == ["one", "dies", "two", "one", "two", "one", "two"]
    assert sorted(FakeProcess.asked[7:]) == ["dies closed", "one closed", "two closed"]
    expected = {"ready": True, "compiled_s": 3.0, "rates": [20.0, 30.0], "loss": 0.5}
    assert found["a"]["one"] == found["b"]["two"] == expected
    assert found["a"]["dies"]["failure"] == "ended with exit code 1"


def test_a_process_that_ends_is_a_failure(tmp_path: Path) -> None:
    with open(tmp_path / "log", "w") as log:
        process = gpu.Process(["no such group", "x", "1", "1", "1"], log)
        with pytest.raises(RuntimeError, match="ended with exit code 1"):
            process.answer(60.0)
        process.close()
    assert "no such group" in (tmp_path / "log").read_text()


def test_the_programs_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm-up is the first; behind the first of those that count, a step has run ahead."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    clock = iter(range(1000))
    monkeypatch.setattr(contender.time, "perf_counter", lambda: float(next(clock)))
    lines = ["Running warm up", "Done warm up", "Step\tImg/sec\ttotal_loss"]
    shown = (1, 5, 10, 11)
    lines += [f"{at}\timages/sec: 9.0 +/- 0.0 (jitter = 0.0)\t{at}.5" for at in shown]
    given: list[Any] = []

    class Run:
        def __init__(self, flags: Any, say: Any) -> None:
            given.append(flags)
            self._say = say

        def run(self) -> None:
            for line in lines:
                self._say(line)

    class Turns:
        def __init__(self) -> None:
            self.answers: list[dict[str, Any]] = []

        def answer(self, **values: Any) -> None:
            self.answers.append(values)

        def wait(self) -> None:
            if len(self.answers) == 4:
                raise SystemExit

    monkeypatch.setattr("drumline.cnn.program.BenchmarkRun", Run)
    turns: Any = Turns()
    program = Program(("--model=trivial",))
    with pytest.raises(SystemExit):
        contender.run_program(program, 8, 5, 2, turns)
    (flags,) = given
    assert (flags.batch_size, flags.num_batches, flags.display_every) == (8, 11, 5)
    ready, compiled, first, second = turns.answers
    assert ready == {"ready": True} and compiled["compiled_s"] > 0
    assert (first["loss"], second["loss"]) == (5.5, 10.5)
    assert first["rate"] == 5 * 8 / 2  # two looks at the clock later
    assert second["rate"] == 4 * 8 / 1


def test_groups_name_what_there_is() -> None:
    from drumline.cnn.flags import parse

    for group in GROUPS.values():
        for each in group.contenders.values():
            if isinstance(each, Torch):
                assert each.dtype in ("float32", "bfloat16", "float16")
            else:
                assert parse(each.flags).model != "trivial"
