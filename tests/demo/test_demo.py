"""The command line and the demo: what they print, what they check, how they end."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from rich.console import Console

from drumline.demo import run as demo_run
from drumline.demo import train
from drumline.demo.report import draw_curves, make_figure
from drumline.demo.run import DemoError
from drumline.demo.settings import DigitsData, settings_for
from drumline.demo.train import TrainedRun, build_model, decay

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-u", "-c", "from drumline_command import run; run()"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


ONLY_THE_EXTRA = """
import importlib.metadata, re, sys, tomllib
from pathlib import Path
from packaging.requirements import Requirement

project = tomllib.loads(Path({root!r}, "pyproject.toml").read_text())["project"]
extra = project["optional-dependencies"]["demo"]
waiting = [Requirement(text) for text in project["dependencies"] + extra]
brought = set()
while waiting:
    wanted = waiting.pop()
    key = (re.sub("[-_.]+", "-", wanted.name).lower(), frozenset(wanted.extras))
    if key in brought:
        continue
    brought.add(key)
    for text in importlib.metadata.requires(key[0]) or ():
        further = Requirement(text)
        environments = [dict(extra=name) for name in ("", *wanted.extras)]
        if further.marker is None or any(map(further.marker.evaluate, environments)):
            waiting.append(further)
names = dict(brought)
others = {{
    module
    for module, owners in importlib.metadata.packages_distributions().items()
    if not any(re.sub("[-_.]+", "-", owner).lower() in names for owner in owners)
}} - {{"drumline", "drumline_command"}}
assert "pytest" in others and "matplotlib" not in others

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in others:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        return None

for module in [name for name in sys.modules if name.partition(".")[0] in others]:
    del sys.modules[module]
