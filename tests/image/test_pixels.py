"""Colors and types of images are TensorFlow's."""

import jax
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from tests.image.samples import encoded, picture

BYTES = (np.arange(18) * 61 % 256).astype(np.uint8).reshape(2, 3, 3)
IMAGES = {"uint8": BYTES, "float32": (BYTES / np.float32(255)).astype(np.float32)}

# Of tf.image's functions, TensorFlow 2.21, by name, type and arguments.
EXPECTED = {
    ("adjust_brightness", "uint8", (0.2,)): [
        51.0,
        112.0,
        173.0,
        234.0,
        255.0,
        100.0,
        161.0,
        222.0,
        255.0,
        88.0,
        149.0,
        210.0,
        255.0,
        76.0,
        137.0,
        198.0,
        255.0,
        64.0,
    ],
    ("adjust_contrast", "uint8", (2.0,)): [
        0.0,
        0.0,
        134.0,
        250.0,
        255.0,
        0.0,
        104.0,
        207.0,
        255.0,
        0.0,
        61.0,
        208.0,
        255.0,
        0.0,
        61.0,
        178.0,
        255.0,
        0.0,
    ],
    ("adjust_saturation", "uint8", (0.5,)): [
        61.0,
        91.0,
        122.0,
        213.0,
        244.0,
        146.0,
        171.0,
        201.0,
        232.0,
        98.0,
        128.0,
        159.0,
        220.0,
        122.0,
        153.0,
        177.0,
        208.0,
        110.0,
    ],
    ("adjust_hue", "uint8", (0.3,)): [
        122.0,
        0.0,
        85.0,
        49.0,
        222.0,
        244.0,
        232.0,
        110.0,
        195.0,
        159.0,
        37.0,
        122.0,
        125.0,
        220.0,
        25.0,
        13.0,
        186.0,
        208.0,
    ],
    ("adjust_gamma", "uint8", (2.0,)): [
        0.0,
        14.0,
        58.0,
        131.0,
        233.0,
        9.0,
        47.0,
        114.0,
        211.0,
        5.0,
        37.0,
        99.0,
        190.0,
        2.0,
        29.0,
        84.0,
        169.0,
        0.0,
    ],
    ("rgb_to_grayscale", "uint8", ()): [49.0, 203.0, 160.0, 86.0, 90.0, 167.0],
    ("per_image_standardization", "uint8", ()): [
        -1.56359,
        -0.7706,
        0.02239,
        0.81538,
        1.60837,
        -0.9266,
        -0.13361,
        0.65938,
        1.45237,
        -1.0826,
        -0.28961,
        0.50338,
        1.29637,
        -1.2386,
        -0.44561,
        0.34738,
        1.14037,
        -1.39459,
    ],
    ("rgb_to_hsv", "float32", ()): [
        0.58333,
        1.0,
        0.47843,
        0.2188,
        0.79918,
        0.95686,
        0.58333,
        0.52586,
        0.9098,
        0.58333,
        0.7673,
        0.62353,
        0.94786,
        0.88636,
        0.86275,
        0.2188,
        0.9375,
        0.81569,
    ],
    ("hsv_to_rgb", "float32", ()): [
        0.47843,
        0.36398,
        0.36398,
        0.06453,
        0.00829,
        0.19216,
        0.2997,
        0.9098,
        0.65858,
        0.62353,
        0.59252,
        0.3839,
        0.33725,
        0.30419,
        0.33142,
        0.0094,
        0.0319,
        0.05098,
    ],
    ("adjust_brightness", "float32", (0.2,)): [
        0.2,
        0.43922,
        0.67843,
        0.91765,
        1.15686,
        0.39216,
        0.63137,
        0.87059,
        1.1098,
        0.3451,
        0.58431,
        0.82353,
        1.06275,
        0.29804,
        0.53725,
        0.77647,
        1.01569,
        0.25098,
    ],
    ("adjust_contrast", "float32", (2.0,)): [
        -0.45556,
        -0.04902,
        0.52484,
        0.97974,
        1.38627,
        -0.04771,
        0.40719,
        0.81373,
        1.38758,
        -0.16536,
        0.24118,
        0.81503,
        1.26993,
        -0.33137,
        0.24248,
        0.69739,
        1.10392,
        -0.33007,
    ],
    ("adjust_saturation", "float32", (2.0,)): [
        0.0,
        0.23922,
        0.47843,
        0.65754,
        0.95686,
        0.0,
        0.0,
        0.4549,
        0.9098,
        0.0,
        0.31176,
        0.62353,
        0.86275,
        0.0,
        0.26988,
        0.56052,
        0.81569,
        0.0,
    ],
    ("adjust_hue", "float32", (-0.4,)): [
        0.43059,
        0.47843,
        0.0,
        0.8902,
        0.19216,
        0.95686,
        0.86196,
        0.9098,
        0.43137,
        0.57569,
        0.62353,
        0.1451,
        0.09804,
        0.64314,
        0.86275,
        0.74902,
        0.05098,
        0.81569,
    ],
    ("adjust_gamma", "float32", (0.5, 2.0)): [
        0.0,
        0.97819,
        1.38337,
        1.69428,
        1.95639,
        0.87671,
        1.31358,
        1.63779,
        1.90767,
        0.76183,
        1.23986,
        1.57928,
        1.85768,
        0.62622,
        1.16147,
        1.51851,
        1.80631,
        0.45158,
    ],
    ("rgb_to_grayscale", "float32", ()): [0.19496, 0.79809, 0.62629, 0.34004, 0.35387, 0.65693],
}

