"""Step profiles of loops: what is slow on purpose is what they name."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

import drumline as dl
from drumline import _recorder
from drumline.profiler import EpochProfile, ProcessShare, StepProfile, prometheus
from tests.profiler.disturbances import again_if_disturbed

DELAY = 0.004


def dataset(steps: int, batch: int = 4) -> dl.data.Dataset:
    return dl.data.Dataset.from_tensor_slices(np.ones((steps * batch, 8), np.float32)).batch(batch)


def gram(x: Any) -> Any:
    return (x @ x.T).sum()


def loop(
    profile: StepProfile,
    strategy: dl.distribute.Strategy,
    batches: Any,
    epochs: int = 2,
    between: Any = lambda: None,
) -> Any:
    total = None
    for _ in range(epochs):
        for batch in batches:
            total = strategy.run(gram, args=(batch,))
            between()
        profile.end_epoch()
    return total


def adds_up(profile: StepProfile) -> None:
    for epoch in profile.epochs:
        assert sum(epoch.parts.values()) == pytest.approx(epoch.seconds, rel=1e-9)
        assert set(epoch.parts) == set(_recorder.PARTS)
        assert all(seconds >= 0 for seconds in epoch.parts.values())


@pytest.mark.parametrize("devices", [["cpu:0"], ["cpu:0", "cpu:1"]])
@again_if_disturbed
def test_a_slow_map_is_named(devices: list[str]) -> None:
    slept = []

    def decode_slowly(x: Any) -> Any:
        began = time.perf_counter()
        time.sleep(DELAY / 4)
        slept.append(time.perf_counter() - began)
        return np.asarray(x) * np.float32(2)

    rows = dl.data.Dataset.from_tensor_slices(np.ones((80, 8), np.float32))
    strategy = dl.distribute.MirroredStrategy(devices)
    batches = strategy.experimental_distribute_dataset(
        rows.map(lambda x: x + 1).map(decode_slowly).batch(4)
    )
    with dl.profile_steps() as profile:
        loop(profile, strategy, batches)
    adds_up(profile)
    first, second = profile.epochs
    assert (second.steps, second.rows) == (20, 80)
    assert second.stage == "map decode_slowly"
    assert second.parts["input"] == pytest.approx(sum(slept[-80:]), rel=0.5)
    assert second.parts["input"] > 0.5 * (second.seconds - second.parts["profiler"])
    assert "input: map decode_slowly" in str(second)
    assert first.parts["compiling"] > second.parts["compiling"]


@again_if_disturbed
def test_what_python_does_between_steps_is_python() -> None:
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")
    slept = []

    def rest() -> None:
        began = time.perf_counter()
        time.sleep(DELAY)
        slept.append(time.perf_counter() - began)

    with dl.profile_steps() as profile:
        loop(profile, strategy, dataset(20), between=rest)
    adds_up(profile)
    whole = sum(slept[20:])
    assert whole - 0.01 <= profile.epochs[1].parts["Python"] <= 1.5 * whole
    assert profile.epochs[1].share("Python") > 0.7


@again_if_disturbed
def test_a_checkpoint_is_checkpointing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drumline.training.checkpoint import file_format

    written = file_format.write

    def slow(*args: Any) -> Any:
        time.sleep(0.05)
        return written(*args)

    checkpoint = dl.train.Checkpoint(number=dl.Variable(1.0))
    manager = dl.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    with monkeypatch.context() as patched, dl.profile_steps() as profile:
        patched.setattr(file_format, "write", slow)
        loop(profile, dl.distribute.OneDeviceStrategy("cpu:0"), dataset(4), 1, manager.save)
    adds_up(profile)
    parts = profile.epochs[0].parts
    assert 0.2 <= parts["checkpointing"] < 0.6
    assert parts["Python"] < 0.1


@again_if_disturbed
def test_a_long_program_is_computing() -> None:
    """The wait for it is in Python's hands, and nothing but its end tells."""
    square = np.ones((500, 500), np.float32) / 500
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")

    def power(x: Any) -> Any:
        return jax.lax.fori_loop(0, 60, lambda _, y: y @ x, x)

    with dl.profile_steps() as profile:
        for _ in range(2):
            for _ in range(4):
                out = strategy.run(power, args=(square,))
                np.asarray(out)
            profile.end_epoch()
    adds_up(profile)
    assert profile.epochs[1].share("computing") > 0.7
    assert profile.epochs[1].goodput == profile.epochs[1].share("computing")


