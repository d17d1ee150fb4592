"""URLs where only local files can be written: refused, and no directory called ``gs:`` made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from typer.testing import CliRunner

import drumline as dl
import drumline.keras
from drumline._event_files import SummaryFile
from drumline._local_path import has_scheme, local_path
from drumline.cli import app
from drumline.training.checkpoint.index import listed

drumline.keras.install()

URLS = ["gs://bucket/ck", "s3://bucket/ck", "memory://ck", "file://host/ck", Path("gs://bucket/ck")]


def checkpoint() -> dl.train.Checkpoint:
    return dl.train.Checkpoint(v=dl.Variable(np.float32(1)))


def model() -> keras.Model:
    made = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def profile() -> Any:
    return dl.data.Dataset.range(4).profile()


WRITERS: dict[str, Callable[[Any], Any]] = {
    "Checkpoint.save": lambda url: checkpoint().save(url),
    "Checkpoint.write": lambda url: checkpoint().write(url),
    "Checkpoint.restore": lambda url: checkpoint().restore(url),
    "Checkpoint.read": lambda url: checkpoint().read(url),
    "CheckpointManager": lambda url: dl.train.CheckpointManager(checkpoint(), url, 2),
    "latest_checkpoint": dl.train.latest_checkpoint,
    "listed": listed,
    "TensorBoard": dl.keras.callbacks.TensorBoard,
    "event files": SummaryFile,
    "SidecarEvaluator": lambda url: dl.keras.SidecarEvaluator(model(), None, url),
    "save_png": lambda url: profile().save_png(url),
    "save_trace": lambda url: profile().save_trace(url),
    "Dataset.save": lambda url: dl.data.Dataset.range(3).save(url),
    "Dataset.load": lambda url: dl.data.Dataset.load(url),
    "Dataset.cache": lambda url: list(dl.data.Dataset.range(3).cache(url)),
    "Dataset.snapshot": lambda url: list(dl.data.Dataset.range(3).snapshot(url)),
    "checkpoint_args": lambda url: dl.data.Dataset.range(3).save(
        "there", checkpoint_args={"directory": url, "checkpoint_interval": 1}
    ),
}


@pytest.fixture(autouse=True)
def nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    yield
    assert not [name for name in os.listdir(tmp_path) if ":" in name]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("writer", WRITERS)
def test_urls_are_refused(writer: str, url: Any) -> None:
    with pytest.raises(ValueError, match="is a URL.*local path"):
        WRITERS[writer](url)


def test_the_demo_refuses_urls() -> None:
    result = CliRunner().invoke(app, ["demo", "--output-dir", "s3://bucket/demo"])
    assert result.exit_code != 0
    assert "'s3://bucket/demo' is a URL" in " ".join(result.output.split())


@pytest.mark.parametrize(
    "write",
    [
        lambda url: dl.io.TFRecordWriter(url),
        lambda url: list(dl.data.TextLineDataset(url)),
    ],
)
def test_a_url_that_pathlib_has_shortened_is_no_local_path(write: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="lost a slash.*memory://"):
        write(Path("memory://ck"))


def test_urls_of_local_files_are_paths(tmp_path: Path) -> None:
    path = checkpoint().save(f"file://{tmp_path}/ck%20pt")
    assert path == f"{tmp_path}/ck pt-1"
    assert dl.train.latest_checkpoint(f"file://{tmp_path}") == path
    assert Path(f"{path}.safetensors").is_file()


@pytest.mark.parametrize("path", ["a/b", "/a:/b", b"a", Path("x/gs:/y"), "C:/x", "epoch:/3"])
def test_local_paths(path: Any) -> None:
    assert not has_scheme(path)
    assert local_path(path, "save") == os.fsdecode(path)


def test_keras_says_what_its_callbacks_need() -> None:
    with dl.distribute.MirroredStrategy(["cpu:0"]).scope():
        trained = model()
    x = np.ones((4, 1), np.float32)
    for callback in (
        lambda: keras.callbacks.ModelCheckpoint("gs://bucket/{epoch}.keras"),
        lambda: keras.callbacks.BackupAndRestore("gs://bucket/backup"),
        lambda: keras.callbacks.CSVLogger("gs://bucket/log.csv"),
    ):
        with pytest.raises(ValueError, match="remote paths requires installing TensorFlow"):
            trained.fit(x, x, verbose=0, callbacks=[callback()])