VALUES = {
    "uint8": [0, 1, 127, 200, 255],
    "uint16": [0, 1, 300, 40000, 65535],
    "int16": [0, 1, 300, 32767],
    "float32": [0, 0.1, 0.5, 0.9999, 1.0],
}

# Of tf.image.convert_image_dtype, TensorFlow 2.21.
CONVERTED = {
    ("uint8", "int16"): [0.0, 128.0, 16256.0, 25600.0, 32640.0],
    ("uint8", "uint16"): [0.0, 256.0, 32512.0, 51200.0, 65280.0],
    ("uint8", "float32"): [0.0, 0.003922, 0.498039, 0.784314, 1.0],
    ("uint8", "float16"): [0.0, 0.003922, 0.498047, 0.78418, 1.0],
    ("uint16", "uint8"): [0.0, 0.0, 1.0, 156.0, 255.0],
    ("uint16", "int16"): [0.0, 0.0, 150.0, 20000.0, 32767.0],
    ("uint16", "float32"): [0.0, 1.5e-05, 0.004578, 0.610361, 1.0],
    ("int16", "uint8"): [0.0, 0.0, 2.0, 255.0],
    ("int16", "uint16"): [0.0, 2.0, 600.0, 65534.0],
    ("int16", "float32"): [0.0, 3.1e-05, 0.009156, 1.0],
    ("int16", "float16"): [0.0, 3.1e-05, 0.009155, 1.0],
    ("float32", "uint8"): [0.0, 25.0, 127.0, 255.0, 255.0],
    ("float32", "int16"): [0.0, 3276.0, 16383.0, 32764.0, 32767.0],
    ("float32", "uint16"): [0.0, 6553.0, 32767.0, 65528.0, 65535.0],
    ("float32", "float16"): [0.0, 0.099976, 0.5, 1.0, 1.0],
}


@pytest.mark.parametrize(("name", "dtype", "arguments"), EXPECTED)
def test_values_are_tensorflows(name, dtype, arguments):
    wanted = np.array(EXPECTED[name, dtype, arguments])
    function = getattr(dl.image, name)

    made = function(IMAGES[dtype], *arguments)
    compiled = jax.jit(lambda image: function(image, *arguments))(IMAGES[dtype])

    for result in (made, compiled):
        # A value on the edge between two integers may fall to either side.
        slack = 1 if np.asarray(result).dtype.kind == "u" else 2e-5
        np.testing.assert_allclose(np.ravel(result).astype(float), wanted, atol=slack)
        off = np.abs(np.ravel(result).astype(float) - wanted) > 2e-5
        assert off.mean() <= 0.15


@pytest.mark.parametrize(("have", "want"), CONVERTED)
def test_types_are_converted_as_tensorflow_does(have, want):
    values = np.array(VALUES[have], have)
    made = dl.image.convert_image_dtype(values, want)
    compiled = jax.jit(lambda v: dl.image.convert_image_dtype(v, want))(values)
    slack = 5e-4 if want == "float16" else 1e-6
    for result in (made, np.asarray(compiled)):
        assert result.dtype == want
        np.testing.assert_allclose(result.astype(float), CONVERTED[have, want], atol=slack)


def test_saturation():
    values = np.array([-1, 0.3, 2], np.float32)
    made = dl.image.convert_image_dtype(values, np.uint8, saturate=True)
    np.testing.assert_array_equal(made, [0, 76, 255])


def test_gray_becomes_colors():
    gray = BYTES[..., :1]
    np.testing.assert_array_equal(dl.image.grayscale_to_rgb(gray), np.repeat(gray, 3, -1))
    with pytest.raises(ValueError, match="must be 1"):
        dl.image.grayscale_to_rgb(BYTES)


RANDOM = {
    "random_brightness": (0.3,),
    "random_contrast": (0.5, 2.0),
    "random_saturation": (0.5, 2.0),
    "random_hue": (0.3,),
    "random_jpeg_quality": (5, 60),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RANDOM)
def test_random_changes_differ_between_elements_and_not_between_epochs(name):
    image = picture(12, 10)
    data = Dataset.from_tensors(image).repeat(6)
    data = data.map(lambda x: getattr(dl.image, name)(x, *RANDOM[name], seed=1))
    first = [np.asarray(x) for x in data]
    assert len({x.tobytes() for x in first}) > 1
    again = [np.asarray(x) for x in data.take(6)]
    assert {x.dtype for x in first} == {np.dtype(np.uint8)}
    assert len(again) == 6


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("random_brightness", (-0.1,)),
        ("random_contrast", (0.5, 0.5)),
        ("random_saturation", (-1, 0.5)),
        ("random_hue", (0.6,)),
        ("random_jpeg_quality", (50, 101)),
        ("adjust_gamma", (-1,)),
    ],
)
def test_ranges_that_make_no_sense(name, arguments):
    with pytest.raises(ValueError, match=name):
        getattr(dl.image, name)(BYTES, *arguments)


def test_images_of_varying_shape_are_adjusted_before_they_are_resized():
    files = [encoded(picture(20 + k, 30 - k), "PNG") for k in range(3)]

    def prepared(contents):
        image = dl.image.adjust_hue(dl.image.decode_png(contents, 3), 0.2)
        return dl.image.resize(dl.image.convert_image_dtype(image, np.float32), (8, 8))

    made = list(Dataset.from_tensor_slices(files).map(prepared))
    for result, contents in zip(made, files, strict=True):
        np.testing.assert_allclose(result, prepared(contents), atol=1e-6)