@again_if_disturbed
def test_input_read_while_a_device_computes_is_no_wait() -> None:
    square = np.ones((600, 600), np.float32) / 600
    strategy = dl.distribute.OneDeviceStrategy("cpu:0")

    def read(x: Any) -> Any:
        time.sleep(0.01)
        return np.asarray(x)

    def power(_: Any, x: Any) -> Any:
        return jax.lax.fori_loop(0, 40, lambda _, y: y @ x, x)

    batches = dataset(6).map(read)
    with dl.profile_steps() as profile:
        for _ in range(2):
            for batch in batches:
                out = strategy.run(power, args=(batch, square))
            out.block_until_ready()
            profile.end_epoch()
    adds_up(profile)
    # All reads but the first of an epoch happen behind a program that takes longer.
    assert profile.epochs[1].parts["input"] < 0.03
    assert profile.epochs[1].share("computing") > 0.6


def test_a_loop_of_plain_jax_notes_its_steps() -> None:
    step = jax.jit(lambda x: (x @ x.T).sum())
    with dl.profile_steps() as profile:
        for batch in dataset(5):
            profile.step(step(batch), rows=len(batch))
    (epoch,) = profile.epochs
    assert (epoch.steps, epoch.rows) == (5, 20)
    adds_up(profile)


def test_the_flops_are_those_of_the_model_and_the_share_is_of_the_peak() -> None:
    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    batches = strategy.experimental_distribute_dataset(dataset(6))
    with dl.profile_steps() as profile:
        loop(profile, strategy, batches)
    epoch = profile.epochs[1]
    assert epoch.flops == 6 * 2 * (2 * 2 * 2 * 8)  # of two replicas, two rows each
    assert epoch.peak is not None and epoch.flops_per_second is not None
    assert epoch.share_of_peak == pytest.approx(epoch.flops_per_second / epoch.peak)
    assert 0 < epoch.share_of_peak < 1


def test_the_trace_of_some_steps_is_made_of_short_epochs_too() -> None:
    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])

    def step(x: Any) -> Any:
        return dl.distribute.get_replica_context().all_reduce("SUM", x.sum(0))

    batches = strategy.experimental_distribute_dataset(dataset(3))
    with dl.profile_steps() as profile:
        for _ in range(4):
            for batch in batches:
                strategy.run(step, args=(batch,))
            profile.end_epoch()
    assert not profile.epochs[0].communication_known
    assert profile.epochs[-1].communication_known


def test_one_profile_at_a_time() -> None:
    with dl.profile_steps() as profile:
        with pytest.raises(RuntimeError, match="a time"), dl.profile_steps():
            pass
        assert _recorder.active is profile._recorder
    assert _recorder.active is None
    with pytest.raises(RuntimeError, match="has ended"):
        profile.end_epoch()


def test_an_error_in_the_block_ends_the_profile() -> None:
    def fails() -> None:
        raise ZeroDivisionError

    strategy = dl.distribute.OneDeviceStrategy("cpu:0")
    with pytest.raises(ZeroDivisionError), dl.profile_steps() as profile:
        loop(profile, strategy, dataset(2), 1, fails)
    assert _recorder.active is None and not profile.epochs
    names = [thread.name for thread in threading.enumerate()]
    assert "drumline step profile" not in names


@pytest.mark.parametrize("steps", [3, (5,), (4, 4), (-1, 2), ("a", "b")])
def test_wrong_steps_are_refused(steps: Any, tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"such as \(10, 12\)"),
        dl.profile_steps(trace=tmp_path, steps=steps),
    ):
        pass
    assert _recorder.active is None


def test_the_numbers_of_a_training_are_the_same() -> None:
    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])

    def train() -> np.ndarray:
        with strategy.scope():
            weights = keras.Variable(np.linspace(0, 1, 8, dtype=np.float32))

        def step(x: Any) -> Any:
            weights.assign_add(0.01 * x.sum(0) * weights.value)
            return weights.value.sum()

        for batch in strategy.experimental_distribute_dataset(dataset(10)):
            strategy.run(step, args=(batch,))
        return np.asarray(weights)

    plain = train()
    with dl.profile_steps():
        profiled = train()
    np.testing.assert_array_equal(plain, profiled)


def epoch_of(**parts: float) -> EpochProfile:
    whole = dict.fromkeys(_recorder.PARTS, 0.0) | parts
    return EpochProfile(0, sum(whole.values()), 10, 100, whole, {})


