"""``tf.summary``: event files for TensorBoard, and ``tf.profiler``, over JAX's profiler."""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline import image as images
from drumline._event_files import SummaryFile, summary_metadata, summary_value, tensor_message
from drumline._jax_start import traces
from drumline.compat.values.convert import convert, raw, static
from drumline.compat.values.tensor import Tensor

_SCALAR, _TENSOR, _BLOBS = 1, 2, 3
_IMAGE_CONTENT = b"\x10\x01"  # ImagePluginData(converted_to_tensor=True)
_AUDIO_CONTENT = b"\x10\x0b\x18\x01"  # AudioPluginData(encoding=WAV, converted_to_tensor=True)


class _Defaults(threading.local):
    """What is the default in a thread: where summaries go, of which step, and whether."""

    writer: EventWriter | None = None
    step: Any = None
    recording: Any = True
    scopes: tuple[str, ...] = ()


_state = _Defaults()


class EventWriter:
    """Writes summaries to an event file, as ``tf.summary.SummaryWriter``.

    Args:
        file: None for a writer that writes nothing.
    """

    def __init__(self, file: SummaryFile | None):
        self._file = file

    def set_as_default(self, step: Any = None) -> None:
        """Let summaries of this thread go here.

        Args:
            step: the default step from now on, unless None.

        Raises:
            RuntimeError: it is closed.
        """
        self._check()
        _state.writer = self
        if step is not None:
            _state.step = step

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator[EventWriter]:
        """Let summaries of this thread go here within the context, which ends with a `flush`.

        Args:
            step: the default step within it, unless None.

        Raises:
            RuntimeError: it is closed.
        """
        self._check()
        before = _state.writer, _state.step
        _state.writer = self
        if step is not None:
            _state.step = step
        try:
            yield self
            self.flush()
        finally:
            if step is None:
                before = before[0], _state.step
            _state.writer, _state.step = before

    def flush(self) -> None:
        """Write out what was recorded."""
        if self._file is not None:
            if not traces():
                jax.effects_barrier()
            self._file.flush()

    def close(self) -> None:
        """Write out what was recorded, and close the file."""
        if self._file is not None:
            if not traces():
                jax.effects_barrier()
            self._file.close()

    def init(self) -> None:
        """Does nothing: files are opened when writers are made."""

    def _check(self) -> None:
        if self._file is not None and self._file.closed:
            raise RuntimeError("SummaryWriter is already closed")


EventWriter.__name__ = EventWriter.__qualname__ = "SummaryWriter"


def create_file_writer(
    logdir: Any,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: str | None = None,
    experimental_trackable: bool = False,
) -> EventWriter:
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
    if logdir is None:
        raise ValueError("Argument `logdir` cannot be None")
    most = 10 if max_queue is None else int(static(max_queue))
    millis = 120_000 if flush_millis is None else int(static(flush_millis))
    suffix = "" if filename_suffix is None else _text(filename_suffix)
    return EventWriter(SummaryFile(_text(logdir), most, millis / 1000, suffix))


def create_noop_writer() -> EventWriter:
    """A writer that writes nothing."""
    return EventWriter(None)


def _text(value: Any) -> str:
    found = static(raw(value))
    found = found.item() if isinstance(found, np.ndarray) else found
    return found.decode() if isinstance(found, bytes) else str(found)


def flush(writer: EventWriter | None = None, name: str | None = None) -> None:
    """Write out what was recorded by a writer, by default that of this thread."""
    chosen = writer or _state.writer
    if chosen is not None:
        chosen.flush()


def get_step() -> Any:
    """The default step, or None."""
    return _state.step


def set_step(step: Any) -> None:
    """Set the default step: a number, or a variable whose value is read for each summary."""
    _state.step = step


@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Record summaries within the context if a condition holds.

    Args:
        condition: a bool, a tensor, or a function that gives one, called for each summary.
    """
    before, _state.recording = _state.recording, condition
    try:
        yield
    finally:
        _state.recording = before


def should_record_summaries() -> Any:
    """Whether summaries are recorded now: there is a writer, and `record_if`'s condition holds."""
    recording = _recording()
    return Tensor(np.asarray(bool(recording)) if _is_known(recording) else recording)


