"""`StepProfiler` in `fit`: what is slow on purpose is what it names, and nothing else changes."""

from __future__ import annotations

import contextlib
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline import _recorder

STEPS, BATCH = 12, 8
ROWS = STEPS * BATCH


def strategy_of(kind: str) -> dl.distribute.Strategy | None:
    if kind == "none":
        return None
    if kind == "one":
        return dl.distribute.OneDeviceStrategy("cpu:0")
    if kind == "central":
        return dl.distribute.experimental.CentralStorageStrategy(["cpu:0", "cpu:1"])
    return dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])


KINDS = ("none", "one", "mirrored", "central")


def model_in(strategy: dl.distribute.Strategy | None, **options: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        model = keras.Sequential(
            [keras.Input((16,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1)]
        )
        model.compile(keras.optimizers.SGD(0.01), "mse", **options)
    return model


def rows() -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(1)
    return numbers.random((ROWS, 16), np.float32), numbers.random((ROWS, 1), np.float32)


def fit(model: keras.Model, data: Any, *callbacks: Any, epochs: int = 2, **options: Any) -> Any:
    profiler = dl.keras.callbacks.StepProfiler(verbose=0)
    x, y = data if isinstance(data, tuple) else (data, None)
    batch = {"batch_size": BATCH} if y is not None else {}
    model.fit(
        *(x, y), epochs=epochs, verbose=0, callbacks=[profiler, *callbacks], **batch, **options
    )
    for epoch in profiler.profile.epochs:
        assert sum(epoch.parts.values()) == pytest.approx(epoch.seconds, rel=1e-9)
    return profiler.profile


class Sleeps:
    """A function that sleeps, and knows for how long it did."""

    def __init__(self, seconds: float) -> None:
        self.slept: list[float] = []
        self._seconds = seconds

    def __call__(self) -> None:
        began = time.perf_counter()
        time.sleep(self._seconds)
        self.slept.append(time.perf_counter() - began)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_map_is_named(kind: str) -> None:
    sleep = Sleeps(0.002)

    def augment(x: Any, y: Any) -> Any:
        sleep()
        return np.asarray(x), np.asarray(y)

    data = dl.data.Dataset.from_tensor_slices(rows()).map(augment).batch(BATCH)
    profile = fit(model_in(strategy_of(kind)), data)
    epoch = profile.epochs[1]
    assert (epoch.steps, epoch.rows) == (STEPS, ROWS)
    assert epoch.stage == "map augment"
    assert epoch.parts["input"] == pytest.approx(sum(sleep.slept[-ROWS:]), rel=0.5)
    assert "input: map augment" in str(epoch)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_callback_is_named(kind: str) -> None:
    sleep = Sleeps(0.01)

    class Reports(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            logs["loss"].block_until_ready() if hasattr(logs["loss"], "is_ready") else None
            sleep()

    callback = Reports()
    profile = fit(model_in(strategy_of(kind)), rows(), callback)
    epoch = profile.epochs[1]
    whole = sum(sleep.slept[-STEPS:])
    assert epoch.details["Python"]["Reports"] == pytest.approx(whole, rel=0.3)
    assert "Python: Reports" in str(epoch)
    assert "on_train_batch_end" not in vars(callback)  # its own method again


@pytest.mark.parametrize("kind", ["none", "mirrored"])
def test_a_slow_checkpoint_is_checkpointing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = Sleeps(0.1)
    save = keras.saving.save_model

    def slow(*args: Any, **kwargs: Any) -> Any:
        sleep()
        return save(*args, **kwargs)

    monkeypatch.setattr("keras.src.saving.saving_api.save_model", slow)
    checkpoint = keras.callbacks.ModelCheckpoint(str(tmp_path / "model.keras"))
    epoch = fit(model_in(strategy_of(kind)), rows(), checkpoint).epochs[1]
    assert len(sleep.slept) == 2
    assert sleep.slept[1] <= epoch.parts["checkpointing"] <= sleep.slept[1] + 0.3


def test_a_backup_is_checkpointing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drumline.training.checkpoint import file_format

    sleep, write = Sleeps(0.1), file_format.write

    def slow(*args: Any) -> Any:
        sleep()
        return write(*args)

    monkeypatch.setattr(file_format, "write", slow)
    backup = keras.callbacks.BackupAndRestore(str(tmp_path))
    profile = fit(model_in(None), rows(), backup, epochs=3)
    assert profile.epochs[1].parts["checkpointing"] >= sleep.slept[0]


def test_validation_is_no_step_and_a_part_of_its_own() -> None:
    profile = fit(model_in(None), rows(), validation_data=rows())
    epoch = profile.epochs[1]
    assert epoch.steps == STEPS and epoch.rows == ROWS
    assert epoch.parts["validation"] > 0


def test_several_steps_an_execution_and_a_short_last_batch() -> None:
    x, y = rows()
    model = model_in(None, steps_per_execution=4)
    profile = fit(model, (x[:-3], y[:-3]))
    assert (profile.epochs[1].steps, profile.epochs[1].rows) == (STEPS, ROWS - 3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_flops_are_those_of_the_layers(kind: str) -> None:
    epoch = fit(model_in(strategy_of(kind)), rows()).epochs[1]
    if kind == "central":  # a step is several programs there
        assert epoch.flops is None and epoch.share_of_peak is None
        return
    # Forward, and the gradient of each kernel; that of the second layer's input as well.
    assert epoch.flops == ROWS * 2 * (2 * 16 * 32 + 3 * 32 * 1)
    assert epoch.peak is not None and 0 < epoch.share_of_peak < 1


@pytest.mark.parametrize("kind", ["none", "one", "mirrored"])
def test_no_step_is_traced_again(kind: str) -> None:
    traced: list[Any] = []

    class Counts(keras.layers.Dense):
        def call(self, inputs: Any, training: Any = None) -> Any:
            traced.append(inputs)
            return super().call(inputs)

    def calls(*callbacks: Any) -> int:
        strategy = strategy_of(kind)
        with contextlib.nullcontext() if strategy is None else strategy.scope():
            model = keras.Sequential([keras.Input((16,)), Counts(1)])
            model.compile("sgd", "mse")
        traced.clear()
        model.fit(*rows(), batch_size=BATCH, epochs=2, verbose=0, callbacks=list(callbacks))
        return len(traced)

    assert calls(dl.keras.callbacks.StepProfiler(verbose=0)) == calls()


def test_the_share_of_collectives_is_seen_in_a_trace() -> None:
    profile = fit(model_in(strategy_of("mirrored")), rows(), epochs=3)
    epoch = profile.epochs[-1]
    assert epoch.communication_known
    assert 0 < epoch.details["communication"]["all-reduce"] < epoch.seconds


@pytest.mark.parametrize(("kind", "eager"), [*((kind, False) for kind in KINDS), ("none", True)])
def test_the_numbers_of_a_training_are_the_same(kind: str, eager: bool) -> None:
    plain = model_in(strategy_of(kind), run_eagerly=eager)
    plain.fit(*rows(), batch_size=BATCH, epochs=2, verbose=0)
    profiled = model_in(strategy_of(kind), run_eagerly=eager)
    profile = fit(profiled, rows())
    for one, other in zip(plain.get_weights(), profiled.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert profile.epochs[1].steps == STEPS


def test_a_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    profiler = dl.keras.callbacks.StepProfiler()
    model_in(None).fit(*rows(), batch_size=BATCH, epochs=2, verbose=0, callbacks=[profiler])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [str(epoch) for epoch in profiler.profile.epochs]
    assert lines[1].startswith("epoch 2: ") and " rows/s" in lines[1]


def fails(at: str) -> keras.callbacks.Callback:
    def raise_error(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError(at)

    return keras.callbacks.LambdaCallback(**{at: raise_error})


@pytest.mark.parametrize("at", ["on_train_batch_end", "on_epoch_begin", "on_train_begin"])
def test_a_fit_that_raises_ends_the_profile(at: str) -> None:
    callback = fails(at)
    before = dict(vars(callback))
    with pytest.raises(ZeroDivisionError):
        fit(model_in(None), rows(), callback)
    assert _recorder.active is None
    assert {name: vars(callback).get(name) for name in before} | {
        "_model": None,
        "params": None,
    } == before | {"_model": None, "params": None}
    fit(model_in(None), rows())


def test_it_is_used_again() -> None:
    profiler = dl.keras.callbacks.StepProfiler(verbose=0)
    model = model_in(None)
    for _ in range(2):
        model.fit(*rows(), batch_size=BATCH, verbose=0, callbacks=[profiler])
        assert len(profiler.profile.epochs) == 1


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="verbose must be 0 or 1"):
        dl.keras.callbacks.StepProfiler(verbose=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"such as \(10, 12\)"):
        dl.keras.callbacks.StepProfiler(trace="trace", steps=(3, 1))


def scraped(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text: str = answer.read().decode()
    return text


def parsed(text: str) -> dict[str, float]:
    """Samples by name, as the reference client reads them."""
    parser = pytest.importorskip(
        "prometheus_client.parser", reason="prometheus_client reads what is written"
    )
    return {
        "/".join([sample.name, *sample.labels.values()]): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_served_while_fit_runs() -> None:
    found: list[dict[str, float]] = []

    class Scrapes(keras.callbacks.Callback):
        after_others = 2

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            assert profiler.port is not None
            found.append(parsed(scraped(profiler.port)))
            with pytest.raises(urllib.error.HTTPError, match="404"):
                scraped(profiler.port, "/other")

    profiler = dl.keras.callbacks.StepProfiler(verbose=0, prometheus=0)
    model_in(None).fit(
        *rows(), batch_size=BATCH, epochs=2, verbose=0, callbacks=[Scrapes(), profiler]
    )
    epochs = profiler.profile.epochs
    assert found[1]["drumline_step_steps_total"] == 2 * STEPS
    assert found[1]["drumline_step_epochs_total"] == 2
    assert found[0]["drumline_step_goodput"] == pytest.approx(epochs[0].goodput)
    whole = sum(n for name, n in found[1].items() if name.startswith("drumline_step_seconds_total"))
    assert whole == pytest.approx(sum(epoch.seconds for epoch in epochs))
    assert profiler.port is None


def test_metrics_are_written_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "drumline.prom"
    profiler = dl.keras.callbacks.StepProfiler(verbose=0, prometheus=path)
    model_in(None).fit(*rows(), batch_size=BATCH, verbose=0, callbacks=[profiler])
    assert path.read_text() == profiler.profile.prometheus()
    assert parsed(path.read_text())["drumline_step_rows_total"] == ROWS
    assert [each.name for each in path.parent.iterdir()] == ["drumline.prom"]


def test_a_trace_of_some_steps_is_written(tmp_path: Path) -> None:
    profiler = dl.keras.callbacks.StepProfiler(verbose=0, trace=tmp_path, steps=(3, 5))
    model_in(None).fit(*rows(), batch_size=BATCH, verbose=0, callbacks=[profiler])
    assert len(list(tmp_path.rglob("*.xplane.pb"))) == 1
    assert len(list(tmp_path.rglob("*.trace.json.gz"))) == 1


def test_a_model_of_the_scope_of_a_profile_without_the_callback() -> None:
    ended: list[Callable[..., Any]] = []
    model = model_in(None)
    with dl.profile_steps() as profile:
        callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: profile.end_epoch())
        ended.append(callback.on_epoch_end)
        model.fit(*rows(), batch_size=BATCH, epochs=2, verbose=0, callbacks=[callback])
        assert callback.on_epoch_end is ended[0]
    assert [epoch.steps for epoch in profile.epochs] == [STEPS, STEPS]
