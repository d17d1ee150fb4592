"""Trackers get what `fit` and step profiles report, read back by their own readers."""

from __future__ import annotations

import importlib.util
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline._extras import MissingExtraError
from tests.keras.callbacks.test_tensorboard import scalars

EPOCHS, STEPS = 3, 4


def run(track: dl.keras.callbacks.Track, *callbacks: Any) -> tuple[dict[str, list[float]], Any]:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    x = np.random.default_rng(0).random((16, 3), np.float32)
    profiler = dl.keras.callbacks.StepProfiler(verbose=0)
    history = model.fit(
        *(x, x[:, :1]),
        batch_size=4,
        epochs=EPOCHS,
        verbose=0,
        callbacks=[track, profiler, *callbacks],
    )
    return history.history, profiler.profile


def expected(history: dict[str, list[float]], profile: Any) -> dict[str, list[float]]:
    goodput = [epoch.goodput for epoch in profile.epochs]
    share = [epoch.share("input") for epoch in profile.epochs]
    return {**history, "profile/goodput": goodput, "profile/share/input": share}


def needs(kind: str) -> None:
    if importlib.util.find_spec(kind) is None:
        pytest.skip(f"the package {kind} is not installed: pip install 'drumline[{kind}]'")


def test_tensorboard(tmp_path: Path) -> None:
    track = dl.keras.callbacks.Track("tensorboard", directory=tmp_path, name="one", update_freq=2)
    wanted = expected(*run(track))
    found = scalars(tmp_path / "one")
    for name, values in wanted.items():
        assert [step for step, _ in found[name]] == list(range(EPOCHS))
        np.testing.assert_allclose([value for _, value in found[name]], values, rtol=1e-6)
    batches = [step for step, _ in found["batch/loss"]]
    assert batches == list(range(2, EPOCHS * STEPS + 1, 2))


@pytest.mark.filterwarnings("ignore")
def test_mlflow(tmp_path: Path) -> None:
    needs("mlflow")
    import mlflow

    track = dl.keras.callbacks.Track(
        "mlflow", project="digits", name="one", directory=tmp_path, config={"batch": 4}
    )
    wanted = expected(*run(track))
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("digits")
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED" and found.info.run_name == "one"
    assert found.data.params == {"batch": "4"}
    for name, values in wanted.items():
        history = client.get_metric_history(found.info.run_id, name)
        assert [(each.step, each.value) for each in history] == list(enumerate(values))


def records(log: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, behind W&B's seven bytes."""
    at, whole = 7, b""
    while at < len(log):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", log, at)
        whole += log[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, last
            yield whole
            whole = b""


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    track = dl.keras.callbacks.Track(
        "wandb", project="digits", directory=tmp_path, config={"batch": 4}
    )
    wanted = expected(*run(track))
    from wandb.proto import wandb_internal_pb2

    (file,) = tmp_path.rglob("run-*.wandb")
    rows: list[dict[str, Any]] = []
    until = time.monotonic() + 30
    while len(rows) < EPOCHS and time.monotonic() < until:  # its own process writes the file
        time.sleep(0.2)
        found = []
        for data in records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            found.append(record)
        rows = [
            {item.key or "/".join(item.nested_key): float(item.value_json) for item in items}
            for items in (each.history.item for each in found if each.HasField("history"))
        ]
    assert [row["epoch"] for row in rows] == list(range(EPOCHS))
    for name, values in wanted.items():
        np.testing.assert_allclose([row[name] for row in rows], values)


@pytest.mark.filterwarnings("ignore")  # of packages that it imports
def test_aim(tmp_path: Path) -> None:
    needs("aim")
    import aim

    track = dl.keras.callbacks.Track(
        "aim", project="digits", name="one", directory=tmp_path, config={"batch": 4}
    )
    wanted = expected(*run(track))
    from aim.sdk.index_manager import RepoIndexManager

    repo = aim.Repo(str(tmp_path))
    (number,) = repo.list_all_runs()
    RepoIndexManager.get_index_manager(repo).index(number)  # as `aim up` does
    found = aim.Repo(str(tmp_path)).get_run(number)
    assert found.name == "one" and found["config"] == {"batch": 4}
    metrics = {metric.name: metric.values.values_list() for metric in found.metrics()}
    for name, values in wanted.items():
        np.testing.assert_allclose(metrics[name], values)


def test_trackio(tmp_path: Path) -> None:
    needs("trackio")
    track = dl.keras.callbacks.Track(
        "trackio", project="digits", name="one", directory=tmp_path, config={"batch": 4}
    )
    wanted = expected(*run(track))
    from trackio.sqlite_storage import SQLiteStorage

    rows = SQLiteStorage.get_logs("digits", "one")
    for name, values in wanted.items():
        np.testing.assert_allclose([row[name] for row in rows], values)
    assert [row["step"] for row in rows] == list(range(EPOCHS))


@pytest.mark.parametrize("kind", ["wandb", "mlflow", "aim", "trackio"])
def test_a_missing_package_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name == kind else find(name, package),
    )
    monkeypatch.delitem(sys.modules, kind, raising=False)
    with pytest.raises(MissingExtraError, match=rf"pip install 'drumline\[{kind}\]'"):
        dl.keras.callbacks.Track(kind)  # type: ignore[arg-type]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="'tensorboad' is none of 'tensorboard', 'wandb'"):
        dl.keras.callbacks.Track("tensorboad")  # type: ignore[arg-type]
    for wrong in (0, -1, True, "batch", 1.5):
        with pytest.raises(ValueError, match="update_freq must be"):
            dl.keras.callbacks.Track("tensorboard", update_freq=wrong)


def test_a_fit_that_raises_ends_the_run(tmp_path: Path) -> None:
    class Fails(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch:
                raise ZeroDivisionError

    track = dl.keras.callbacks.Track("tensorboard", directory=tmp_path)
    with pytest.raises(ZeroDivisionError):
        run(track, Fails())
    assert track._tracker is None
    assert len(scalars(tmp_path)["loss"]) == 1
