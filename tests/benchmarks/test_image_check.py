"""Pipelines that do other work than they were asked to, and the check that finds them out."""

import numpy as np
import pytest

from benchmarks.harness import pipelines
from benchmarks.harness.pipelines import Epochs
from benchmarks.harness.workload import Scale
from benchmarks.workloads import map_batch, shuffle_batch
from benchmarks.workloads.images import make_images, measured

SCALE = Scale(elements=1_000, batch_size=64, later_epochs=1)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)


def problem(order_of_epoch, change=lambda pixels, labels: (pixels, labels), size=64):
    """What the check says of a pipeline that gives ``change`` of batches in some order."""

    def prepare(images, scale):
        numbers = iter(range(100))

        def epoch():
            order = order_of_epoch(next(numbers))
            for start in range(0, len(order), size):
                index = order[start : start + size]
                yield change(images[0][index], images[1][index])

        return lambda: Epochs(epoch)

    measurement = measured(prepare, (), 1.0)(SCALE)
    return shuffle_batch.WORKLOAD.check(SCALE, {"x": measurement}).get("x", "")


def shuffled(number):
    return np.random.default_rng(number).permutation(SCALE.elements)


def almost_shuffled(number):
    order = np.arange(SCALE.elements)
    for start in range(0, SCALE.elements, 100):
        np.random.default_rng(number).shuffle(order[start : start + 100])
    return order


def with_replacement(number):
    return np.random.default_rng(number).integers(SCALE.elements, size=SCALE.elements)


def test_honest_work_passes():
    assert problem(shuffled) == ""


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        (lambda number: np.arange(SCALE.elements), "full shuffle"),
        (almost_shuffled, "full shuffle"),
        (lambda number: shuffled(0), "repeated the order"),
        (with_replacement, "exactly once"),
        (lambda number: shuffled(number)[:-64], "15 batches an epoch, not 16"),
    ],
)
def test_other_orders_are_found(order, complaint):
    assert complaint in problem(order)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda x, y: (np.roll(x, 1, axis=0), y), "content"),
        (lambda x, y: (x[:, ::-1], y), "content"),
        (lambda x, y: (np.roll(x.reshape(len(x), -1), 8, axis=1).reshape(x.shape), y), "content"),
        (lambda x, y: (x + np.float32(0.01), y), "off by 0.01"),
        (lambda x, y: (x.astype(np.float64), y), "float64, int64"),
        (lambda x, y: (x, y.astype(np.int32)), "float32, int32"),
    ],
)
def test_other_content_is_found(change, complaint):
    assert complaint in problem(shuffled, change)


def test_other_batch_sizes_are_found():
    assert "batches of [65, 25]" in problem(shuffled, size=65)


def test_the_map_is_checked():
    measurement = measured(shuffle_batch.numpy_gather, (), 255.0)(SCALE)
    assert "content" in map_batch.WORKLOAD.check(SCALE, {"x": measurement})["x"]
    measurement = measured(map_batch.numpy_by_hand, (), 255.0)(SCALE)
    assert map_batch.WORKLOAD.check(SCALE, {"x": measurement}) == {}


def test_images_are_the_same_every_time():
    first, again = make_images(100), make_images(100)
    assert np.array_equal(first[0], again[0])
    assert first[0].min() == 0
    assert first[0].max() == 255
