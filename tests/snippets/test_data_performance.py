"""The guide "Better performance with the tf.data API" in TensorFlow's spelling, 2.0's and today's.

Its fragments with shorter waits; drawing, which is matplotlib's, is left out.
"""

import itertools
import time
from collections import defaultdict

import numpy as np
import pytest

import drumline.compat.tf as tf

GUIDE = "guide/data_performance.ipynb"


class ArtificialDataset(tf.data.Dataset):
    def _generator(num_samples):
        # Opening the file
        time.sleep(0.0003)
        for sample_idx in range(num_samples):
            # Reading data (line, record) from the file
            time.sleep(0.00015)
            yield (sample_idx,)

    def __new__(cls, num_samples=3):
        return tf.data.Dataset.from_generator(
            cls._generator,
            output_signature=tf.TensorSpec(shape=(1,), dtype=tf.int64),
            args=(num_samples,),
        )


class FormerArtificialDataset(tf.data.Dataset):
    """As 2.0's guide has it."""

    _generator = ArtificialDataset._generator

    def __new__(cls, num_samples=3):
        return tf.data.Dataset.from_generator(
            cls._generator,
            output_types=tf.dtypes.int64,
            output_shapes=(1,),
            args=(num_samples,),
        )


def benchmark(dataset, num_epochs=2):
    """The samples of the epochs."""
    samples = []
    for _ in range(num_epochs):
        for sample in dataset:
            # Performing a training step
            time.sleep(0.0001)
            samples.append(int(sample.numpy()[0]))
    return samples


def mapped_function(s):
    # Do some hard pre-processing
    tf.py_function(lambda: time.sleep(0.0003), [], ())
    return s


@pytest.mark.parametrize("release", ["2.0", "today"])
def test_optimizing_performance(release):
    """guide/data_performance, sections "The naive approach" to "Caching"."""
    former = release == "2.0"
    Artificial = FormerArtificialDataset if former else ArtificialDataset
    autotune = tf.data.experimental.AUTOTUNE if former else tf.data.AUTOTUNE
    given = FormerArtificialDataset if former else (lambda _: ArtificialDataset())
    # 2.0 hands the element, 0 and 1, to the class: so many samples.
    both = [0] if former else [0, 0, 1, 1, 2, 2]
    assert benchmark(Artificial()) == [0, 1, 2] * 2
    assert benchmark(Artificial().prefetch(autotune)) == [0, 1, 2] * 2
    assert benchmark(tf.data.Dataset.range(2).interleave(given)) == both * 2
    parallel = tf.data.Dataset.range(2).interleave(given, num_parallel_calls=autotune)
    assert benchmark(parallel) == both * 2
    assert benchmark(Artificial().map(mapped_function)) == [0, 1, 2] * 2
    mapped = Artificial().map(mapped_function, num_parallel_calls=autotune)
    assert benchmark(mapped) == [0, 1, 2] * 2
    assert benchmark(Artificial().map(mapped_function).cache(), 5) == [0, 1, 2] * 5


def test_vectorizing_mapping():
    """guide/data_performance, section "Vectorizing mapping"."""
    fast_dataset = tf.data.Dataset.range(10000)

    def fast_benchmark(dataset, num_epochs=2):
        total = 0
        for _ in tf.data.Dataset.range(num_epochs):
            for batch in dataset:
                total += int(tf.reduce_sum(batch))
        return total

    def increment(x):
        return x + 1

    expected = 2 * sum(range(1, 10001))
    assert fast_benchmark(fast_dataset.map(increment).batch(256)) == expected
    assert fast_benchmark(fast_dataset.batch(256).map(increment)) == expected


class TimeMeasuredDataset(tf.data.Dataset):
    # OUTPUT: (steps, timings, counters)
    OUTPUT_TYPES = (tf.dtypes.string, tf.dtypes.float32, tf.dtypes.int32)
    OUTPUT_SHAPES = ((2, 1), (2, 2), (2, 3))

    _INSTANCES_COUNTER = itertools.count()  # Number of datasets generated
    _EPOCHS_COUNTER = defaultdict(itertools.count)  # noqa: RUF012  (number of epochs of each)

    def _generator(instance_idx, num_samples):
        epoch_idx = next(TimeMeasuredDataset._EPOCHS_COUNTER[instance_idx])
        open_enter = time.perf_counter()
        time.sleep(0.0003)
        open_elapsed = time.perf_counter() - open_enter
        for sample_idx in range(num_samples):
            read_enter = time.perf_counter()
            time.sleep(0.00015)
            read_elapsed = time.perf_counter() - read_enter
            yield (
                [("Open",), ("Read",)],
                [(open_enter, open_elapsed), (read_enter, read_elapsed)],
                [(instance_idx, epoch_idx, -1), (instance_idx, epoch_idx, sample_idx)],
            )
            open_enter, open_elapsed = -1.0, -1.0  # Negative values will be filtered

    def __new__(cls, num_samples=3):
        return tf.data.Dataset.from_generator(
            cls._generator,
            output_types=cls.OUTPUT_TYPES,
            output_shapes=cls.OUTPUT_SHAPES,
            args=(next(cls._INSTANCES_COUNTER), num_samples),
        )


