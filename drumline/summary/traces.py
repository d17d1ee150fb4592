"""Traces: the graphs of the functions that are called between two lines, and profiles of them."""

from __future__ import annotations

import os
import threading
from typing import Any

import jax
import numpy as np

from drumline._event_messages import bytes_field, summary_message, summary_metadata, tensor_message
from drumline.distribute.functions import CalledFunctions
from drumline.summary.graphs import graph_message, program_nodes
from drumline.summary.recording import record


class _Tracing(threading.local):
    functions: CalledFunctions | None = None
    profiles: bool = False
    active: bool = False


_trace = _Tracing()


def trace_on(
    graph: bool = True,
    profiler: bool = False,
    profiler_outdir: str | os.PathLike[str] | None = None,
) -> None:
    """Begin a trace, as ``tf.summary.trace_on``; `trace_export` ends it and records it.

    Args:
        graph: whether the programs of compiled functions (`drumline.function`) that this thread
            calls are recorded.
        profiler: whether to profile what runs, with JAX's profiler.
        profiler_outdir: where the profile goes.

    Raises:
        ValueError: a profile is asked for, and no directory given.
        RuntimeError: a profile is being made already.

    Example:
        >>> import tempfile
        >>> import drumline as dl
        >>> @dl.function
        ... def double(x):
        ...     return x * 2
        >>> dl.summary.trace_on()
        >>> doubled = double(np.float32(1.0))
        >>> with dl.summary.create_file_writer(tempfile.mkdtemp()).as_default():
        ...     dl.summary.trace_export("double", step=0)
    """
    trace_off()
    if profiler:
        if profiler_outdir is None:
            raise ValueError("Argument `profiler_outdir` is not specified.")
        jax.profiler.start_trace(os.fspath(profiler_outdir))
        _trace.profiles = True
    if graph:
        _trace.functions = CalledFunctions()
        _trace.functions.__enter__()
    _trace.active = True


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """End the trace, record the graphs of the functions it saw, and write its profile.

    Args:
        name: the tag of the graphs.
        step: as of `scalar`.
        profiler_outdir: as TensorFlow takes it; a profile goes where `trace_on` puts it.

    Raises:
        ValueError: no trace was begun, or there is no step or writer.
    """
    if not _trace.active:
        raise ValueError("Must enable trace before export through summary.trace_on.")
    functions = _trace.functions
    trace_off()
    if functions is None:
        return
    graphs = [graph_message(program_nodes(jaxpr, title)) for title, jaxpr in functions.programs()]
    # RunMetadata.function_graphs, of which the plugin shows pre_optimization_graph.
    metadata = b"".join(bytes_field(4, bytes_field(2, each)) for each in graphs)
    about = summary_metadata("graph_run_metadata_graph", b"1")
    content = np.array(metadata, object)

    def make(tag: str, value: np.ndarray) -> bytes:
        return summary_message(tag, about, tensor_message(value))

    record(name, make, content, step, lambda value: None)


def trace_off() -> None:
    """End the trace; what it saw is dropped, and a profile that was begun is written."""
    _trace.active = False
    if _trace.functions is not None:
        _trace.functions.__exit__(None, None, None)
        _trace.functions = None
    if _trace.profiles:
        _trace.profiles = False
        jax.profiler.stop_trace()
