"""``tf.summary``, whose files are read by TensorBoard's messages, and ``tf.profiler``."""

from __future__ import annotations

import gc
import io
import os
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline.compat.tf as tf
from drumline.data import TFRecordDataset
from drumline.training.background import background

event_pb2 = pytest.importorskip("tensorboard.compat.proto.event_pb2")


def _events(directory: Path) -> list[Any]:
    found = []
    for path in sorted(directory.iterdir()):
        records = TFRecordDataset(str(path))
        found += [event_pb2.Event.FromString(bytes(each)) for each in records]
    assert found[0].file_version == "brain.Event:2"
    return [event for event in found if not event.file_version]


def _number(event: Any) -> float:
    (value,) = event.summary.value
    return float(np.frombuffer(value.tensor.tensor_content, np.float32)[0])


def test_scalars_of_a_loop(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        for step in range(3):
            assert bool(tf.summary.scalar("loss", tf.constant(step * 0.5), step=step))
    events = _events(tmp_path)
    assert [(event.step, _number(event)) for event in events] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert {event.summary.value[0].tag for event in events} == {"loss"}
    metadata = events[0].summary.value[0].metadata
    assert metadata.plugin_data.plugin_name == "scalars"


def test_tags_begin_with_the_scopes_of_names(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))

    @tf.function
    def step(x: Any) -> Any:
        with tf.name_scope("gradients"):
            tf.summary.histogram("kernel", x, step=1)
        return x

    with writer.as_default(step=0):
        step(tf.ones(3))
        with tf.name_scope("outer"), tf.name_scope("inner"):
            tf.summary.scalar("loss", 1.0)
            with tf.summary.experimental.summary_scope("part") as (tag, scope):
                tf.summary.text("note", "text")
            tf.summary.write("whole", 2.0)  # a tag, not a name
        tf.summary.scalar("loss", 1.0)
    assert (tag, scope) == ("outer/inner/part", "outer/inner/part/")
    tags = [event.summary.value[0].tag for event in _events(tmp_path)]
    assert sorted(tags) == sorted(
        ["gradients/kernel", "outer/inner/loss", "outer/inner/part/note", "whole", "loss"]
    )