def timelined_benchmark(dataset, num_epochs=2):
    # Initialize accumulators
    steps_acc = tf.zeros([0, 1], dtype=tf.dtypes.string)
    times_acc = tf.zeros([0, 2], dtype=tf.dtypes.float32)
    values_acc = tf.zeros([0, 3], dtype=tf.dtypes.int32)
    for epoch_num in range(num_epochs):
        epoch_enter = time.perf_counter()
        for steps, times, values in dataset:
            # Record dataset preparation informations
            steps_acc = tf.concat((steps_acc, steps), axis=0)
            times_acc = tf.concat((times_acc, times), axis=0)
            values_acc = tf.concat((values_acc, values), axis=0)
            train_enter = time.perf_counter()
            train_elapsed = time.perf_counter() - train_enter
            # Record training informations
            steps_acc = tf.concat((steps_acc, [["Train"]]), axis=0)
            times_acc = tf.concat((times_acc, [(train_enter, train_elapsed)]), axis=0)
            values_acc = tf.concat((values_acc, [values[-1]]), axis=0)
        epoch_elapsed = time.perf_counter() - epoch_enter
        # Record epoch informations
        steps_acc = tf.concat((steps_acc, [["Epoch"]]), axis=0)
        times_acc = tf.concat((times_acc, [(epoch_enter, epoch_elapsed)]), axis=0)
        values_acc = tf.concat((values_acc, [[-1, epoch_num, -1]]), axis=0)
    return {"steps": steps_acc, "times": times_acc, "values": values_acc}


def map_decorator(func):
    def wrapper(steps, times, values):
        # Use a tf.py_function to prevent auto-graph from compiling the method
        return tf.py_function(
            func, inp=(steps, times, values), Tout=(steps.dtype, times.dtype, values.dtype)
        )

    return wrapper


@map_decorator
def naive_map(steps, times, values):
    map_enter = time.perf_counter()
    map_elapsed = time.perf_counter() - map_enter
    return (
        tf.concat((steps, [["Map"]]), axis=0),
        tf.concat((times, [[map_enter, map_elapsed]]), axis=0),
        tf.concat((values, [values[-1]]), axis=0),
    )


def batch_map(name):
    @map_decorator
    def mapped(steps, times, values):
        map_enter = time.perf_counter()
        map_elapsed = time.perf_counter() - map_enter
        # Use tf.tile to handle batch dimension
        return (
            tf.concat((steps, tf.tile([[[name]]], [steps.shape[0], 1, 1])), axis=1),
            tf.concat((times, tf.tile([[[map_enter, map_elapsed]]], [times.shape[0], 1, 1])), 1),
            tf.concat((values, tf.tile([[values[:][-1][0]]], [values.shape[0], 1, 1])), axis=1),
        )

    return mapped


def test_reproducing_the_figures():
    """guide/data_performance, section "Reproducing the figures": its two pipelines."""
    items = 5

    def dataset_generator_fun(*args):
        return TimeMeasuredDataset(num_samples=items)

    naive_timeline = timelined_benchmark(
        tf.data.Dataset.range(2)
        .flat_map(dataset_generator_fun)
        .map(naive_map)
        .batch(items, drop_remainder=True)
        .unbatch(),
        2,
    )
    optimized_timeline = timelined_benchmark(
        tf.data.Dataset.range(2)
        .interleave(dataset_generator_fun, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(items, drop_remainder=True)
        .map(batch_map("1st map"), num_parallel_calls=tf.data.AUTOTUNE)
        .cache()
        .map(batch_map("2nd map"), num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
        .unbatch(),
        2,
    )
    for timeline, maps in ((naive_timeline, [b"Map"]), (optimized_timeline, [b"1st map"])):
        # Remove invalid entries (negative times, or empty steps) from the timelines
        invalid_mask = np.logical_and(timeline["times"] > 0, timeline["steps"] != b"")[:, 0]
        steps = timeline["steps"][invalid_mask].numpy()
        times = timeline["times"][invalid_mask].numpy()
        assert len(steps) == len(times) and (times[:, 0] > 0).all()
        names, counts = np.unique(steps.astype(str), return_counts=True)
        found = dict(zip(names.tolist(), counts.tolist(), strict=True))
        assert (found["Read"], found["Train"], found["Epoch"]) == (20, 20, 2)
        assert found["Open"] == 4 and found[maps[0].decode()] == 20
