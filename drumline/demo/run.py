"""The demo from beginning to end: two trainings, and the saved model scored in another process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
from rich.console import Console

import drumline as dl
from drumline._extras import MissingExtraError
from drumline._local_path import local_path
from drumline.demo import plain_keras
from drumline.demo.report import draw_curves, results_table
from drumline.demo.settings import DemoSettings, DigitsData
from drumline.demo.train import TrainedRun, train


def score_on_one_device(model_path: Path, data: DigitsData) -> float:
    """Test accuracy of the saved model, loaded under ``OneDeviceStrategy``."""
    with dl.distribute.OneDeviceStrategy("cpu:0").scope():
        model = keras.models.load_model(model_path)
    return float(model.evaluate(data.test(), verbose=0, return_dict=True)["accuracy"])


def score_in_plain_keras(model_path: Path, data: DigitsData) -> float:
    """Test accuracy of the saved model in another process, which imports Keras only.

    Raises:
        RuntimeError: the process failed, or had imported drumline.
    """
    images, labels = data.test_arrays()
    with tempfile.TemporaryDirectory() as directory:
        data_path = Path(directory, "test.npz")
        np.savez(data_path, images=images, labels=labels)
        done = subprocess.run(
            [sys.executable, "-P", plain_keras.__file__, str(model_path), str(data_path)],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        )
    if done.returncode:
        raise RuntimeError(f"Plain Keras could not score {model_path}:\n{done.stderr.strip()}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["drumline"]:
        raise RuntimeError(f"Keras was not alone in its process: {answer['drumline']}")
    return float(answer["accuracy"])


FIRST_DIFFERENCE = 1e-5
"""How far the losses of the first steps may be apart: rounding."""

LARGEST_DIFFERENCE = 5e-3
"""How far later ones may be: rounding, grown by training. On one device, initial weights changed
by one part in ten million change MNIST's loss by 2e-4 in the first epoch of Adam, and by up to
6e-4 within nine."""


class DemoError(Exception):
    """The demo could not run, or did not give what it promises."""


def run_demo(settings: DemoSettings, console: Console) -> Path:
    """Train on several devices and on one, check that they agree, and report.

    Returns:
        The path of the saved model.

    Raises:
        DemoError: the data are not there, the output directory cannot be written to, the saved
            model scores differently in another process or not at all, or the loss curves of the
            two runs do not coincide.
    """
    dl.config.set_large_buffer_reuse(True)
    data, path = _prepare(settings)
    console.print(
        f"[bold]{settings.dataset}[/]: {data.train_size:,} images for training, "
        f"{data.test_size:,} for test; global batch {settings.global_batch}",
        highlight=False,
    )
    devices = [f"cpu:{index}" for index in range(settings.replicas)]
    mirrored = _train(dl.distribute.MirroredStrategy(devices), data, settings, console)
    with _writing(path):
        mirrored.model.save(path)
    _check_saved(path, mirrored.test_accuracy, data, console)
    single = _train(dl.distribute.OneDeviceStrategy("cpu:0"), data, settings, console)
    _check_curves(mirrored, single, console)
    picture = settings.output_dir / f"{settings.dataset}-curves.png"
    with _writing(picture):
        draw_curves(mirrored, single, _title(settings), picture)
    console.print(results_table([mirrored, single]))
    _print_path(console, "Curves", picture)
    _print_path(console, "TensorBoard logs", settings.output_dir / "logs")
    _print_path(console, "Model", path)
    return path


def _prepare(settings: DemoSettings) -> tuple[DigitsData, Path]:
    try:
        _divide_cpu(settings.replicas)
        _make_directory(settings.output_dir)
        return DigitsData(settings), settings.output_dir / f"{settings.dataset}.keras"
    except (MissingExtraError, OSError, ValueError, RuntimeError) as error:
        raise DemoError(str(error)) from error


def _make_directory(path: Path) -> None:
    local_path(path, "--output-dir", "what the demo writes")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise DemoError(
            f"--output-dir {path}: a file is where a directory should be. Name a directory, new "
            "or existing."
        ) from error
    except OSError as error:
        raise DemoError(f"--output-dir {path} cannot be made: {error.strerror}.") from error


def _divide_cpu(count: int) -> None:
    try:
        dl.config.set_logical_devices("cpu", count)
    except RuntimeError:  # JAX runs already, which is fine if it has devices enough
        if len(dl.config.list_logical_devices("cpu")) < count:
            raise


def _train(
    strategy: dl.distribute.Strategy, data: DigitsData, settings: DemoSettings, console: Console
) -> TrainedRun:
    name = type(strategy).__name__
    count = strategy.num_replicas_in_sync
    devices = "device" if count == 1 else "devices"
    console.print(f"\n[bold]{name}[/] on {count} CPU {devices}", highlight=False)
    log_dir = (
        settings.output_dir / "logs" / f"{settings.dataset}-{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    )
    with _writing(log_dir):
        run = train(strategy, name, data, settings, log_dir, console)
    console.print(f"  test accuracy {run.test_accuracy:.2%}", highlight=False)
    return run


def _check_saved(path: Path, expected: float, data: DigitsData, console: Console) -> None:
    console.print("\n[bold]The saved model, loaded again[/]")
    scorers = {
        "under OneDeviceStrategy": score_on_one_device,
        "in plain Keras, without drumline": score_in_plain_keras,
    }
    for place, score in scorers.items():
        try:
            found = score(path, data)
        except (OSError, RuntimeError) as error:
            raise DemoError(f"{path} could not be scored {place}: {error}") from error
        console.print(f"  {place}: test accuracy {found:.2%}", highlight=False)
        if round(found * data.test_size) != round(expected * data.test_size):
            raise DemoError(
                f"{path} has test accuracy {found:.4f} {place}, but had {expected:.4f} when saved."
            )


def _check_curves(mirrored: TrainedRun, single: TrainedRun, console: Console) -> None:
    first = float(np.max(np.abs(np.subtract(mirrored.first_losses, single.first_losses))))
    largest = float(np.max(np.abs(np.subtract(mirrored.loss, single.loss))))
    steps = len(single.first_losses)
    console.print(
        f"\nLargest difference of the two loss curves: {largest:.1e} "
        f"(first {steps} steps: {first:.1e})\n",
        highlight=False,
    )
    if not (first <= FIRST_DIFFERENCE and largest <= LARGEST_DIFFERENCE):
        raise DemoError(
            f"The loss curves of {mirrored.replicas} replicas and of one device differ by "
            f"{first:.2e} in the first {steps} steps and by up to {largest:.2e} in all; rounding "
            f"explains {FIRST_DIFFERENCE:.0e} and {LARGEST_DIFFERENCE:.0e}."
        )


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DemoError(f"{path} could not be written: {error}") from error


def _title(settings: DemoSettings) -> str:
    return (
        f"The same training on {settings.replicas} devices and on one: {settings.dataset}, "
        f"global batch {settings.global_batch}"
    )


def _print_path(console: Console, what: str, path: Path) -> None:
    console.print(f"{what}: {os.path.relpath(path)}", highlight=False, soft_wrap=True)
