"""``tf.summary``: `drumline.summary` for tensors, and ``tf.profiler``, over JAX's profiler."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline import summary
from drumline.compat.training.scopes import NameScope, in_scope
from drumline.compat.values.convert import convert, raw, static
from drumline.compat.values.tensor import Tensor
from drumline.distribute import Variable
from drumline.summary import SummaryWriter


def create_file_writer(
    logdir: Any,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: str | None = None,
    experimental_trackable: bool = False,
) -> SummaryWriter:
    """Open a new event file in a directory.

    Args:
        logdir: made if it is not there.
        max_queue: after so many summaries they are written out, 10 by default.
        flush_millis: after so many milliseconds the next one has them written out, 120000 by
            default.
        filename_suffix: at the end of the file's name, ``".v2"`` by default.
        name: accepted.
        experimental_trackable: accepted; writers are no part of checkpoints.

    Raises:
        ValueError: the directory is a URL, or None.
    """
    return summary.create_file_writer(
        None if logdir is None else _text(logdir),  # type: ignore[arg-type]
        None if max_queue is None else int(static(max_queue)),
        None if flush_millis is None else int(static(flush_millis)),
        None if filename_suffix is None else _text(filename_suffix),
    )


def _text(value: Any) -> str:
    found = static(raw(value))
    found = found.item() if isinstance(found, np.ndarray) else found
    return found.decode() if isinstance(found, bytes) else str(found)


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> None:
    """Write out what was recorded by a writer, by default that of this thread."""
    summary.flush(writer)


@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Record summaries within the context if a condition holds.

    Args:
        condition: a bool, a tensor, or a function that gives one, called for each summary.
    """

    def asked() -> Any:
        return _array(condition() if callable(condition) else condition)

    with summary.record_if(asked):
        yield


def should_record_summaries() -> Tensor:
    """Whether summaries are recorded now: there is a writer, and `record_if`'s condition holds."""
    return _tensor(summary.should_record_summaries())


@contextlib.contextmanager
def summary_scope(
    name: str, default_name: str = "summary", values: Any = None
) -> Iterator[tuple[str, str]]:
    """Name what is recorded within the context by a `tf.name_scope`; give the tag and it."""
    chosen = name or default_name
    tag = in_scope(chosen)
    with NameScope(chosen) as scope:
        yield tag, scope


def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> Tensor:
    """Record a number.

    Args:
        name: its tag.
        data: a real number.
        step: by default that of `set_step` or ``as_default``.
        description: Markdown.

    Returns:
        Whether it is recorded: there is a writer, and `record_if`'s condition holds.

    Raises:
        ValueError: there is no step, or `data` is no scalar.
    """
    return _tensor(summary.scalar(in_scope(name), _array(data), _array(step), description))


def histogram(
    name: str, data: Any, step: Any = None, buckets: Any = None, description: str | None = None
) -> Tensor:
    """Record how numbers are distributed, as `scalar`; ``buckets`` (30) of equal width."""
    count = None if buckets is None else int(static(buckets))
    return _tensor(
        summary.histogram(in_scope(name), _array(data), _array(step), count, description)
    )


def image(
    name: str, data: Any, step: Any = None, max_outputs: Any = 3, description: str | None = None
) -> Tensor:
    """Record images, (batch, height, width, channels); floats are from 0 to 1."""
    most = int(static(max_outputs))
    return _tensor(summary.image(in_scope(name), _array(data), _array(step), most, description))


def text(name: str, data: Any, step: Any = None, description: str | None = None) -> Tensor:
    """Record text, which TensorBoard shows as Markdown; vectors and matrices as tables."""
    return _tensor(summary.text(in_scope(name), _array(data), _array(step), description))


def audio(
    name: str,
    data: Any,
    sample_rate: Any,
    step: Any = None,
    max_outputs: Any = 3,
    encoding: str | None = None,
    description: str | None = None,
) -> Tensor:
    """Record sounds, (batch, samples, channels) of floats from -1 to 1, as 16-bit WAV.

    Raises:
        ValueError: `encoding` is neither None nor ``"wav"``, or as `scalar`.
    """
    most, rate = int(static(max_outputs)), int(static(sample_rate))
    made = summary.audio(
        in_scope(name), _array(data), rate, _array(step), most, encoding, description
    )
    return _tensor(made)


