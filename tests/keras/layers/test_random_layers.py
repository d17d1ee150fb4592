"""Keras's own preprocessing layers in maps: compiled, and drawn by the element's position."""

from __future__ import annotations

import json
import random
from typing import Any

import keras
import numpy as np
import pytest

from drumline.data import Dataset, Options

IMAGES = np.random.default_rng(0).uniform(0, 255, (24, 6, 5, 3)).astype(np.float32)


def bits(dataset: Dataset) -> list[bytes]:
    return [np.asarray(element).tobytes() for element in dataset]


def augmented(seed: int | None = 3) -> Dataset:
    random.seed(5)
    flip, bright = keras.layers.RandomFlip(seed=seed), keras.layers.RandomBrightness(0.3, seed=seed)
    return Dataset.from_tensor_slices(IMAGES).map(lambda x: bright(flip(x)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.RandomFlip(),
        lambda: keras.layers.RandomCrop(4, 3),
        lambda: keras.layers.RandomContrast(0.5),
        lambda: keras.layers.RandomBrightness(0.5),
        lambda: keras.layers.GaussianNoise(1.0),
        pytest.param(lambda: keras.layers.RandomRotation(0.3), marks=pytest.mark.thorough),
        pytest.param(lambda: keras.layers.RandomZoom(0.3), marks=pytest.mark.thorough),
        pytest.param(lambda: keras.layers.RandomTranslation(0.3, 0.3), marks=pytest.mark.thorough),
    ],
)
def test_random_layers_are_compiled(make: Any) -> None:
    random.seed(5)  # of which Keras draws a layer's seed
    layer = make()
    same = Dataset.from_tensor_slices(np.broadcast_to(IMAGES[:1], IMAGES.shape))
    dataset = same.map(lambda x: layer(x, training=True))
    assert "runs as Python" not in dataset.explain()
    assert len(set(bits(dataset))) > 1
    batched = same.batch(6).map(lambda x: layer(x, training=True))
    assert "runs as Python" not in batched.explain()
    assert len(set(bits(batched))) > 1  # of a crop there are nine


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: keras.layers.Rescaling(2.0, 1.0), lambda x: x * 2 + 1),
        (lambda: keras.layers.CenterCrop(4, 3), lambda x: x[:, 1:5, 1:4]),
        (lambda: keras.layers.Normalization(mean=3.0, variance=4.0), lambda x: (x - 3) / 2),
        (
            lambda: keras.layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 4.0, 1.0]),
            lambda x: (x - [1, 2, 3]) / [2, 2, 1],
        ),
        (
            lambda: keras.layers.Discretization(bin_boundaries=[50.0, 150.0]),
            lambda x: np.digitize(x, [50, 150]),
        ),
    ],
)
def test_other_layers_are_compiled(make: Any, wanted: Any) -> None:
    layer = make()
    for dataset in (
        Dataset.from_tensor_slices(IMAGES).map(layer).batch(24),
        Dataset.from_tensor_slices(IMAGES).batch(24).map(layer),
    ):
        assert "runs as Python" not in dataset.explain()
        np.testing.assert_allclose(next(iter(dataset)), wanted(IMAGES), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer(IMAGES), wanted(IMAGES), rtol=1e-5, atol=1e-5)


def test_an_adapted_layer_in_a_map_is_what_it_is_alone() -> None:
    layer = keras.layers.Normalization()
    layer.adapt(Dataset.from_tensor_slices(IMAGES).batch(5))
    mapped = Dataset.from_tensor_slices(IMAGES).batch(24).map(layer)
    np.testing.assert_allclose(next(iter(mapped)), layer(IMAGES), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("threads", "optimize"), [(1, False), (3, True)])
def test_what_is_drawn_follows_from_the_place_alone(threads: int, optimize: bool) -> None:
    options = Options()
    options.threading.private_threadpool_size = threads
    options.experimental_optimization.apply_default_optimizations = optimize
    whole = bits(augmented())
    assert len(set(whole)) == len(whole)
    assert bits(augmented().skip(7).take(5).with_options(options)) == whole[7:12]
    assert bits(augmented().shard(3, 1).with_options(options)) == whole[1::3]
    assert bits(augmented().prefetch(2).with_options(options)) == whole


def test_each_epoch_differs_and_is_the_same_in_another_run() -> None:
    first, again = augmented(), augmented()
    epochs = [bits(first), bits(first)]
    assert epochs[0] != epochs[1]
    assert [bits(again), bits(again)] == epochs
    assert bits(augmented(None)) == bits(augmented(None)) != epochs[0]


def test_an_interrupted_pass_goes_on_with_the_same_draws() -> None:
    iterator = iter(augmented())
    for _ in range(5):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = [np.asarray(each).tobytes() for each in iterator]
    again = iter(augmented())
    again.restore(state)
    assert [np.asarray(each).tobytes() for each in again] == rest


def test_python_draws_what_compiled_functions_do() -> None:
    layer = keras.layers.RandomFlip(seed=4)

    def in_python(x: Any) -> Any:
        assert float(np.asarray(x)[0, 0, 0]) >= 0  # cannot be traced
        return layer(x, training=True)

    source = Dataset.from_tensor_slices(IMAGES)
    python = source.map(in_python, num_parallel_calls=2)
    assert "runs as Python" in python.explain()
    assert bits(python) == bits(source.map(lambda x: layer(x, training=True)))


def test_two_layers_of_one_seed_draw_differently() -> None:
    one, two = (keras.layers.GaussianNoise(1.0, seed=2) for _ in range(2))
    dataset = Dataset.from_tensor_slices(IMAGES * 0)
    pairs = dataset.map(lambda x: (one(x, training=True), two(x, training=True)))
    assert all(not np.array_equal(a, b) for a, b in pairs)


def test_outside_of_datasets_the_generator_advances() -> None:
    layer = keras.layers.GaussianNoise(1.0, seed=2)
    first, second = (np.asarray(layer(IMAGES, training=True)) for _ in range(2))
    assert not np.array_equal(first, second)
