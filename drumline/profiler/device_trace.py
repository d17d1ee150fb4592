"""Traces of devices: for XProf and Perfetto, and to see how much of a step is communication."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import jax

from drumline.profiler.trace_file import read_trace

_COLLECTIVES = re.compile(
    r"all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|collective[-_]?permute|all[-_]?to[-_]?all"
    r"|psum|pmean|ppermute|nccl",
    re.IGNORECASE,
)


class DeviceTrace:
    """A trace of some steps, made by JAX's profiler.

    Args:
        directory: where it goes, as TensorBoard's profile plugin reads it; None for a directory
            that is removed when it was read.
        steps: the first step that is traced, counted from 0, and the one that is not any more.

    Attributes:
        is_over: whether no further step is to be traced.
        communication_share: what `communication_share` found in the trace.

    Raises:
        ValueError: if these are not two numbers in order.
    """

    def __init__(
        self, directory: str | os.PathLike[str] | None, steps: tuple[int, int] = (10, 12)
    ) -> None:
        self._first, self._end = _checked(steps)
        self._directory = None if directory is None else os.fspath(directory)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._active = False
        self._begun = False
        self._step = 0
        self.is_over = False
        self.communication_share: float | None = None

    def step_started(self, array: Any) -> None:
        """Begin or end the trace, if it is time, when a step was started.

        Args:
            array: of its results; waited for behind the last step of the trace alone.
        """
        self._step += 1
        if not self._begun and self._step >= self._first:
            _wait(array)
            self._begin()
        elif self._active and self._step >= self._end:
            _wait(array)
            self.stop()

    def stop(self) -> None:
        """End the trace if it is under way, and write it."""
        if not self._active:
            return
        self._active = False
        self.is_over = True
        jax.profiler.stop_trace()
        directory = self._directory or (self._temporary.name if self._temporary else "")
        self.communication_share = communication_share(directory)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _begin(self) -> None:
        self._begun = self._active = True
        directory = self._directory
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="drumline-trace-")
            directory = self._temporary.name
        try:
            start_trace(directory, python=self._directory is not None)
        except RuntimeError:
            self._active = False
            self.is_over = True
            if self._directory is not None:
                raise
            # Another trace is being made, which goes before a sample.


def start_trace(directory: str, *, python: bool = True) -> None:
    """Start JAX's profiler, which writes to a directory when it is stopped.

    Args:
        directory: made if it is not there.
        python: whether calls of Python functions are in the trace, which slows them.

    Raises:
        RuntimeError: a trace is being made already.
    """
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = int(python)
    try:
        jax.profiler.start_trace(directory, profiler_options=options)
    except RuntimeError as error:
        raise RuntimeError(
            f"The trace of devices cannot begin, as JAX's profiler runs already ({error}): end it "
            "first, or ask for one trace alone."
        ) from error


def communication_share(directory: str) -> float | None:
    """The share of the time of a trace's operations that collectives took; None if it shows none.

    Args:
        directory: that was given to JAX's profiler; the newest trace in it counts.
    """
    files = sorted(Path(directory).rglob("*.xplane.pb"), key=lambda file: file.stat().st_mtime)
    if not files:
        return None
    total = collectives = 0.0
    for event in read_trace(files[-1], having="hlo_op"):
        total += event.duration
        if _COLLECTIVES.search(event.name):
            collectives += event.duration
    return collectives / total if total else None


def _wait(array: Any) -> None:
    if array is not None and not array.is_deleted():
        array.block_until_ready()


def _checked(steps: Any) -> tuple[int, int]:
    try:
        first, end = steps
    except (TypeError, ValueError):
        raise ValueError(f"steps must be two numbers, such as (10, 12), got {steps!r}.") from None
    if not isinstance(first, int) or not isinstance(end, int) or not 0 <= first < end:
        raise ValueError(
            f"steps must be the first step and the one after the last, such as (10, 12), got "
            f"{steps!r}."
        )
    return first, end
