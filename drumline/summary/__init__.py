"""Summaries for TensorBoard: numbers, distributions, images, sound, text and graphs.

``dl.summary`` follows ``tf.summary``: a writer is the default of a thread, and what is recorded
goes to its event file. Recording waits neither for the device nor for the disk, and in a
strategy's step one replica records.
"""

from drumline.summary.graphs import graph
from drumline.summary.kinds import audio, histogram, image, scalar, text, write
from drumline.summary.recording import should_record_summaries, write_raw
from drumline.summary.traces import trace_export, trace_off, trace_on
from drumline.summary.writer import (
    SummaryWriter,
    create_file_writer,
    create_noop_writer,
    flush,
    get_step,
    record_if,
    set_step,
    summary_scope,
)

__all__ = [
    "SummaryWriter",
    "audio",
    "create_file_writer",
    "create_noop_writer",
    "flush",
    "get_step",
    "graph",
    "histogram",
    "image",
    "record_if",
    "scalar",
    "set_step",
    "should_record_summaries",
    "summary_scope",
    "text",
    "trace_export",
    "trace_off",
    "trace_on",
    "write",
    "write_raw",
]