def _recording() -> Any:
    if _state.writer is None:
        return False
    chosen = _state.recording() if callable(_state.recording) else _state.recording
    return raw(chosen)


def _is_known(value: Any) -> bool:
    return not isinstance(value, jax.core.Tracer)


@contextlib.contextmanager
def summary_scope(
    name: str, default_name: str = "summary", values: Any = None
) -> Iterator[tuple[str, str]]:
    """Name what is recorded within the context; gives the tag and the scope."""
    own = name or default_name
    before = _state.scopes
    _state.scopes = (*before, own)
    try:
        yield "/".join(_state.scopes), "/".join(_state.scopes) + "/"
    finally:
        _state.scopes = before


def _record(
    name: str, make: Callable[[np.ndarray], Any], data: Any, step: Any, as_array: Any = convert
) -> Tensor:
    """Record what `make` makes of the data: at once, or when the compiled function runs."""
    recording = _recording()
    if _is_known(recording) and not bool(recording):
        return Tensor(np.asarray(False))
    writer: Any = _state.writer
    chosen = _state.step if step is None else step
    if chosen is None:
        raise ValueError(
            "No step set. Please specify one either through the `step` argument or through "
            "tf.summary.experimental.set_step()"
        )
    if writer._file is None:
        return Tensor(np.asarray(True))
    file: SummaryFile = writer._file
    value, number = as_array(data() if callable(data) else data), raw(chosen)
    with summary_scope(name) as (tag, _):
        pass

    def write(value: Any, number: Any, recording: Any) -> None:
        if bool(recording):
            tensor = make(np.asarray(value))
            file.add(summary_value(tag, *_parts(tensor)), int(np.asarray(number)))

    if traces():
        texts = isinstance(value, np.ndarray) and value.dtype.kind == "O"
        if texts:
            jax.debug.callback(lambda n, r: write(value, n, r), number, recording)
        else:
            jax.debug.callback(write, value, number, recording)
    else:
        write(value, number, recording)
    return Tensor(recording if not _is_known(recording) else np.asarray(True))


def _parts(made: Any) -> tuple[bytes, bytes]:
    metadata, tensor = made
    return metadata, tensor


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
    metadata = summary_metadata("scalars", b"", description or "", _SCALAR)

    def make(value: np.ndarray) -> Any:
        if value.ndim:
            raise ValueError(f"tf.summary.scalar({name!r}): expected a scalar, got {value.shape}")
        return metadata, tensor_message(value.astype(np.float32))

    return _record(name, make, data, step)


def histogram(
    name: str, data: Any, step: Any = None, buckets: Any = None, description: str | None = None
) -> Tensor:
    """Record how numbers are distributed, as `scalar`; ``buckets`` (30) of equal width."""
    count = 30 if buckets is None else int(static(buckets))
    metadata = summary_metadata("histograms", b"", description or "", _TENSOR)
    return _record(
        name, lambda value: (metadata, tensor_message(_buckets(value, count))), data, step
    )


def _buckets(data: np.ndarray, count: int) -> np.ndarray:
    """Left edges, right edges and counts, as TensorBoard makes them."""
    flat = data.astype(np.float64).ravel()
    if count == 0 or not flat.size:
        return np.zeros((count, 3))
    low, high = flat.min(), flat.max()
    if high == low:
        edges = np.full(count, low)
        counts = np.zeros(count)
        counts[-1] = flat.size
        return np.stack([edges, edges, counts], 1)
    width = (high - low) / count
    places = np.minimum(np.floor((flat - low) / width).astype(np.int64), count - 1)
    edges = np.linspace(low, high, count + 1)
    return np.stack([edges[:-1], edges[1:], np.bincount(places, minlength=count)], 1)


def image(
    name: str, data: Any, step: Any = None, max_outputs: Any = 3, description: str | None = None
) -> Tensor:
    """Record images, (batch, height, width, channels); floats are from 0 to 1."""
    most = int(static(max_outputs))
    metadata = summary_metadata("images", _IMAGE_CONTENT, description or "", _BLOBS)

    def make(value: np.ndarray) -> Any:
        if value.ndim != 4:
            raise ValueError(f"tf.summary.image({name!r}): expected 4 dimensions: {value.shape}")
        bytes_of = images.convert_image_dtype(value[:most], np.uint8, saturate=True)
        encoded = [bytes(images.encode_png(each)) for each in np.asarray(bytes_of)]
        size = [str(value.shape[2]).encode(), str(value.shape[1]).encode()]
        return metadata, tensor_message(_strings([*size, *encoded]))

    return _record(name, make, data, step)


