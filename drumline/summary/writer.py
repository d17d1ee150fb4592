"""Writers of summaries, and what is the default in a thread: a writer, a step, a condition."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline._event_files import SummaryFile
from drumline._jax_start import traces
from drumline.distribute.step.replica_barrier import carried_to_replicas
from drumline.training.background import background

Condition = bool | jax.Array | Callable[[], Any]


class SummaryWriter:
    """Writes summaries to an event file that TensorBoard reads, as ``tf.summary.SummaryWriter``.

    Made by `create_file_writer` and `create_noop_writer`. Summaries are written in a thread of
    their own. An error there, as of a full disk, is raised by the next summary, or by `flush` or
    `close`; what was recorded waits in memory meanwhile.

    Args:
        file: None for a writer that writes nothing.
    """

    def __init__(self, file: SummaryFile | None):
        self._file = file
        self._error: Exception | None = None

    @property
    def path(self) -> str | None:
        """The event file; None if nothing is written."""
        return None if self._file is None else self._file.path

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
    def as_default(self, step: Any = None) -> Iterator[SummaryWriter]:
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
        """Write out what was recorded; in a step that is being compiled, nothing.

        Raises:
            OSError: it cannot be written, now or since the last time.
        """
        if self._file is None or self._file.closed or traces():
            return
        self._drain()
        self._file.flush()

    def close(self) -> None:
        """Write out what was recorded, and close the file.

        Raises:
            OSError: as of `flush`.
        """
        if self._file is not None and not self._file.closed:
            if not traces():
                self._drain()
            self._file.close()

    def init(self) -> None:
        """Does nothing: files are opened when writers are made."""

    def _drain(self) -> None:
        jax.effects_barrier()
        background.drain()
        self.raise_error()

    def failed(self, tag: str, error: Exception) -> None:
        """Keep what went wrong in the thread, for who records, flushes or closes next."""
        error.add_note(f"while the summary {tag!r} was written")
        self._error = error
        _failed[id(self)] = self

    def raise_error(self) -> None:
        """Raise what went wrong in the thread, once."""
        if self._error is None:
            return
        error, self._error = self._error, None
        _failed.pop(id(self), None)
        raise error

    def put(self, tag: str, make: Made, value: Any, step: Any, when: float) -> None:
        """Have a summary written.

        Args:
            tag: its name.
            make: makes a ``Summary`` message of the tag and the value.
            value: an array, of numpy's or JAX's.
            step: a number, or an array that is one.
            when: seconds since 1970.
        """
        background.put(_Summary(self, tag, make, value, step, when))

    def write(self, tag: str, make: Made, value: Any, step: Any, when: float) -> None:
        """Write a summary, in the thread of the background; keeps the error if that fails."""
        assert self._file is not None
        try:
            self._file.add(make(tag, np.asarray(value)), int(step), when)
        except Exception as error:  # whatever it is, the thread must continue
            self.failed(tag, error)

    def put_message(self, message: bytes, step: Any) -> None:
        """Have a ``Summary`` message written."""
        when = time.time()
        self._put_bytes("raw", message, lambda f: f.add(message, int(np.asarray(step)), when))

    def put_graph(self, graph: bytes) -> None:
        """Have a ``GraphDef`` message written."""
        when = time.time()
        self._put_bytes("graph", graph, lambda file: file.add_graph(graph, when))

    def _put_bytes(self, tag: str, content: bytes, write: Callable[[SummaryFile], None]) -> None:
        background.put(_Entry(self, tag, write, len(content)))

    def _check(self) -> None:
        if self._file is not None and self._file.closed:
            raise RuntimeError(
                f"The SummaryWriter of {self._file.path} is already closed: make another one"
            )


Made = Callable[[str, np.ndarray], bytes]


class _Summary:
    """A summary that is to be written."""

    __slots__ = ("_parts", "_writer", "nbytes")

    def __init__(self, writer: SummaryWriter, *parts: Any) -> None:
        value = parts[2]
        self._writer, self._parts = writer, parts
        self.nbytes = math.prod(value.shape) * value.dtype.itemsize

    def write(self) -> None:
        self._writer.write(*self._parts)


@dataclass(slots=True)
class _Entry:
    """Something to be written to a writer's file."""

    writer: SummaryWriter
    tag: str
    into: Callable[[SummaryFile], None]
    nbytes: int

    def write(self) -> None:
        file = self.writer._file
        assert file is not None
        try:
            self.into(file)
        except Exception as error:  # whatever it is, the thread must continue
            self.writer.failed(self.tag, error)


