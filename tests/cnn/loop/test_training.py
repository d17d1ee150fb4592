"""In which order a run starts its steps, waits for them, and counts them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.cnn.loop import training
from drumline.cnn.loop.training import BenchmarkLoop, RunCheckpoints, RunPlan


class Steps:
    """Stands for a step; notes what is asked of it."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __call__(self, batch: int, with_gradients: bool = False) -> dict[str, Any]:
        self.events.append(f"start {batch}" + (" with gradients" if with_gradients else ""))
        return {"number": batch}

    def wait(self, results: dict[str, Any]) -> None:
        self.events.append(f"wait {results['number']}")

    def barrier(self) -> None:
        self.events.append("barrier")

    def report(self, results: dict[str, Any]) -> dict[str, float]:
        return {"total_loss": float(results["number"])}

    def gradients(self, results: dict[str, Any]) -> list[Any]:
        self.events.append(f"gradients {results['number']}")
        return []

    def collect(self) -> None:
        self.events.append("collect")


class Nothing(RunCheckpoints):
    """Saves nothing."""

    directory = None

    def __init__(self, step: int = 0) -> None:
        self.step: Any = type("Step", (), {"value": step})()

    def save(self, step: int) -> None: ...

    def due(self, step: int, plan: RunPlan) -> bool:
        return False


def run(plan: RunPlan, start: int = 0) -> tuple[Steps, list[str], Any]:
    steps, lines = Steps(), []
    loop = BenchmarkLoop(steps, itertools.count(), plan, Nothing(start), say=lines.append)  # type: ignore[arg-type]
    return steps, lines, loop.run()


def test_a_run_that_has_ended_trains_nothing() -> None:
    steps, lines, found = run(RunPlan(num_batches=3, num_warmup_batches=2, images=2), start=3)
    assert steps.events == [] and found.num_steps == 0
    assert lines == ["Nothing is left to do: the checkpoint is of step 3, and the run has 3."]


def test_the_last_loss_of_a_continued_run_is_looked_at() -> None:
    _, _, found = run(RunPlan(num_batches=7, num_warmup_batches=0, images=2), start=3)
    assert found.num_steps == 4 and found.loss == 3


def test_warm_up_and_evaluation_are_not_timed_and_the_last_step_is_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, saved = [0.0], []

    class Timed(Steps):
        def wait(self, results: dict[str, Any]) -> None:
            now[0] += 100 if results["number"] < 2 else 1

    class Saver(Nothing):
        def save(self, step: int) -> None:
            saved.append(step)

    def evaluate(step: int) -> float:
        now[0] += 1000
        return 0.0

    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    plan = RunPlan(7, 2, images=8, evaluate_after=lambda step: step == 5)
    loop = BenchmarkLoop(
        Timed(),  # type: ignore[arg-type]
        itertools.count(),
        plan,
        Saver(3),
        say=lambda line: None,
        evaluate=evaluate,
    )
    found = loop.run()
    assert (found.num_steps, found.average_wall_time, found.images_per_sec) == (4, 1.0, 8.0)
    assert saved == [7] and now == [1204.0]


@pytest.mark.parametrize(("goal", "steps"), [(0.5, 4), (0.6, 6), (0.61, 8), (None, 8)])
def test_a_run_ends_where_an_evaluation_reaches_the_goal(goal: float | None, steps: int) -> None:
    evaluated: list[int] = []

    def evaluate(step: int) -> float:
        evaluated.append(step)
        return {2: 0.1, 4: 0.5, 6: 0.6}[step]

    plan = RunPlan(8, 0, images=1, evaluate_after=lambda step: step % 2 == 0, stop_at=goal)
    lines: list[str] = []
    loop = BenchmarkLoop(
        Steps(),  # type: ignore[arg-type]
        itertools.count(),
        plan,
        Nothing(),
        say=lines.append,
        evaluate=evaluate,
    )
    assert loop.run().num_steps == steps
    assert evaluated == list(range(2, min(steps, 6) + 1, 2))  # the last one is the caller's
    assert any(line.startswith("Stopping, as eval accuracy") for line in lines) == (steps < 8)


@pytest.mark.parametrize(("every", "shown"), [(3, [1, 3, 6]), (10, [1]), (1, [*range(1, 8)])])
def test_lines_are_as_often_as_asked_and_the_first(every: int, shown: list[int]) -> None:
    _, lines, _ = run(RunPlan(7, 1, images=2, display_every=every))
    assert [int(line.split("\t")[0]) for line in lines if "\timages/sec" in line] == shown


def test_checkpoints_are_due_by_steps_or_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: now[0]))
    saver = RunCheckpoints(None, model_of(1.0), None)

    def due(**plan: Any) -> list[int]:
        return [step for step in range(1, 8) if saver.due(step, RunPlan(9, 0, 1, **plan))]

    assert due(save_steps=3) == [3, 6]
    assert due() == due(save_seconds=10) == []
    now[0] = 10.0
    assert due(save_seconds=10) == [*range(1, 8)]


def model_of(value: float) -> keras.Model:
    made = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    made.set_weights([np.full((2, 1), value)])
    return made