def _strings(texts: list[bytes], shape: tuple[int, ...] = (-1,)) -> np.ndarray:
    made = np.empty(len(texts), object)
    made[:] = texts
    return made.reshape(shape)


def text(name: str, data: Any, step: Any = None, description: str | None = None) -> Tensor:
    """Record text, which TensorBoard shows as Markdown; vectors and matrices as tables."""
    metadata = summary_metadata("text", b"", description or "", _TENSOR)
    return _record(name, lambda value: (metadata, tensor_message(value)), data, step, _as_text)


def _as_text(data: Any) -> np.ndarray:
    value = convert(data)
    if getattr(value, "dtype", None) != np.dtype(object):
        raise ValueError(f"Text summary data must be a tensor of strings, got {data!r:.60}")
    found: np.ndarray = value
    return found


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
    if encoding not in (None, "wav"):
        raise ValueError(f"Unknown encoding: {encoding!r}")
    most, rate = int(static(max_outputs)), int(static(sample_rate))
    metadata = summary_metadata("audio", _AUDIO_CONTENT, description or "", _BLOBS)

    def make(value: np.ndarray) -> Any:
        if value.ndim != 3:
            raise ValueError(f"tf.summary.audio({name!r}): expected 3 dimensions: {value.shape}")
        clips = [part for clip in value[:most] for part in (_wav(clip, rate), b"")]
        return metadata, tensor_message(_strings(clips, (-1, 2)))

    return _record(name, make, data, step)


def _wav(clip: np.ndarray, rate: int) -> bytes:
    samples = np.clip(np.rint(clip * 32767.0), -32768, 32767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(clip.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


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
    about = metadata.SerializeToString() if hasattr(metadata, "SerializeToString") else metadata
    return _record(tag, lambda value: (about or b"", tensor_message(value)), tensor, step)


def write_raw_pb(tensor: Any, step: Any = None, name: str | None = None) -> Tensor:
    """Record a serialized ``Summary`` message, as `scalar`."""
    recording = _recording()
    if not bool(recording):
        return Tensor(np.asarray(False))
    chosen = _state.step if step is None else step
    if chosen is None:
        raise ValueError("No step set. Please specify one through the `step` argument")
    writer: Any = _state.writer
    if writer._file is not None:
        writer._file.add(bytes(static(raw(tensor))), int(static(chosen)))
    return Tensor(np.asarray(True))


# Traces.


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


class _Tracing(threading.local):
    active: bool = False
    profiles: bool = False


_trace = _Tracing()


def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: Any = None) -> None:
    """Begin a trace for `trace_export`.

    Args:
        graph: accepted with a warning where it is all that is asked for: there are no graphs.
        profiler: whether to profile what runs.
        profiler_outdir: where the profile goes.

    Raises:
        ValueError: a profile is asked for, and no directory given.
    """
    if graph and not profiler:
        warnings.warn(
            "tf.summary.trace_on: compiled functions have no graph that TensorBoard shows; "
            "profiler=True, profiler_outdir=... records what runs",
            stacklevel=2,
        )
    if profiler:
        if profiler_outdir is None:
            raise ValueError("Argument `profiler_outdir` is not specified.")
        start_profile(profiler_outdir)
        _trace.profiles = True
    _trace.active = True


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """End the trace, and write its profile, if one was asked for.

    Args:
        name: accepted; it is of the graph.
        step: accepted likewise.
        profiler_outdir: accepted, as in TensorFlow: it is given to `trace_on`.

    Raises:
        ValueError: no trace was begun.
    """
    if not _trace.active:
        raise ValueError("Must enable trace before export through tf.summary.trace_on.")
    trace_off()


def trace_off() -> None:
    """End the trace."""
    _trace.active = False
    if _trace.profiles:
        _trace.profiles = False
        stop_profile()