sys.meta_path.insert(0, NotInstalled())
"""
"""A ``sitecustomize`` that hides what `pip install 'drumline[demo]'` does not install."""


def drumline(
    *arguments: str, environment: dict[str, str] = ENVIRONMENT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], check=False, env=environment, capture_output=True, text=True
    )


def trained(loss: list[float], replicas: int = 1) -> TrainedRun:
    accuracy = [1 - value / 10 for value in loss]
    return TrainedRun(f"S{replicas}", replicas, None, loss[:1], loss, accuracy, 0.9, 100.0)  # type: ignore[arg-type]


def test_the_whole_demo_with_its_extra_alone(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hiding = tmp_path_factory.mktemp("hiding")
    (hiding / "sitecustomize.py").write_text(ONLY_THE_EXTRA.format(root=str(ROOT)))
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(hiding), str(ROOT)])}
    options = ["--epochs", "3", "--output-dir", str(tmp_path), "--seed", "5"]
    done = drumline("demo", *options, environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sitecustomize" not in done.stderr
    lines = done.stdout.splitlines()
    model = Path(lines[-1].removeprefix("Model: "))
    assert model.name == "digits.keras"
    assert keras.models.load_model(model).count_params() > 10_000
    assert (tmp_path / "digits-curves.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "logs").glob("digits-*/train/events.out.tfevents.*"))) == 2
    rows = [line.split("│") for line in lines if line.startswith("│")]
    assert [row[1].strip() for row in rows] == ["MirroredStrategy", "OneDeviceStrategy"]
    assert [row[2].strip() for row in rows] == ["2", "1"]
    assert rows[0][3] == rows[1][3]
    assert rows[0][3].strip() in done.stdout.split("plain Keras")[1].splitlines()[0]
    assert re.search(r"two loss curves: [0-9.e+-]+ \(first 50 steps: [0-9.e+-]+\)", done.stdout)


def test_ctrl_c_ends_cleanly(tmp_path: Path) -> None:
    command = [*PROGRAM, "demo", "--epochs", "5000", "--output-dir", str(tmp_path)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "epoch" in line:
                break
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted" in rest
    assert "Traceback" not in errors


def test_missing_files_end_in_a_message(tmp_path: Path) -> None:
    options = ["--data-dir", str(tmp_path / "none"), "--output-dir", str(tmp_path)]
    done = drumline("demo", "--dataset", "mnist", *options)
    assert done.returncode == 1
    assert "t10k-images-idx3-ubyte" in done.stdout
    assert "Traceback" not in done.stderr


def test_bad_options_are_refused() -> None:
    done = drumline("demo", "--dataset", "cats", "--replicas", "0")
    assert done.returncode == 2
    assert "cats" in done.stderr


def test_a_directory_for_data_that_need_none_is_refused(tmp_path: Path) -> None:
    done = drumline("demo", "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert "read from no directory" in done.stderr


def test_an_output_directory_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "below"):
        settings = settings_for("digits", None, 1, 2, path, 3)
        with pytest.raises(DemoError, match=f"--output-dir {path}: a file is where a directory"):
            demo_run._prepare(settings)


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's full device")
@pytest.mark.parametrize("name", ["digits.keras", "digits-curves.png"])
def test_a_full_disk_ends_in_a_message(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("/dev/full")
    done = drumline("demo", "--epochs", "1", "--output-dir", str(tmp_path))
    assert done.returncode == 1
    message = " ".join(done.stdout.split())
    assert f"{name} could not be written: [Errno 28] No space left on device" in message
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("limit", "recorded"), [(3, 3), (6, 4)])
def test_the_losses_of_the_first_steps_are_recorded(
    monkeypatch: pytest.MonkeyPatch, limit: int, recorded: int
) -> None:
    monkeypatch.setattr(train, "FIRST_STEPS", limit)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    recorder = train.FirstSteps()
    targets = np.array([[1.0], [2.0], [3.0], [4.0]])
    zeros = np.zeros_like(targets)
    for _ in range(2):
        model.fit(zeros, targets, 1, epochs=2, shuffle=False, verbose=0, callbacks=[recorder])
        running = [1, 5 / 2, 14 / 3, 30 / 4]
        np.testing.assert_allclose(recorder.losses, running[:recorded], rtol=1e-6)


@pytest.mark.thorough
def test_a_model_that_scores_differently_fails(tmp_path: Path) -> None:
    data = DigitsData(settings_for("digits", None, 1, 1, tmp_path, 0))
    path = tmp_path / "model.keras"
    model = build_model(data.image_shape)
    images, labels = data.test_arrays()
    model.train_on_batch(images[:8], labels[:8])
    model.save(path)
    right = float(model.evaluate(images, labels, verbose=0, return_dict=True)["accuracy"])
    console = Console(quiet=True)
    demo_run._check_saved(path, right, data, console)
    with pytest.raises(DemoError, match="under OneDeviceStrategy, but had"):
        demo_run._check_saved(path, right + 1 / data.test_size, data, console)


def test_curves_that_part_fail() -> None:
    console = Console(quiet=True)
    demo_run._check_curves(trained([1.0, 0.5], 2), trained([1.000001, 0.5001]), console)
    grown = dataclasses.replace(trained([1.0002, 0.5]), first_losses=[1.0])
    demo_run._check_curves(trained([1.0, 0.5], 2), grown, console)
    for other in ([1.0, 0.51], [1.0001, 0.5], [1.0, float("nan")], [float("nan"), 0.5]):
        with pytest.raises(DemoError, match="The loss curves of 2 replicas"):
            demo_run._check_curves(trained([1.0, 0.5], 2), trained(other), console)


def test_the_picture_shows_the_curves(tmp_path: Path) -> None:
    mirrored, single = trained([2.0, 0.5, 0.1], 2), trained([2.0, 0.5, 0.1001])
    loss, accuracy, difference = make_figure(mirrored, single, "title").axes
    assert [list(line.get_ydata()) for line in loss.lines] == [mirrored.loss, single.loss]
    assert list(accuracy.lines[1].get_ydata()) == single.accuracy
    np.testing.assert_allclose(difference.lines[0].get_ydata(), [0, 0, 1e-4], atol=1e-12)
    names = [text.get_text() for text in loss.get_legend().get_texts()]
    assert names == ["S2, 2 replicas", "S1, 1 replica"]
    assert all(panel.get_xlabel() and panel.get_ylabel() for panel in (loss, accuracy, difference))
    draw_curves(mirrored, single, "title", tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_the_learning_rate_is_the_tutorials() -> None:
    assert [decay(epoch, 12) for epoch in range(12)] == [1e-3] * 3 + [1e-4] * 4 + [1e-5] * 5
    assert [decay(epoch, 24) for epoch in range(24)] == [1e-3] * 6 + [1e-4] * 8 + [1e-5] * 10


def test_both_runs_see_the_same_images(tmp_path: Path) -> None:
    data = DigitsData(settings_for("digits", None, 1, 2, tmp_path, 3))
    first, second = data.train(), data.train()
    for _ in range(2):
        for (images, labels), (others, other_labels) in zip(first, second, strict=True):
            np.testing.assert_array_equal(images, others)
            np.testing.assert_array_equal(labels, other_labels)
    assert images.dtype == np.float32
    assert dataclasses.asdict(settings_for("digits", None, 7, 2, tmp_path, 3))["epochs"] == 7