def test_a_run_goes_on_with_weights_slots_and_updates(tmp_path: Path) -> None:
    model = model_of(1.0)
    optimizer = keras.optimizers.SGD(0.5, momentum=0.9)
    saver = RunCheckpoints(str(tmp_path), model, optimizer, 2)
    for step in range(1, 4):
        optimizer.apply([np.full((2, 1), step, np.float32)], model.trainable_variables)
        saver.save(step)
    kept = [np.asarray(v) for v in (*model.variables, *optimizer.variables)]
    assert {path.stem for path in tmp_path.glob("ckpt-*")} == {"ckpt-2", "ckpt-3"}
    again, fresh = model_of(5.0), keras.optimizers.SGD(0.5, momentum=0.9)
    fresh.build(again.trainable_variables)
    restored = RunCheckpoints(str(tmp_path), again, fresh)
    assert restored.restore() is not None and int(restored.step.value) == 3
    for ours, theirs in zip((*again.variables, *fresh.variables), kept, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_summaries_have_the_rate_of_their_step() -> None:
    """The first step behind the warm-up has made as many updates as the warm-up has steps."""
    asked: list[int] = []
    plan = RunPlan(num_batches=4, num_warmup_batches=3, images=1, summary_steps=2)
    loop = BenchmarkLoop(
        Steps(),  # type: ignore[arg-type]
        itertools.count(),
        plan,
        Nothing(),
        say=lambda line: None,
        summaries=dl.summary.create_noop_writer(),
        learning_rate=lambda steps: asked.append(steps) or 0.0,  # type: ignore[func-returns-value]
    )
    loop.run()
    assert asked == [4, 6]


@pytest.mark.parametrize("verbosity", [1, 2, 3])
def test_summaries_ask_for_gradients_and_weights_of_their_step(verbosity: int) -> None:
    """Weights are those behind a step for as long as the next one is not begun."""
    steps = Steps()
    plan = RunPlan(4, 1, images=1, summary_steps=2, summary_verbosity=verbosity)
    loop = BenchmarkLoop(steps, itertools.count(), plan, Nothing(), say=lambda line: None)  # type: ignore[arg-type]
    loop.run()
    asked, at = [event for event in steps.events if "gradients" in event], steps.events.index
    if verbosity == 1:
        assert asked == []
        return
    assert asked == [
        "start 2 with gradients",
        "gradients 2",
        "start 4 with gradients",
        "gradients 4",
    ]
    assert (at("gradients 2") < at("start 3")) == (verbosity == 3)


@pytest.mark.parametrize("verbosity", [2, 3])
def test_a_summary_has_images_of_its_step(
    verbosity: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[int, Any] = {}
    monkeypatch.setattr(dl.summary, "image", lambda name, data: kept.update({len(kept): data}))
    rows = [np.full((5, 2, 2, 3), number, np.float32) for number in range(5)]
    for number, batch in enumerate(rows):
        batch[1:, 0, 0] = 0
        batch[1:, 0, 1] = number
        batch[1:, 1] = 10

    class Fed(Steps):
        strategy = dl.distribute.get_strategy()

        def __call__(self, batch: Any, with_gradients: bool = False) -> dict[str, Any]:
            return {"number": 0}

    loop = BenchmarkLoop(
        Fed(),  # type: ignore[arg-type]
        iter([(batch, None) for batch in rows]),
        RunPlan(4, 1, 1, summary_steps=2, summary_verbosity=verbosity, summary_images=True),
        Nothing(),
        say=lambda line: None,
        summaries=dl.summary.create_file_writer(str(tmp_path)),
    )
    loop.run()
    assert len(kept) == (2 if verbosity == 3 else 0)
    for image, number in zip(kept.values(), (2, 4), strict=False):
        assert image.shape == (3, 2, 2, 3)
        assert not image[0].any(), "it is of one color"
        assert image[1, ..., 0].ravel().tolist() == pytest.approx([0, number / 10, 1, 1])


@pytest.mark.parametrize("warmup", [0, 1, 2, 3])
def test_the_warm_up_has_two_steps_under_way_as_the_run_has(warmup: int) -> None:
    steps, lines, found = run(RunPlan(num_batches=3, num_warmup_batches=warmup, images=2))
    at = steps.events.index("barrier")
    before, after = steps.events[:at], steps.events[at + 1 :]
    assert before == _ahead(range(warmup))
    assert after == [*_ahead(range(warmup, warmup + 3)), "collect"]
    assert found.num_steps == 3 and found.loss == warmup + 2
    assert lines[0] == "Running warm up" and lines[-2].startswith("total images/sec: ")


def _ahead(numbers: range) -> list[str]:
    """Each step starts before the one in front of it is waited for."""
    events = [f"start {number}" for number in numbers[:1]]
    for number in numbers:
        events += [f"start {number + 1}"] if number + 1 in numbers else []
        events.append(f"wait {number}")
    return events


def test_the_step_that_is_traced_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()

    @contextlib.contextmanager
    def traced(path: str, say: Any) -> Iterator[None]:
        steps.events += ["trace"] if path else []
        yield
        steps.events += ["traced"] if path else []

    monkeypatch.setattr(training, "_traced", traced)
    plan = RunPlan(num_batches=1, num_warmup_batches=3, images=1, trace_file="a")
    BenchmarkLoop(steps, itertools.count(), plan, Nothing(), say=lambda line: None).run()  # type: ignore[arg-type]
    assert steps.events == [
        *["start 0", "wait 0", "trace", "start 1", "wait 1", "traced"],
        *["start 2", "wait 2", "barrier", "start 3", "wait 3", "collect"],
    ]
