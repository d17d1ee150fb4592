"""``resize_with_pad``; numbers are those of ``tf.image.resize_with_pad`` (TensorFlow 2.21)."""

import numpy as np
import pytest

import drumline as dl

IMAGE = np.arange(12, dtype=np.uint8).reshape(3, 4, 1) * 10
CASES = {
    (2, 6): (
        [[0, 15, 35, 0, 0, 0], [0, 75, 95, 0, 0, 0]],
        [[0, 10, 30, 0, 0, 0], [0, 90, 110, 0, 0, 0]],
    ),
    (5, 3): (
        [[0, 0, 0], [11.666667, 25, 38.333336], [71.666664, 85, 98.333336], [0, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 20, 30], [80, 100, 110], [0, 0, 0], [0, 0, 0]],
    ),
}


@pytest.mark.parametrize("size", CASES)
def test_tensorflows_numbers(size):
    smooth, nearest = CASES[size]
    made = dl.image.resize_with_pad(IMAGE, *size)
    np.testing.assert_allclose(made[..., 0], smooth, rtol=1e-6)
    copied = dl.image.resize_with_pad(IMAGE, *size, method="nearest")
    assert (made.dtype, copied.dtype, copied[..., 0].tolist()) == (np.float32, np.uint8, nearest)
    both = dl.image.resize_with_pad(np.stack([IMAGE, IMAGE + 1]), *size)
    np.testing.assert_array_equal(both[0], made)


def test_images_of_all_sizes_become_one_size_in_a_map():
    images = [np.full((5 + i, 9, 3), 7, np.float32) for i in range(3)]
    spec = dl.TensorSpec((None, None, 3))
    ds = dl.data.Dataset.from_generator(lambda: images, output_signature=spec)
    padded = ds.map(lambda image: dl.image.resize_with_pad(image, 6, 4)).batch(3)
    assert padded.element_spec.shape == (None, 6, 4, 3)
    (batch,) = padded
    np.testing.assert_array_equal(batch, [dl.image.resize_with_pad(i, 6, 4) for i in images])
    with pytest.raises(ValueError, match="the size must be positive"):
        dl.image.resize_with_pad(images[0], 0, 4)
