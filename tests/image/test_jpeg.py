"""JPEG files decode to libjpeg-turbo's pixels."""

import io
import itertools

import numpy as np
import pytest

import drumline as dl
from tests.image.samples import Image, decoded, encoded, picture

THOROUGH = pytest.mark.thorough
SIZES = [(1, 1), (2, 3), (7, 5), (17, 33), (40, 31), (64, 48), (3, 70)]
FORMS = [
    {"subsampling": 0},
    {"subsampling": 1},
    {"subsampling": 2},
    {"subsampling": 2, "progressive": True},
    {"subsampling": 1, "restart_marker_blocks": 2},
    {"mode": "L"},
    {"mode": "L", "progressive": True},
    {"keep_rgb": True},
    {"subsampling": 2, "quality": 15},
    {"subsampling": 0, "quality": 100, "optimize": True},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_pixels_are_those_of_libjpeg(form):
    for height, width in SIZES:
        contents = encoded(picture(height, width), **form)
        np.testing.assert_array_equal(dl.image.decode_jpeg(contents), decoded(contents))


@pytest.mark.parametrize("ratio", [2, 4, 8])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_scaled_pixels_are_those_of_libjpeg(ratio, subsampling):
    contents = encoded(picture(41, 67), subsampling=subsampling)
    image = Image.open(io.BytesIO(contents))
    image.draft("RGB", (67 // ratio, 41 // ratio))
    wanted = np.asarray(image)
    made = dl.image.decode_jpeg(contents, ratio=ratio)
    assert made.shape == (-(-41 // ratio), -(-67 // ratio), 3)
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("form", FORMS[:6], ids=str)
def test_windows_are_parts_of_the_image(form):
    contents = encoded(picture(50, 37), **form)
    draw = np.random.default_rng(1)
    for ratio, _ in itertools.product([1, 2, 8], range(8)):
        whole = dl.image.decode_jpeg(contents, ratio=ratio)
        (top, left), (height, width) = draw.integers(0, whole.shape[:2]), (1, 1)
        height = draw.integers(1, whole.shape[0] - top, endpoint=True)
        width = draw.integers(1, whole.shape[1] - left, endpoint=True)
        window = dl.image.decode_and_crop_jpeg(contents, [top, left, height, width], ratio=ratio)
        np.testing.assert_array_equal(window, whole[top : top + height, left : left + width])


def test_colors_become_gray_and_gray_becomes_colors():
    contents = encoded(picture(20, 30))
    luma = np.asarray(Image.open(io.BytesIO(contents)).convert("YCbCr"))[..., :1]
    gray = dl.image.decode_jpeg(contents, channels=1)
    assert gray.shape == (20, 30, 1)
    assert np.abs(gray.astype(int) - luma).max() <= 2
    from_gray = dl.image.decode_jpeg(encoded(picture(9, 8), mode="L"), channels=3)
    assert from_gray.shape == (9, 8, 3)
    assert (from_gray == from_gray[..., :1]).all()


def test_ink_becomes_colors():
    contents = encoded(picture(20, 30), mode="CMYK")
    inks = 255 - decoded(contents).astype(int)  # Pillow turns Adobe's values over.
    wanted = inks[..., :3] * inks[..., 3:] // 255
    np.testing.assert_array_equal(dl.image.decode_jpeg(contents), wanted)
    with pytest.raises(ValueError, match="channels=3"):
        dl.image.decode_jpeg(contents, channels=1)


def test_orientation_is_left_alone():
    exif = Image.Exif()
    exif[0x112] = 6
    contents = encoded(picture(20, 30), exif=exif)
    assert dl.image.decode_jpeg(contents).shape == (20, 30, 3)
    np.testing.assert_array_equal(dl.image.extract_jpeg_shape(contents), [20, 30, 3])


def test_what_is_missing_at_the_end():
    contents = encoded(picture(64, 48), subsampling=0, quality=90)
    whole = dl.image.decode_jpeg(contents)
    half = contents[: len(contents) // 2]
    with pytest.raises(ValueError, match=rf"end too early, at byte {len(half)}"):
        dl.image.decode_jpeg(half)
    recovered = dl.image.decode_jpeg(half, try_recover_truncated=True)
    np.testing.assert_array_equal(recovered[:8], whole[:8])
    assert (recovered[-8:] == 128).all()
    accepted = dl.image.decode_jpeg(half, acceptable_fraction=0.1)
    np.testing.assert_array_equal(accepted[:8], whole[:8])
    assert (accepted[-8:] == 0).all()
    with pytest.raises(ValueError, match="end too early"):
        dl.image.decode_jpeg(half, acceptable_fraction=0.9)


def segments(contents):
    """A file's segments up to its first scan, by their kinds, and the data of that scan."""
    found, at = [], 2
    while not found or found[-1][0] != 0xDA:
        end = at + 2 + int.from_bytes(contents[at + 2 : at + 4], "big")
        found.append((contents[at + 1], contents[at:end]))
        at = end
    return found, contents[at:-2]


def in_separate_scans(planes):
    """A file with a scan for each component, and where each ends: those of gray files, joined."""
    files = [segments(encoded(plane)) for plane in planes]
    tables = b"".join(part for kind, part in files[0][0] if kind in (0xDB, 0xC4))
    height, width = (size.to_bytes(2, "big") for size in planes[0].shape)
    frame = b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3))
    made = b"\xff\xd8" + tables + b"\xff\xc0\0\x11\x08" + height + width + b"\x03" + frame
    ends = []
    for number, (_, data) in enumerate(files, 1):
        made += b"\xff\xda\0\x08" + bytes([1, number, 0, 0, 63, 0]) + data
        ends.append(len(made))
    return made + b"\xff\xd9", ends


def test_what_is_missing_of_separate_scans():
    planes = Image.fromarray(picture(64, 48)).convert("YCbCr").split()
    contents, ends = in_separate_scans([np.asarray(plane) for plane in planes])
    whole = dl.image.decode_jpeg(contents)
    np.testing.assert_array_equal(whole, decoded(contents))
    np.testing.assert_array_equal(dl.image.decode_jpeg(contents[:-2]), whole)
    # TensorFlow's pixels (0, 0), (31, 5) and (63, 47); it refuses these files whatever the part.
    for cut, pixels in [
        ((ends[1] + ends[2]) // 2, [[138, 213, 128], [88, 79, 160], [100, 80, 201]]),
        (ends[1], [[181, 191, 128], [91, 78, 160], [100, 80, 201]]),
        ((ends[0] + ends[1]) // 2, [[181, 191, 128], [91, 78, 160], [100, 100, 100]]),
        (ends[0] // 2, [[181, 181, 181], [128, 128, 128], [128, 128, 128]]),
    ]:
        for fraction in (0.0, 0.1, 0.9):
            with pytest.raises(ValueError, match=rf"end too early, at byte {cut}"):
                dl.image.decode_jpeg(contents[:cut], acceptable_fraction=fraction)
        recovered = dl.image.decode_jpeg(contents[:cut], try_recover_truncated=True)
        np.testing.assert_array_equal(recovered[[0, 31, 63], [0, 5, 47]], pixels)


@pytest.mark.parametrize("form", FORMS[2:6], ids=str)
def test_damaged_files_are_refused_or_decoded_but_never_crash(form):
    contents = encoded(picture(33, 41), **form)
    draw = np.random.default_rng(0)
    for _ in range(150):
        bad = bytearray(contents)
        for at in draw.integers(2, len(bad), 3):
            bad[at] = draw.integers(256)
        bad = bytes(bad[: draw.integers(2, len(bad) + 1)])
        try:
            image = dl.image.decode_jpeg(bad)
        except ValueError as error:
            assert str(error).startswith("image.decode_jpeg: ")  # noqa: PT017
        else:
            assert image.ndim == 3


def test_bytes_that_are_no_jpeg():
    for contents in (b"", b"\xff", b"\xff\xd8", b"GIF89a" + bytes(40), bytes(100)):
        with pytest.raises(ValueError, match="image.decode_jpeg: .*byte"):
            dl.image.decode_jpeg(contents)
    with pytest.raises(TypeError, match="must be bytes"):
        dl.image.decode_jpeg(np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="one image"):
        dl.image.decode_jpeg(np.array([b"a", b"b"], object))


def test_limits_come_before_memory():
    contents = bytearray(encoded(picture(16, 16)))
    at = contents.index(b"\xff\xc0") + 5
    contents[at : at + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(ValueError, match=r"65535 x 65535 pixels.*max_pixels.*set_limits"):
        dl.image.decode_jpeg(bytes(contents))
    contents[at : at + 4] = b"\x20\x00\x20\x00"
    with pytest.raises(ValueError, match=r"max_expansion"):
        dl.image.decode_jpeg(bytes(contents))


def test_limits_can_be_set():
    contents = encoded(picture(16, 16))
    before = dl.image.get_limits()
    try:
        dl.image.set_limits(dl.image.Limits(max_pixels=255))
        with pytest.raises(ValueError, match=r"max_pixels allows 255, it needs 256"):
            dl.image.decode_jpeg(contents)
    finally:
        dl.image.set_limits(before)
    assert dl.image.decode_jpeg(contents).shape == (16, 16, 3)
    with pytest.raises(ValueError, match="max_bytes must be a positive integer"):
        dl.image.Limits(max_bytes=0)


@pytest.mark.parametrize("window", [(0, 0, 0, 3), (0, 0, 5, 17), (-1, 0, 2, 2), (2**40, 0, 1, 1)])
def test_windows_lie_in_the_image(window):
    contents = encoded(picture(16, 16))
    with pytest.raises(ValueError, match="the window of"):
        dl.image.decode_and_crop_jpeg(contents, np.array(window))


@pytest.mark.parametrize("part", [slice(12), pytest.param(slice(12, None), marks=THOROUGH)])
def test_photographs(shared_data, part):
    files = sorted((shared_data / "jpeg").glob("*.JPEG"))[part]
    assert files
    for file in files:
        contents = file.read_bytes()
        np.testing.assert_array_equal(dl.image.decode_jpeg(contents), decoded(contents))
