"""Losses, metrics and step profiles for experiment trackers, written by one process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import keras
import numpy as np

from drumline._extras import import_extra, require_extra
from drumline._local_path import local_path
from drumline.keras.callbacks.tensorboard import EventFile
from drumline.keras.resuming.fit_run import run_of
from drumline.keras.state import strategy_of

Kind = Literal["tensorboard", "wandb", "mlflow", "aim", "trackio"]


class Tracker(Protocol):
    """A run of an experiment tracker."""

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Write numbers as of a step."""

    def close(self) -> None:
        """Write what is left, and end the run."""


class Track(keras.callbacks.Callback):
    """Write losses, metrics and the step profile of each epoch to an experiment tracker.

    Of several processes the first writes, and the others do nothing. What `fit` reports of an epoch
    keeps its names; of a `StepProfiler` in the same `fit` there are ``profile/goodput``,
    ``profile/share/input``, ``profile/rows_per_second`` and the like as well.

    Args:
        kind: ``"tensorboard"``, which needs no package, or ``"wandb"``, ``"mlflow"``, ``"aim"`` or
            ``"trackio"``, whose package has to be installed.
        project: of the run: W&B's and Trackio's project, MLflow's and Aim's experiment.
        name: of the run; None leaves it to the tracker.
        directory: where the tracker writes: TensorBoard's log directory (``"logs"`` by default), or
            the directory of W&B, of MLflow's ``mlflow.db``, of Aim's repository or of Trackio's
            projects. None leaves it to the tracker, and to its own environment variables, as
            ``MLFLOW_TRACKING_URI`` or ``WANDB_MODE``.
        config: numbers and texts that describe the run, such as its batch size.
        update_freq: ``"epoch"``, or after how many batches to write their losses and metrics as
            well, as ``batch/loss``. Each such write waits for the device.

    Raises:
        ImportError: the tracker's package is not installed; the message names the extra.
        ValueError: the kind is unknown, or `update_freq` is neither ``"epoch"`` nor a number.

    Example:
        >>> import tempfile
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> profiler = dl.keras.callbacks.StepProfiler(verbose=0)
        >>> track = dl.keras.callbacks.Track("tensorboard", directory=tempfile.mkdtemp())
        >>> x, y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
        >>> history = model.fit(x, y, verbose=0, callbacks=[profiler, track])
    """

    after_others = 2

    def __init__(
        self,
        kind: Kind,
        *,
        project: str = "drumline",
        name: str | None = None,
        directory: str | os.PathLike[str] | None = None,
        config: Mapping[str, Any] | None = None,
        update_freq: int | Literal["epoch"] = "epoch",
    ) -> None:
        super().__init__()
        if kind not in _TRACKERS:
            raise ValueError(f"Track: {kind!r} is none of {', '.join(map(repr, _TRACKERS))}.")
        if kind in _PACKAGES:
            require_extra(_PACKAGES[kind], kind, f"Track({kind!r})")
        if update_freq != "epoch":
            if isinstance(update_freq, bool) or not isinstance(update_freq, int) or update_freq < 1:
                raise ValueError(
                    f"Track: update_freq must be 'epoch' or a number of batches: {update_freq!r}"
                )
            # Keras runs callbacks without this method beside the steps.
            self.on_train_batch_end = self._batch_ended
        self._kind = kind
        self._options: dict[str, Any] = {
            "project": project,
            "name": name,
            "directory": None if directory is None else os.fspath(directory),
            "config": dict(config or {}),
        }
        self._update_freq = update_freq
        self._batch = 0
        self._tracker: Tracker | None = None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begin a run of the tracker, in the first process."""
        strategy = strategy_of(self.model)
        if strategy is not None and strategy.spans_processes and strategy.process_index:
            return
        self._batch = 0
        self._tracker = _TRACKERS[self._kind](**self._options)
        run = run_of(self.model)
        if run is not None:
            run.at_end.append(self.close)  # also where `fit` raises

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Write the epoch's losses and metrics, and the numbers of its step profile."""
        if self._tracker is None:
            return
        numbers = _numbers(logs or {})
        run = run_of(self.model)
        if run is not None and run.profile is not None and run.profile.epochs:
            found = run.profile.epochs[-1].numbers()
            numbers |= {f"profile/{name}": value for name, value in found.items()}
        self._tracker.log(numbers, epoch)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """End the run."""
        self.close()

    def close(self) -> None:
        """End the tracker's run, if one is under way."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()

    def _batch_ended(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        self._batch += 1
        if self._tracker is not None and self._batch % int(self._update_freq) == 0:
            numbers = _numbers(logs or {})
            self._tracker.log({f"batch/{name}": n for name, n in numbers.items()}, self._batch)


def _numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    """The scalars among what `fit` reports."""
    return {name: float(np.asarray(value)) for name, value in logs.items() if np.size(value) == 1}


class _TensorBoard:
    def __init__(
        self, project: str, name: str | None, directory: str | None, config: Mapping[str, Any]
    ) -> None:
        path = Path(local_path(directory or "logs", "Track", "an event file"))
        self._file = EventFile(path / name if name else path)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._file.scalar(name, value, step)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _Wandb:
    def __init__(
        self, project: str, name: str | None, directory: str | None, config: Mapping[str, Any]
    ) -> None:
        wandb = import_extra("wandb", "wandb", "Track('wandb')")
        if directory is not None:
            os.makedirs(directory, exist_ok=True)
        self._run = wandb.init(project=project, name=name, dir=directory, config=dict(config))
        # Steps are epochs and batches, which W&B would have to rise together.
        self._run.define_metric("epoch")
        self._run.define_metric("batch")
        self._run.define_metric("*", step_metric="epoch")
        self._run.define_metric("batch/*", step_metric="batch")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        axis = "batch" if any(name.startswith("batch/") for name in numbers) else "epoch"
        self._run.log({**numbers, axis: step})

    def close(self) -> None:
        self._run.finish()


class _MLflow:
    def __init__(
        self, project: str, name: str | None, directory: str | None, config: Mapping[str, Any]
    ) -> None:
        mlflow = import_extra("mlflow", "mlflow", "Track('mlflow')")
        uri = files = None
        if directory is not None:
            # Runs as files alone are no more in MLflow 3.
            os.makedirs(directory, exist_ok=True)
            uri = f"sqlite:///{Path(directory).absolute()}/mlflow.db"
            files = (Path(directory).absolute() / "artifacts").as_uri()
        client = self._client = mlflow.MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(project)
        number = client.create_experiment(project, files) if found is None else found.experiment_id
        self._run = client.create_run(number, run_name=name).info.run_id
        for key, value in config.items():
            client.log_param(self._run, key, value)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)


class _Aim:
    def __init__(
        self, project: str, name: str | None, directory: str | None, config: Mapping[str, Any]
    ) -> None:
        aim = import_extra("aim", "aim", "Track('aim')")
        if directory is not None:
            os.makedirs(directory, exist_ok=True)
        self._run = aim.Run(repo=directory, experiment=project)
        if name is not None:
            self._run.name = name
        self._run["config"] = dict(config)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._run.track(value, name=name, step=step)

    def close(self) -> None:
        self._run.close()


class _Trackio:
    def __init__(
        self, project: str, name: str | None, directory: str | None, config: Mapping[str, Any]
    ) -> None:
        if directory is not None:
            # Read when the package is imported.
            os.environ["TRACKIO_DIR"] = str(Path(directory).absolute())
        trackio = import_extra("trackio", "trackio", "Track('trackio')")
        self._run = trackio.init(project=project, name=name, config=dict(config))

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


_TRACKERS: dict[str, type[Tracker]] = {
    "tensorboard": _TensorBoard,
    "wandb": _Wandb,
    "mlflow": _MLflow,
    "aim": _Aim,
    "trackio": _Trackio,
}
_PACKAGES = {"wandb": "wandb", "mlflow": "mlflow", "aim": "aim", "trackio": "trackio"}
