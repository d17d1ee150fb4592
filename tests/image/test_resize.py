"""Resized images have TensorFlow's pixels."""

import jax
import numpy as np
import pytest

import drumline as dl

IMAGE = (np.arange(35) * 37 % 101).reshape(5, 7, 1).astype(np.uint8)

# Of tf.image.resize, TensorFlow 2.21, by method, antialias and size.
EXPECTED = {
    ("bilinear", False, (3, 2)): [56.833, 60.083, 59.25, 87.75, 53.25, 31.25],
    ("bilinear", True, (3, 2)): [45.359, 45.645, 49.067, 55.654, 52.701, 48.625],
    ("bicubic", False, (3, 2)): [58.744, 64.832, 61.617, 94.852, 54.463, 24.243],
    ("bicubic", True, (3, 2)): [45.306, 45.036, 48.937, 56.098, 52.752, 49.103],
    ("area", False, (3, 2)): [44.4, 44.286, 49.029, 54.686, 53.657, 47.771],
    ("lanczos3", False, (3, 2)): [62.311, 63.609, 67.392, 100.568, 54.777, 19.046],
    ("lanczos3", True, (3, 2)): [45.351, 44.768, 48.423, 56.574, 51.948, 50.279],
    ("lanczos5", False, (3, 2)): [59.973, 62.196, 70.079, 104.953, 56.065, 14.578],
    ("lanczos5", True, (3, 2)): [45.689, 44.611, 48.15, 56.799, 51.264, 50.895],
    ("gaussian", False, (3, 2)): [55.748, 58.428, 55.888, 75.149, 53.168, 32.943],
    ("gaussian", True, (3, 2)): [45.595, 46.533, 49.478, 53.973, 51.919, 50.177],
    ("mitchellcubic", False, (3, 2)): [57.876, 60.816, 59.089, 84.077, 53.659, 28.747],
    ("mitchellcubic", True, (3, 2)): [45.315, 45.764, 49.152, 54.955, 52.196, 49.925],
    ("nearest", False, (3, 2)): [37, 84, 50, 97, 63, 9],
    ("bilinear", False, (2, 9)): [
        42.75,
        67.417,
        62.528,
        43.611,
        52.75,
        22.611,
        34.556,
        54.917,
        62.75,
        59.0,
        33.167,
        36.694,
        59.861,
        69.0,
        38.861,
        36.778,
        54.333,
        79.0,
    ],
    ("bilinear", True, (2, 9)): [
        29.455,
        51.061,
        59.944,
        53.525,
        39.455,
        32.525,
        51.101,
        61.515,
        49.455,
        42.455,
        39.576,
        52.54,
        66.525,
        52.455,
        45.525,
        46.247,
        53.091,
        62.455,
    ],
    ("bicubic", False, (2, 9)): [
        45.65,
        75.997,
        64.841,
        37.261,
        57.405,
        15.236,
        25.747,
        55.395,
        68.428,
        66.479,
        28.548,
        27.011,
        59.79,
        74.176,
        33.511,
        28.253,
        55.388,
        86.259,
    ],
    ("bicubic", True, (2, 9)): [
        26.418,
        51.495,
        63.324,
        53.602,
        38.03,
        28.422,
        54.06,
        65.988,
        46.978,
        43.128,
        37.082,
        53.288,
        71.087,
        52.892,
        45.853,
        44.545,
        52.188,
        63.649,
    ],
    ("area", False, (2, 9)): [
        25.4,
        51.829,
        60.943,
        55.629,
        35.4,
        32.486,
        53.143,
        62.257,
        45.4,
        41.0,
        38.571,
        53.457,
        71.229,
        51.0,
        48.086,
        45.657,
        49.0,
        61.0,
    ],
    ("nearest", False, (2, 9)): [
        57,
        94,
        94,
        30,
        67,
        3,
        40,
        40,
        77,
        70,
        6,
        6,
        43,
        80,
        16,
        53,
        53,
        90,
    ],
}


@pytest.mark.parametrize(("method", "antialias", "size"), EXPECTED)
def test_pixels_are_tensorflows(method, antialias, size):
    wanted = np.reshape(EXPECTED[method, antialias, size], (*size, 1))

    made = dl.image.resize(IMAGE, size, method, antialias=antialias)
    compiled = jax.jit(lambda x: dl.image.resize(x, size, method, antialias=antialias))(IMAGE)

    for result in (made, compiled):
        assert result.dtype == (np.uint8 if method == "nearest" else np.float32)
        np.testing.assert_allclose(result, wanted, atol=6e-4)


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "uint16", "int32", "int64", "float32", "float64"]
)
def test_values_of_all_types_are_numbers(dtype):
    made = dl.image.resize(IMAGE.astype(dtype), (3, 2))
    np.testing.assert_array_equal(made, dl.image.resize(IMAGE, (3, 2)))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("method", ["bilinear", "lanczos3", "nearest"])
def test_channels_and_images_of_a_batch_are_independent(channels, method):
    planes = np.random.default_rng(0).integers(0, 256, (2, 9, 8, channels)).astype(np.uint8)
    whole = dl.image.resize(planes, (5, 11), method)
    for n in range(2):
        for c in range(channels):
            alone = dl.image.resize(planes[n, :, :, c : c + 1], (5, 11), method)
            np.testing.assert_array_equal(whole[n, :, :, c : c + 1], alone)


def test_the_aspect_ratio_can_be_kept():
    assert dl.image.resize(IMAGE, (10, 10), preserve_aspect_ratio=True).shape == (7, 10, 1)


def test_results_stay_when_memory_is_used_again():
    image = np.zeros((64, 64, 3), np.uint8)
    kept = [dl.image.resize(image + k, (70, 70)) for k in range(12)]
    assert [int(result[0, 0, 0]) for result in kept] == list(range(12))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"size": (0, 3)}, "two positive integers"),
        ({"size": 3}, "two positive integers"),
        ({"size": (3, 4, 5)}, "two integers"),
        ({"size": (3, 4), "method": "cubic"}, "method must be one of"),
    ],
)
def test_arguments_that_make_no_sense(arguments, said):
    with pytest.raises(ValueError, match=said):
        dl.image.resize(IMAGE, **arguments)


@pytest.mark.parametrize(("method", "dtype"), [("area", np.float32), ("nearest", np.uint8)])
def test_a_batch_of_no_images(method, dtype):
    made = dl.image.resize(np.zeros((0, 5, 7, 3), np.uint8), (3, 4), method)
    assert (made.shape, made.dtype) == ((0, 3, 4, 3), dtype)


@pytest.mark.parametrize("shape", [(0, 7, 3), (5, 0, 3), (5, 7), (1, 1, 5, 7, 3)])
def test_images_without_pixels(shape):
    with pytest.raises(ValueError, match="must have"):
        dl.image.resize(np.zeros(shape, np.uint8), (3, 4))
