"""``tf.image``: edges, variation, and draws that depend on a seed alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drumline.compat import tf

PICTURE = np.random.default_rng(0).random((9, 8, 3)).astype(np.float32)

STATELESS: dict[str, Callable[[Any, Any], Any]] = {
    "brightness": lambda x, seed: tf.image.stateless_random_brightness(x, 0.4, seed),
    "contrast": lambda x, seed: tf.image.stateless_random_contrast(x, 0.2, 1.8, seed=seed),
    "crop": lambda x, seed: tf.image.stateless_random_crop(x, [3, 3, 3], seed),
    "hue": lambda x, seed: tf.image.stateless_random_hue(x, 0.4, seed),
    "jpeg_quality": lambda x, seed: tf.image.stateless_random_jpeg_quality(x, 5, 95, seed),
    "saturation": lambda x, seed: tf.image.stateless_random_saturation(x, 0.1, 1.9, seed),
}


@pytest.mark.parametrize("name", STATELESS)
def test_draws_depend_on_the_seed_alone(name: str) -> None:
    drawn = STATELESS[name]
    first = drawn(PICTURE, (1, 2)).numpy()
    tf.random.set_seed(4)
    np.testing.assert_array_equal(drawn(PICTURE, tf.constant([1, 2])).numpy(), first)
    others = [drawn(PICTURE, (1, other)).numpy() for other in (3, 4, 5)]
    assert any(not np.array_equal(other, first) for other in others)
    if name != "jpeg_quality":  # a codec of the host
        np.testing.assert_allclose(tf.function(drawn)(PICTURE, (1, 2)).numpy(), first, atol=1e-5)


@pytest.mark.parametrize("name", ["brightness", "crop"])
def test_seeds_may_be_elements_of_a_dataset(name: str) -> None:
    seeds = np.array([[1, 2], [3, 4], [1, 2]], np.int64)
    dataset = tf.data.Dataset.from_tensor_slices((np.stack([PICTURE] * 3), seeds))
    found = [each.numpy() for each in dataset.map(STATELESS[name])]
    for each, seed in zip(found, seeds, strict=True):
        wanted = STATELESS[name](PICTURE, tf.constant(seed)).numpy()
        np.testing.assert_allclose(each, wanted, atol=1e-5)


def test_flips_are_of_every_second_seed_or_so() -> None:
    for name, turned in (("left_right", PICTURE[:, ::-1]), ("up_down", PICTURE[::-1])):
        flip = getattr(tf.image, f"stateless_random_flip_{name}")
        found = [flip(PICTURE, (seed, 0)).numpy() for seed in range(40)]
        same = sum(np.array_equal(each, PICTURE) for each in found)
        assert same + sum(np.array_equal(each, turned) for each in found) == 40
        assert 8 < same < 32


def test_a_seed_is_required() -> None:
    with pytest.raises(TypeError, match="'seed'"):
        tf.image.stateless_random_flip_left_right(PICTURE)


def test_iterators_have_next() -> None:
    dataset = tf.data.Dataset.range(2)
    for iterator in (iter(dataset), dataset.as_numpy_iterator()):
        assert [int(iterator.next()), int(iterator.next())] == [0, 1]
        with pytest.raises(StopIteration):
            iterator.next()
