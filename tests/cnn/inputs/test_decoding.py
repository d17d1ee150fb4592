"""Windows at a model's size beside formulas of TensorFlow 1's resizing, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline._core import decode_placed
from drumline.cnn.inputs.decoding import decode_at_size
from drumline.cnn.inputs.options import RESIZE_METHODS
from tests.image.samples import decoded, encoded, picture

FILES = [encoded(picture(*size), quality=90) for size in ((1, 1), (19, 33), (61, 47))]
NUMBERS = {name: np.int32(number) for number, name in enumerate(RESIZE_METHODS)}


def line(size: int, new: int, method: str) -> np.ndarray:
    """How much of each pixel of a line is in each one of a resized line: float64 (new, size)."""
    weights = np.zeros((new, size))
    scale = np.float64(np.float32(size) / np.float32(new))
    for at in range(new):
        place = np.float64(np.float32(at) * np.float32(scale))
        below = int(place)
        share = place - below
        if method == "nearest":
            weights[at, min(below, size - 1)] = 1
        elif method == "bilinear":
            weights[at, min(below, size - 1)] += 1 - share
            weights[at, min(below + 1, size - 1)] += share
        elif method == "bicubic":
            share = np.rint(share * 1024) / 1024
            for offset in (-1, 0, 1, 2):
                x = abs(offset - share)
                near = 1.25 * x**3 - 2.25 * x**2 + 1
                far = -0.75 * x**3 + 3.75 * x**2 - 6 * x + 3
                weights[at, np.clip(below + offset, 0, size - 1)] += near if x <= 1 else far
        else:
            ends = np.clip(np.array([place, place + scale]), 0, size)
            for pixel in range(size):
                shared = min(ends[1], pixel + 1) - max(ends[0], pixel)
                weights[at, pixel] = max(shared, 0) / scale
    return weights


def resized(pixels: np.ndarray, size: tuple[int, int], method: str) -> np.ndarray:
    down, along = (line(*sides, method) for sides in zip(pixels.shape, size, strict=False))
    return np.einsum("yh,hwc,xw->yxc", down, pixels.astype(np.float64), along)


@given(
    st.sampled_from(FILES),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(RESIZE_METHODS),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_values_are_those_of_the_formulas(
    jpeg: bytes, size: tuple[int, int], method: str, flip: bool, whole: bool, seed: int
) -> None:
    pixels = decoded(jpeg, "RGB")
    draw = np.random.default_rng(seed)
    top, left = (int(draw.integers(0, side)) for side in pixels.shape[:2])
    tall, wide = (
        int(draw.integers(1, side - start + 1))
        for side, start in zip(pixels.shape, (top, left), strict=False)
    )
    window = np.array([top, left, tall, wide])
    made = decode_at_size(
        jpeg, size, NUMBERS[method], b"", window, flip=np.bool_(flip), whole=whole
    )
    part = pixels[top : top + tall, left : left + wide]
    wanted = resized(part[:, ::-1] if flip else part, size, method)
    # A place beside a pixel's edge or a step of the kernel may be rounded to its other side.
    near = np.abs(made - wanted) < 2e-3
    assert near.mean() >= {"nearest": 0.95, "bicubic": 0.999}.get(method, 1)


def test_a_part_of_a_resized_image() -> None:
    jpeg = FILES[2]
    whole = decode_at_size(jpeg, (80, 90), NUMBERS["bilinear"], b"")
    place = np.array([80, 90, 11, 7])
    made = decode_at_size(jpeg, (30, 40), NUMBERS["bilinear"], b"", place=place)
    np.testing.assert_array_equal(made, whole[11:41, 7:47])


def test_arithmetic_is_done_while_values_are_in_the_cache() -> None:
    def prepared(jpeg: object) -> object:
        image = decode_at_size(jpeg, (8, 9), NUMBERS["area"], b"a file")
        return image * np.float32(1 / 127.5) - np.float32(1)

    dataset = dl.data.Dataset.from_tensor_slices(FILES).map(prepared)
    assert "resize, * 0.00784314, - 1" in dataset.explain()
    for made, jpeg in zip(dataset, FILES, strict=True):
        plain = decode_at_size(jpeg, (8, 9), NUMBERS["area"], b"")
        np.testing.assert_allclose(made, plain / 127.5 - 1, atol=1e-6)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"window": [0, 0, 62, 10]}, "does not lie in the image, which has 61 x 47"),
        ({"window": [0, 40, 10, 8]}, "does not lie in the image"),
        ({"window": [0, 0, 0, 8]}, "does not lie in the image"),
        ({"window": [-1, 0, 5, 8]}, "negative number"),
        ({"place": [20, 20, 11, 0]}, r"10 x 10 pixels at \(11, 0\) does not lie in"),
        ({"place": [20, -20, 0, 0]}, "which has a negative number"),
        ({"place": [2**40, 20, 0, 0]}, "an image resized to 1099511627776 x 20 pixels"),
    ],
)
def test_what_lies_outside_is_refused(whole: bool, given: dict, said: str) -> None:
    numbers = {name: np.array(value) for name, value in given.items()}
    with pytest.raises(ValueError, match=f"^a file: image/encoded: .*{said}"):
        decode_at_size(FILES[2], (10, 10), NUMBERS["bilinear"], b"a file", whole=whole, **numbers)


def test_columns_that_do_not_fit() -> None:
    out = np.zeros((1, 4, 4, 3), np.float32)
    limits = dl.image.get_limits().sizes
    with pytest.raises(ValueError, match=r"1 files, but columns of \[1, 1, 2, 1\] rows"):
        decode_placed(FILES[:1], None, None, [True, False], [1], False, [], limits, out)
    made, told = decode_placed(FILES[:1], None, None, None, [4], False, [], limits, out)
    assert made == 0 and told is not None and "no method 4" in told[1]
    gray = np.zeros((1, 4, 4, 1), np.float32)
    with pytest.raises(ValueError, match="out has shape"):
        decode_placed(FILES[:1], None, None, None, [1], False, [], limits, gray)
