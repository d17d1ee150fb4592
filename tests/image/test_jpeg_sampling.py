"""JPEG files whose components have any sampling factors, of blocks that are flat."""

import itertools

import numpy as np
import pytest

import drumline as dl
from tests.image.samples import decoded, encoded, picture
from tests.image.test_jpeg_headers import DQT, SOF, joined, segments

HEADS, SCAN = segments(encoded(picture(8, 8), subsampling=0))
# The standard tables' codes for the number of bits of a difference, and for the end of a block.
LUMA = (["00", "010", "011", "100", "101", "110", "1110"], "1010")
CHROMA = (["00", "01", "10", "110", "1110", "11110", "111110"], "00")


def flat_block(difference, codes):
    """The bits of a block whose first coefficient alone is not 0."""
    sizes, end = codes
    size = abs(difference).bit_length()
    number = difference if difference > 0 else difference + (1 << size) - 1
    return sizes[size] + (f"{number:0{size}b}" if size else "") + end


def sampled(factors, height, width):
    """A file of components with these factors, across and down."""
    draw = np.random.default_rng(0)
    across, down = (max(each) for each in zip(*factors, strict=True))
    units = -(-height // (8 * down)) * -(-width // (8 * across))
    bits = "".join(
        flat_block(int(draw.integers(-25, 26)), CHROMA if i else LUMA)
        for _, (i, (h, v)) in itertools.product(range(units), enumerate(factors))
        for _ in range(h * v)
    )
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    size = b"\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + b"\3"
    frame = b"".join(bytes([i + 1, h << 4 | v, min(i, 1)]) for i, (h, v) in enumerate(factors))
    parts = [(marker, size + frame if marker == SOF else body) for marker, body in HEADS]
    tables = [(m, body[:1] + b"\7" * 64 if m == DQT else body) for m, body in parts]
    return joined(tables, SCAN[:14] + data + b"\xff\xd9")


@pytest.mark.parametrize(
    "factors",
    [
        [(1, 2), (1, 1), (1, 1)],
        [(4, 1), (1, 1), (1, 1)],
        [(1, 4), (1, 2), (1, 1)],
        [(2, 2), (1, 2), (2, 1)],
        [(1, 1), (2, 2), (1, 1)],
        [(2, 1), (2, 1), (1, 1)],
    ],
)
def test_pixels_are_those_of_libjpeg(factors):
    for height, width in [(8, 8), (37, 41)]:
        contents = sampled(factors, height, width)
        whole = dl.image.decode_jpeg(contents)
        np.testing.assert_array_equal(whole, decoded(contents))
        window = dl.image.decode_and_crop_jpeg(contents, [3, 1, 4, 6])
        np.testing.assert_array_equal(window, whole[3:7, 1:7])
