"""TensorBoard's callback and event files without TensorFlow.

Where TensorFlow is not installed, `keras.callbacks.TensorBoard` is replaced by the class here.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import jax
import keras
import numpy as np

from drumline._changes import note
from drumline._event_files import SummaryFile
from drumline._event_messages import (
    buckets_of,
    histogram_message,
    scalar_message,
    summary_message,
    summary_metadata,
    tensor_message,
)
from drumline._local_path import local_path
from drumline.keras.internals import replace_method
from drumline.keras.resuming.fit_run import run_of
from drumline.keras.resuming.saving import Checkpointing
from drumline.profiler.device_trace import start_trace

__all__ = ["Checkpointing", "KerasTensorBoard", "TensorBoard"]


class EventFile:
    """One event file in `directory`, which is made when the first value is written.

    What is written has the form of ``tf.summary``'s. Once the file cannot be written, as on a full
    disk, writing raises OSError; nothing that was written before is lost.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: SummaryFile | None = None

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Write a number."""
        self._open().add(scalar_message(tag, value), step)

    def histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Write the distribution of `values`."""
        self._open().add(histogram_message(tag, buckets_of(values)), step)

    def keras_graph(self, model_json: str, step: int) -> None:
        """Write a model's configuration, which TensorBoard draws as the conceptual graph."""
        metadata = summary_metadata("graph_keras_model", b"1")
        text = np.array(model_json.encode(), object)
        self._open().add(summary_message("keras", metadata, tensor_message(text)), step)

    def flush(self) -> None:
        """Put what was written on disk, for a TensorBoard that watches."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Flush and close; a later write opens another file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> SummaryFile:
        if self._file is None:
            self._file = SummaryFile(self._directory)
        return self._file


_DRAWN = ("Sequential", "Functional")


class TensorBoard(keras.callbacks.Callback):
    """Log losses, metrics and weights for TensorBoard, as ``keras.callbacks.TensorBoard``.

    Directories and tags are Keras's: ``train/`` and ``validation/`` below `log_dir`, with
    ``epoch_loss``, ``epoch_<metric>``, ``epoch_learning_rate``, ``batch_loss``,
    ``evaluation_<metric>_vs_iterations`` and ``<weight path>/histogram``.

    Args:
        log_dir: the directory to write below.
        histogram_freq: write histograms of all weights every so many epochs; 0 for never.
        write_graph: write the configuration of a Sequential or functional model, which
            TensorBoard shows as its conceptual graph.
        write_steps_per_second: write the training steps per second of every epoch, and of every
            batch if batches are written.
        update_freq: ``"epoch"``, or a number of batches after which to write the batch's losses
            and metrics as well; ``"batch"`` means 1. Each such write waits for the device.
        profile_batch: a batch, counted from 1, of which a trace of the devices is written, or the
            first and the last of several, as ``(10, 15)`` or ``"10,15"``; 0 for none. TensorBoard
            shows it under *Profile* (``pip install xprof``), and so does Perfetto.

    Raises:
        ValueError: if `log_dir` is a URL, `histogram_freq` is negative, or `update_freq` or
            `profile_batch` is none of the above.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = True,
        write_steps_per_second: bool = False,
        update_freq: int | Literal["epoch", "batch"] = "epoch",
        profile_batch: int | str | tuple[int, int] = 0,
    ) -> None:
        super().__init__()
        self.log_dir = local_path(log_dir, "TensorBoard", "an event file")
        self.histogram_freq = _at_least(0, histogram_freq, "histogram_freq")
        self.write_graph = write_graph
        self.write_steps_per_second = write_steps_per_second
        self.update_freq = _update_freq(update_freq)
        self._first_traced, self._last_traced = _traced_batches(profile_batch)
        self._annotation: Any = None
        self._is_tracing = False
        self._train = EventFile(Path(self.log_dir, "train"))
        self._validation = EventFile(Path(self.log_dir, "validation"))
        self._batch = 0
        self._batch_began = self._batch_ended = self._epoch_began = 0.0
        self._batches_before_epoch = 0

    def set_model(self, model: keras.Model) -> None:
        """Called by Keras when training or evaluation begins."""
        super().set_model(model)
        if self.write_graph and type(model).__name__ in _DRAWN:
            self._train.keras_graph(model.to_json(), step=0)

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Count batches from one."""
        self._batch = 0
        run = run_of(self.model)
        if run is not None:
            run.at_end.append(self._stop_trace)

    def get_state(self) -> dict[str, int]:
        """What a `fit` that continues gives to `set_state`: how many batches were counted."""
        return {"batch": self._batch}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Count on from another one's batches; the epoch's rate is that of the rest of it."""
        self._batch = self._batches_before_epoch = state["batch"]
        self._epoch_began = time.perf_counter()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Close the files."""
        self._train.close()
        self._validation.close()

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Start the batch's clock, and the trace of devices when it is its turn."""
        self._batch_began = time.perf_counter()
        if self._first_traced:
            self._trace_batch(self._batch + 1)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Count the batch, and write its losses and metrics when it is its turn."""
        # Here, and not where it begins: on parameter servers several begin before the first ends.
        self._batch += 1
        began, self._batch_ended = max(self._batch_began, self._batch_ended), time.perf_counter()
        if self._is_tracing and self._batch >= self._last_traced:
            keras.tree.map_structure(np.asarray, logs)  # the step has ended then
            self._stop_trace()
        if self.update_freq == "epoch" or self._batch % self.update_freq:
            return
        for name, value in (logs or {}).items():
            self._train.scalar(f"batch_{name}", float(value), self._batch)
        if self.write_steps_per_second:
            rate = 1.0 / (self._batch_ended - began)
            self._train.scalar("batch_steps_per_second", rate, self._batch)

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Start the epoch's clock."""
        self._batches_before_epoch = self._batch
        self._epoch_began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Write the epoch's losses, metrics, learning rate and histograms."""
        train = {k: v for k, v in (logs or {}).items() if not k.startswith("val_")}
        train |= self._learning_rates()
        if self.write_steps_per_second:
            seconds = time.perf_counter() - self._epoch_began
            train["steps_per_second"] = (self._batch - self._batches_before_epoch) / seconds
        for name, value in train.items():
            self._train.scalar(f"epoch_{name}", float(value), epoch)
        for name, value in (logs or {}).items():
            if name.startswith("val_"):
                self._validation.scalar(f"epoch_{name[4:]}", float(value), epoch)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._write_histograms(epoch)
        self._train.flush()
        self._validation.flush()

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Write an evaluation's results against the number of training steps done."""
        optimizer = self.model.optimizer
        if optimizer is None:
            return
        step = int(keras.ops.convert_to_numpy(optimizer.iterations))
        for name, value in (logs or {}).items():
            self._validation.scalar(f"evaluation_{name}_vs_iterations", float(value), step)
        self._validation.flush()

    def _trace_batch(self, batch: int) -> None:
        if batch == self._first_traced and not self._is_tracing:
            start_trace(os.path.join(self.log_dir, "train"))
            self._is_tracing = True
        if self._is_tracing:
            self._end_annotation()
            self._annotation = jax.profiler.StepTraceAnnotation("train", step_num=batch)
            self._annotation.__enter__()

    def _end_annotation(self) -> None:
        annotation, self._annotation = self._annotation, None
        if annotation is not None:
            annotation.__exit__(None, None, None)

    def _stop_trace(self) -> None:
        self._end_annotation()
        if self._is_tracing:
            self._is_tracing = False
            jax.profiler.stop_trace()

    def _learning_rates(self) -> dict[str, float]:
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            return {}
        return {"learning_rate": float(keras.ops.convert_to_numpy(optimizer.learning_rate))}

    def _write_histograms(self, epoch: int) -> None:
        for weight in self.model.weights:
            values = keras.ops.convert_to_numpy(weight)
            self._train.histogram(f"{weight.path.replace(':', '_')}/histogram", values, epoch)