def test_compiled_functions_record_each_time(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    count = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(x: Any) -> Any:
        with writer.as_default():
            tf.summary.scalar("sum", tf.reduce_sum(x), step=count)
            with tf.summary.record_if(tf.equal(count % 2, 0)):
                tf.summary.scalar("even", 1.0, step=count)
        count.assign_add(1)
        return x

    for number in range(4):
        step(tf.constant([1.0, number]))
    writer.close()
    events = [
        (event.summary.value[0].tag, event.step, _number(event)) for event in _events(tmp_path)
    ]
    assert sorted(events) == [
        ("even", 0, 1.0),
        ("even", 2, 1.0),
        *(("sum", number, 1.0 + number) for number in range(4)),
    ]


def test_without_a_writer_or_a_step(tmp_path: Path) -> None:
    assert not bool(tf.summary.scalar("x", 1.0, step=0))
    assert not bool(tf.summary.should_record_summaries())
    with (
        tf.summary.create_file_writer(str(tmp_path)).as_default(),
        pytest.raises(ValueError, match="No step set"),
    ):
        tf.summary.scalar("x", 1.0)
    with tf.summary.create_noop_writer().as_default(step=3):
        assert bool(tf.summary.scalar("x", 1.0))


def test_default_steps_and_conditions(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(step=7):
        assert tf.summary.experimental.get_step() == 7
        with tf.summary.record_if(lambda: False):
            assert not bool(tf.summary.should_record_summaries())
            assert not bool(tf.summary.scalar("no", 1.0))
        with tf.summary.experimental.summary_scope("outer") as (tag, scope):
            assert (tag, scope) == ("outer", "outer/")
            tf.summary.scalar("yes", 1.0)
    assert tf.summary.experimental.get_step() is None
    (event,) = _events(tmp_path)
    assert (event.step, event.summary.value[0].tag) == (7, "outer/yes")


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    writer.close()
    with pytest.raises(RuntimeError, match="already closed"), writer.as_default():
        pass


def test_what_was_recorded_is_written_when_the_writer_is_dropped(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    none = tf.summary.create_noop_writer()
    with none.as_default():
        writer.set_as_default(step=0)
        tf.summary.scalar("x", 1.0)
        none.set_as_default()
        tf.summary.experimental.set_step(None)
        del writer
        background.drain()
        gc.collect()
    assert [_number(event) for event in _events(tmp_path)] == [1.0]


def test_queues_that_are_full_are_written(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path), max_queue=2, filename_suffix=".mine")
    with writer.as_default():
        tf.summary.scalar("x", 1.0, step=0)
        background.drain()
        assert _events(tmp_path) == []
        tf.summary.scalar("x", 1.0, step=1)
        background.drain()
        assert len(_events(tmp_path)) == 2
    assert next(tmp_path.iterdir()).name.endswith(".mine")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_child_writes_nothing_twice(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        tf.summary.scalar("x", 1.0, step=0)
        child = os.fork()
        if child == 0:
            del writer
            os._exit(0)
        os.waitpid(child, 0)
    writer.close()
    assert len(_events(tmp_path)) == 1


def test_histograms_images_sound_and_text(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    sound = np.linspace(-1, 1, 20, dtype=np.float32).reshape(1, 20, 1)
    picture = np.zeros((2, 3, 4, 3), np.float32)
    with writer.as_default(step=1):
        tf.summary.histogram("h", tf.constant([0.0, 1.0, 1.0, 2.0]), buckets=2)
        tf.summary.histogram("empty", tf.constant([], tf.float32))
        tf.summary.histogram("one", tf.constant([3.0, 3.0]), buckets=2)
        tf.summary.image("i", picture, max_outputs=1)
        tf.summary.audio("a", sound, 8000)
        tf.summary.text("t", tf.constant(["x", "y"]))
    tensors = {
        event.summary.value[0].tag: event.summary.value[0].tensor for event in _events(tmp_path)
    }
    counts = np.frombuffer(tensors["h"].tensor_content).reshape(2, 3)
    assert counts.tolist() == [[0, 1, 1], [1, 2, 3]]
    assert len(tensors["empty"].tensor_content) == 30 * 3 * 8
    one = np.frombuffer(tensors["one"].tensor_content).reshape(2, 3)
    assert one.tolist() == [[3, 3, 0], [3, 3, 2]]
    width, height, *encoded = tensors["i"].string_val
    assert (width, height, len(encoded)) == (b"4", b"3", 1)
    assert tf.io.decode_png(encoded[0]).shape == (3, 4, 3)
    with wave.open(io.BytesIO(tensors["a"].string_val[0])) as file:
        assert (file.getframerate(), file.getnframes(), file.getsampwidth()) == (8000, 20, 2)
    assert list(tensors["t"].string_val) == [b"x", b"y"]


def test_a_profile_is_written(tmp_path: Path) -> None:
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=1)
    with (
        tf.profiler.experimental.Profile(str(tmp_path), options),
        tf.profiler.experimental.Trace("train", step_num=1, _r=1),
    ):
        tf.reduce_sum(tf.ones((4, 4)))
    assert list(tmp_path.rglob("*.xplane.pb"))
    with pytest.raises(NotImplementedError, match="saves profiles"):
        tf.profiler.experimental.stop(save=False)


def test_traces_without_a_directory() -> None:
    with pytest.raises(ValueError, match="profiler_outdir"):
        tf.summary.trace_on(graph=False, profiler=True)
    tf.summary.trace_on(graph=False)
    tf.summary.trace_export("x", step=0)
    with pytest.raises(ValueError, match="Must enable trace"):
        tf.summary.trace_export("x", step=0)


def test_a_trace_writes_a_profile(tmp_path: Path) -> None:
    tf.summary.trace_on(graph=False, profiler=True, profiler_outdir=str(tmp_path))
    tf.reduce_sum(tf.ones((4, 4)))
    tf.summary.trace_export("x", step=0)
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_messages_of_every_dtype_are_read_back(tmp_path: Path) -> None:
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=-1):
        for kind in (np.float64, np.int32, np.int64, np.uint8, np.bool_):
            tf.summary.write(np.dtype(kind).name, np.arange(3).astype(kind))
        with pytest.raises(TypeError, match="complex64"):
            tf.summary.write("c", np.zeros(2, np.complex64))
    events = _events(tmp_path)
    assert [event.step for event in events] == [-1] * 5
    for event in events:
        (value,) = event.summary.value
        found = np.frombuffer(value.tensor.tensor_content, value.tag)
        assert found.tolist() == np.arange(3).astype(value.tag).tolist()
        assert [dim.size for dim in value.tensor.tensor_shape.dim] == [3]


def test_tensorboard_reads_them(tmp_path: Path) -> None:
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=2):
        tf.summary.scalar("loss", 0.5)
        tf.summary.text("t", "x")
        tf.summary.image("i", np.zeros((1, 2, 2, 3)))
        tf.summary.audio("a", np.zeros((1, 4, 1)), 8000)
        tf.summary.histogram("h", [1.0, 2.0])
    read = module.EventAccumulator(str(tmp_path))
    read.Reload()
    assert sorted(read.Tags()["tensors"]) == ["a", "h", "i", "loss", "t"]
    (event,) = read.Tensors("loss")
    assert event.step == 2
    assert np.frombuffer(event.tensor_proto.tensor_content, np.float32).tolist() == [0.5]