def write(
    tag: str, tensor: Any, step: Any = None, metadata: Any = None, name: str | None = None
) -> Tensor:
    """Record a tensor under a tag.

    Args:
        tag: its name.
        tensor: numbers or text, or a function that gives them, called if they are recorded.
        step: as of `scalar`.
        metadata: a ``SummaryMetadata`` message, or its bytes.
        name: accepted.
    """
    given = (lambda: _array(tensor())) if callable(tensor) else _array(tensor)
    return _tensor(summary.write(tag, given, _array(step), metadata))


def write_raw_pb(tensor: Any, step: Any = None, name: str | None = None) -> Tensor:
    """Record a serialized ``Summary`` message, as `scalar`."""
    return _tensor(summary.write_raw(bytes(static(raw(tensor))), _array(step)))


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """End the trace, record the graphs of the functions it saw, and write its profile.

    Args:
        name: the tag of the graphs.
        step: as of `scalar`.
        profiler_outdir: accepted, as in TensorFlow: it is given to `trace_on`.

    Raises:
        ValueError: no trace was begun, or there is no step or writer.
    """
    summary.trace_export(name, _array(step))


def _array(value: Any) -> Any:
    """The array of a tensor; a variable, and what is no tensor, as it is."""
    return value if value is None or isinstance(value, Variable) else convert(value)


def _tensor(recorded: Any) -> Tensor:
    return Tensor(np.asarray(recorded) if isinstance(recorded, bool) else recorded)


@dataclass
class ProfilerChoices:
    """What is profiled, as ``tf.profiler.experimental.ProfilerOptions``.

    Attributes:
        host_tracer_level: 0 to 3, how much of the host's work.
        python_tracer_level: 1 for calls of Python's functions.
        device_tracer_level: 1 for the devices' work.
        delay_ms: to wait before the profile begins; not supported.
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: int | None = None


ProfilerChoices.__name__ = ProfilerChoices.__qualname__ = "ProfilerOptions"


def start_profile(logdir: Any, options: ProfilerChoices | None = None) -> None:
    """Start profiling; `stop_profile` writes the profile, which TensorBoard and XProf show.

    Raises:
        RuntimeError: a profile is being made already.
        NotImplementedError: for ``delay_ms``.
    """
    chosen = options or ProfilerChoices()
    if chosen.delay_ms:
        raise NotImplementedError("ProfilerOptions.delay_ms: sleep before tf.profiler starts")
    made = jax.profiler.ProfileOptions()
    made.host_tracer_level = chosen.host_tracer_level
    made.python_tracer_level = chosen.python_tracer_level
    made.device_tracer_level = chosen.device_tracer_level
    jax.profiler.start_trace(_text(logdir), profiler_options=made)


def stop_profile(save: bool = True) -> None:
    """Stop profiling, and write the profile.

    Raises:
        RuntimeError: none is being made.
        NotImplementedError: with ``save=False``: JAX writes what it stops.
    """
    if not save:
        raise NotImplementedError("tf.profiler.experimental.stop(save=False): JAX saves profiles")
    jax.profiler.stop_trace()


class ProfileContext:
    """A profile of what runs within the context, as ``tf.profiler.experimental.Profile``."""

    def __init__(self, logdir: Any, options: ProfilerChoices | None = None):
        self._given = logdir, options

    def __enter__(self) -> None:
        start_profile(*self._given)

    def __exit__(self, *error: object) -> None:
        stop_profile()


ProfileContext.__name__ = ProfileContext.__qualname__ = "Profile"


class ProfiledSection:
    """Names what runs within the context in a profile, as ``tf.profiler.experimental.Trace``.

    Args:
        name: shown in the profile.
        kwargs: shown with it; ``step_num`` marks a step.
    """

    def __init__(self, name: str, **kwargs: Any):
        step = kwargs.pop("_r", None)
        kind = jax.profiler.TraceAnnotation
        if step is not None or "step_num" in kwargs:
            kind = jax.profiler.StepTraceAnnotation
        self._annotation = kind(name, **kwargs)

    def __enter__(self) -> ProfiledSection:
        self._annotation.__enter__()
        return self

    def set_metadata(self, **kwargs: Any) -> None:
        """Show more with it."""
        self._annotation.set_metadata(**kwargs)

    def __exit__(self, *error: Any) -> None:
        self._annotation.__exit__(*error)


ProfiledSection.__name__ = ProfiledSection.__qualname__ = "Trace"