def test_the_line_says_shares_in_falling_order() -> None:
    epoch = EpochProfile(
        number=1,
        seconds=10.0,
        steps=100,
        rows=12900,
        parts=dict.fromkeys(_recorder.PARTS, 0.0)
        | {"computing": 8.7, "input": 0.9, "communication": 0.4},
        details={"communication": {"all-reduce": 0.4}},
        stage="map parse",
        flops=4.1e9,
        peak=1e9,
        slow="worker:3",
    )
    assert str(epoch) == (
        "epoch 2: 10 s, 87 % computing, 9 % input: map parse, 4 % all-reduce; 1,290 rows/s; "
        "41 % of peak; worker:3 is slow"
    )
    assert epoch.goodput == pytest.approx(0.91)
    assert epoch.step_seconds == pytest.approx(0.1)


def test_rates_are_of_the_time_of_steps() -> None:
    """Without compiling, validation, checkpoints and the profiler; communication belongs to it."""
    parts = {"computing": 2.0, "communication": 1.0, "input": 0.5, "Python": 0.5}
    others = {"compiling": 8.0, "validation": 4.0, "checkpointing": 2.0, "profiler": 1.0}
    epoch = dataclasses.replace(epoch_of(**parts, **others), flops=6e9, peak=3e9)
    assert epoch.step_seconds == pytest.approx(4.0 / 10)
    assert epoch.rows_per_second == pytest.approx(100 / 4.0)
    assert epoch.flops_per_second == pytest.approx(6e9 / 4.0)
    assert epoch.share_of_peak == pytest.approx(0.5)
    assert epoch.goodput == pytest.approx(3 / 19)


COUNTERS = {
    "drumline_step_steps_total": 20.0,
    "drumline_step_rows_total": 200.0,
    "drumline_step_epochs_total": 2.0,
}
GAUGES = {
    "drumline_step_step_seconds": 0.2,
    "drumline_step_rows_per_second": 50.0,
    "drumline_step_goodput": 1.0,
    "drumline_step_profiler_share": 0.125,
    "drumline_step_flops_per_second": 5e8,
    "drumline_step_share_of_peak": 0.25,
    "drumline_step_host_bytes": 7.0,
    "drumline_step_device_bytes": 8.0,
    "drumline_step_communicated_bytes": 9.0,
}


def test_metrics_have_their_names_kinds_and_units() -> None:
    """Seconds and bytes, as Prometheus's conventions have it, and shares of 1."""
    first = epoch_of(computing=3.0, input=1.0)
    last = dataclasses.replace(
        epoch_of(computing=1.5, communication=0.5),
        flops=1e9,
        peak=2e9,
        host_bytes=7,
        device_bytes=8,
        communicated=9,
        profiler_seconds=0.25,
        processes=(ProcessShare('odd"name', 0.125, 0.1, 0.0, 0.0, 10),),
    )
    lines = prometheus.as_text([first, last]).splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    assert kinds == {
        "drumline_step_seconds_total": "counter",
        "drumline_step_own_seconds": "gauge",
        **dict.fromkeys(COUNTERS, "counter"),
        **dict.fromkeys(GAUGES, "gauge"),
    }
    assert {line.split()[2] for line in lines if line.startswith("# HELP")} == set(kinds)
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    found = {name: float(value) for name, value in samples}
    parts = dict.fromkeys(map(str.lower, _recorder.PARTS), 0.0)
    parts |= {"computing": 4.5, "input": 1.0, "communication": 0.5}
    of_parts = {f'drumline_step_seconds_total{{part="{part}"}}': n for part, n in parts.items()}
    own = {r'drumline_step_own_seconds{process="odd\"name"}': 0.125}
    assert found == {**of_parts, **COUNTERS, **GAUGES, **own}


def test_a_profile_is_saved_drawn_and_summed(tmp_path: Path) -> None:
    profile = StepProfile()
    with pytest.raises(ValueError, match="No epoch"):
        _ = profile.total
    with pytest.raises(ValueError, match="nothing to draw"):
        profile.plot(tmp_path / "none.png")
    profile.epochs += [epoch_of(computing=3.0, Python=1.0), epoch_of(computing=2.0, input=2.0)]
    assert profile.total.seconds == 8 and profile.total.goodput == pytest.approx(5 / 8)
    assert (profile.total.steps, profile.total.rows) == (20, 200)
    profile.save_json(tmp_path / "profile.json")
    saved = json.loads((tmp_path / "profile.json").read_text())
    assert [epoch["goodput"] for epoch in saved] == [0.75, 0.5]
    pytest.importorskip("matplotlib", reason="the picture is drawn by matplotlib")
    profile.plot(tmp_path / "profile.png")
    assert (tmp_path / "profile.png").read_bytes().startswith(b"\x89PNG")