_failed: dict[int, SummaryWriter] = {}
"""Writers whose errors were not raised yet."""


def _report_at_exit() -> None:
    for writer in _failed.values():
        sys.stderr.write(f"drumline: summaries were not written: {writer._error}\n")


background.before_exit(_report_at_exit)


class _Defaults(threading.local):
    writer: SummaryWriter | None = None
    step: Any = None
    recording: Any = True
    scopes: tuple[str, ...] = ()


_state = _Defaults()


def _captured() -> Callable[[], None]:
    kept = dict(vars(_state))
    return lambda: vars(_state).update(kept)


carried_to_replicas.append(_captured)


def create_file_writer(
    logdir: str | os.PathLike[str],
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
) -> SummaryWriter:
    """Open a new event file in a directory, as ``tf.summary.create_file_writer``.

    Each writer has a file of its own, so that several may write to one directory.

    Args:
        logdir: made if it is not there.
        max_queue: after so many summaries they are written out, 10 by default.
        flush_millis: after so many milliseconds the next one has them written out, 120000 by
            default.
        filename_suffix: at the end of the file's name.

    Raises:
        ValueError: the directory is a URL, or None.
        OSError: the file cannot be made.

    Example:
        >>> import tempfile
        >>> import drumline as dl
        >>> writer = dl.summary.create_file_writer(tempfile.mkdtemp())
        >>> with writer.as_default():
        ...     for step in range(3):
        ...         recorded = dl.summary.scalar("loss", 1 / (step + 1), step=step)
        >>> writer.close()
    """
    if logdir is None:
        raise ValueError("Argument `logdir` cannot be None")
    most = 10 if max_queue is None else max_queue
    millis = 120_000 if flush_millis is None else flush_millis
    return SummaryWriter(SummaryFile(logdir, most, millis / 1000, filename_suffix or ""))


def create_noop_writer() -> SummaryWriter:
    """A writer that writes nothing, for processes that are to record nothing."""
    return SummaryWriter(None)


def default_writer() -> SummaryWriter | None:
    """Where summaries of this thread go, or None."""
    return _state.writer


def flush(writer: SummaryWriter | None = None) -> None:
    """Write out what was recorded by a writer, by default that of this thread.

    Raises:
        OSError: it cannot be written.
    """
    chosen = writer or _state.writer
    if chosen is not None:
        chosen.flush()


def get_step() -> Any:
    """The default step of this thread, or None."""
    return _state.step


def set_step(step: Any) -> None:
    """Set the default step: a number, or a variable whose value is read for each summary."""
    _state.step = step


@contextlib.contextmanager
def record_if(condition: Condition) -> Iterator[None]:
    """Record summaries within the context if a condition holds.

    Args:
        condition: a bool, a scalar array, or a function that gives one, called for each summary;
            in a compiled step an array that the step computes.
    """
    before, _state.recording = _state.recording, condition
    try:
        yield
    finally:
        _state.recording = before


def recording() -> Any:
    """Whether summaries are recorded: there is a writer, and the condition holds.

    A bool, or in a compiled step what it computes.
    """
    if _state.writer is None:
        return False
    return _state.recording() if callable(_state.recording) else _state.recording


@contextlib.contextmanager
def summary_scope(name: str, default_name: str = "summary") -> Iterator[tuple[str, str]]:
    """Put a name before the tags of what is recorded within the context.

    Args:
        name: the name.
        default_name: stands for a name that is empty.

    Returns:
        A context that gives the tag of this name, and what it puts before others.
    """
    before = _state.scopes
    _state.scopes = (*before, name or default_name)
    try:
        yield "/".join(_state.scopes), "/".join(_state.scopes) + "/"
    finally:
        _state.scopes = before


def tag_of(name: str) -> str:
    """The tag of a summary of that name here."""
    return "/".join((*_state.scopes, name or "summary"))
