"""What a step profile says of its own cost is what it takes."""

from __future__ import annotations

import dataclasses
import functools
import time

import pytest

import drumline as dl
from drumline._recorder import StepRecorder
from drumline.profiler import StepProfile, step_profile
from tests.profiler.test_step_profile import dataset, loop

STEPS, EPOCHS = 40, 3


def profiled(steps: int = STEPS) -> StepProfile:
    with dl.profile_steps() as profile:
        loop(profile, dl.distribute.OneDeviceStrategy("cpu:0"), dataset(steps), EPOCHS)
    return profile


def test_it_is_at_least_its_part_and_is_in_the_line() -> None:
    first, _, last = profiled().epochs
    assert first.profiler_seconds > first.parts["profiler"] > 0
    recording = last.profiler_seconds - last.parts["profiler"]
    # A step makes a handful of events, of some microseconds each; a machine may be busy.
    assert 1e-6 * STEPS < recording < 1e-3 * STEPS
    assert last.profiler_share == pytest.approx(last.profiler_seconds / last.seconds)
    shown = dataclasses.replace(last, seconds=2.0, profiler_seconds=0.0246)
    assert str(shown).endswith("; 1.2 % for the profile itself")
    assert str(dataclasses.replace(shown, profiler_seconds=2.0)).endswith(
        "; 100 % for the profile itself"
    )
    assert last.numbers()["profiler_share"] == last.as_dict()["profiler_share"]


def test_recording_that_takes_longer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is read at each change of place, and takes 0.1 ms; one of some is timed."""
    read = 0

    def slow() -> float:
        nonlocal read
        read += 1
        until = time.perf_counter() + 1e-4
        while (now := time.perf_counter()) < until:
            pass
        return now

    monkeypatch.setattr(step_profile, "StepRecorder", functools.partial(StepRecorder, slow))
    total = profiled(10 * STEPS).total
    assert read >= 4 * 10 * STEPS * EPOCHS
    assert total.profiler_seconds - total.parts["profiler"] >= 0.7 * 1e-4 * read


def test_epochs_together_add_it_up() -> None:
    profile = profiled()
    each = [epoch.profiler_seconds for epoch in profile.epochs]
    assert profile.total.profiler_seconds == pytest.approx(sum(each))