def _at_least(least: int, value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"TensorBoard: {name} must be an integer of at least {least}: {value!r}")
    return value


def _update_freq(value: Any) -> int | Literal["epoch"]:
    if value == "epoch":
        return "epoch"
    if value == "batch":
        return 1
    if isinstance(value, str):
        raise ValueError(
            f"TensorBoard: update_freq must be 'epoch', 'batch' or a number: {value!r}"
        )
    return _at_least(1, value, "update_freq")


def _traced_batches(value: Any) -> tuple[int, int]:
    """The first and the last batch to trace; zeros for none."""
    found = value
    if isinstance(value, str):
        found = [int(part) if part.strip().isdecimal() else -1 for part in value.split(",")]
        found = found[0] if len(found) == 1 else found
    if isinstance(found, int) and not isinstance(found, bool):
        found = (found, found)
    if isinstance(found, (tuple, list)) and len(found) == 2:
        first, last = found
        numbers = isinstance(first, int) and isinstance(last, int)
        if numbers and 0 <= first <= last and (first or not last):
            return first, last
    raise ValueError(
        "TensorBoard: profile_batch must be a batch, counted from 1, or the first and the last of "
        f"several, such as (10, 15), or 0 for none: {value!r}"
    )


KERAS_OWN = keras.callbacks.TensorBoard


class KerasTensorBoard(TensorBoard):
    """drumline's `TensorBoard` with the arguments of Keras's, for scripts left as they are.

    Args:
        log_dir, histogram_freq, write_graph, write_steps_per_second, update_freq, profile_batch:
            see `TensorBoard`.
        write_images, embeddings_freq, embeddings_metadata: must keep the values that ask for
            nothing.

    Raises:
        NotImplementedError: an argument asks for what only TensorFlow can write.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = True,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: int | Literal["epoch", "batch"] = "epoch",
        profile_batch: Any = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Any = None,
    ) -> None:
        for name, value in {
            "write_images": write_images,
            "embeddings_freq": embeddings_freq,
            "embeddings_metadata": embeddings_metadata,
        }.items():
            if value:
                raise NotImplementedError(
                    f"TensorBoard({name}={value!r}) needs TensorFlow, which is not installed. "
                    f"Leave {name} out, or install tensorflow."
                )
        super().__init__(
            log_dir,
            histogram_freq,
            write_graph,
            write_steps_per_second,
            update_freq,
            profile_batch,
        )


def replace_keras_tensorboard() -> None:
    """Let ``keras.callbacks.TensorBoard`` mean `KerasTensorBoard` if TensorFlow is not installed.

    Keras's own class, in scripts that imported its name before drumline, then says what to do.
    Where TensorFlow is installed, Keras's class works and is left alone.
    """
    if importlib.util.find_spec("tensorflow") is None:
        keras.callbacks.TensorBoard = KerasTensorBoard
        why = "Keras's own writes through TensorFlow, which is not installed"
        off = "install tensorflow"
        note("Keras", "keras.callbacks.TensorBoard", why, off)
        replace_method(KERAS_OWN, "set_model", _explained, why)


def _explained(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_model(self: keras.callbacks.Callback, model: keras.Model) -> None:
        try:
            original(self, model)
        except ImportError as error:
            raise ImportError(
                "keras.callbacks.TensorBoard writes its files with TensorFlow, which is not "
                "installed. Use drumline.keras.callbacks.TensorBoard, or import drumline before "
                "taking the name from keras.callbacks."
            ) from error

    return set_model
