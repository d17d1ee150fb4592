"""PNG, GIF and BMP files, and files that are written."""

import io
import struct
import zlib

import numpy as np
import pytest

import drumline as dl
from tests.image.samples import Image, decoded, encoded, picture

PIXELS = picture(33, 41)


def written(mode, **options):
    return encoded(PIXELS, "PNG", mode, **options)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "1"])
@pytest.mark.parametrize("channels", [0, 1, 3, 4])
def test_png(mode, channels):
    contents = written(mode)
    own = {"RGB": "RGB", "L": "L", "RGBA": "RGBA", "LA": "LA", "P": "RGB", "1": "L"}[mode]
    wanted = decoded(contents, {0: own, 1: "L", 3: "RGB", 4: "RGBA"}[channels])
    made = dl.image.decode_png(contents, channels)
    assert made.shape == wanted.shape
    assert np.abs(made.astype(int) - wanted).max() <= (1 if channels == 1 else 0)
    words = dl.image.decode_png(contents, channels, dtype=np.uint16)
    np.testing.assert_array_equal(words, made.astype(np.uint16) * 257)


def test_png_of_16_bits():
    words = PIXELS.astype(np.uint16) * 250 + 7
    contents = dl.image.encode_png(words)
    np.testing.assert_array_equal(dl.image.decode_png(contents, dtype=np.uint16), words)
    np.testing.assert_array_equal(dl.image.decode_png(contents), words >> 8)
    image = Image.open(io.BytesIO(dl.image.encode_png(words[..., :1])))
    np.testing.assert_array_equal(np.asarray(image), words[..., 0])


def test_transparent_colors_of_png():
    assert dl.image.decode_png(written("P", transparency=3)).shape[2] == 4
    contents = written("L", transparency=100)
    np.testing.assert_array_equal(
        dl.image.decode_png(contents)[..., 0], decoded(written("L"))[..., 0]
    )
    alpha = dl.image.decode_png(contents, 4)[..., 3]
    np.testing.assert_array_equal(alpha == 0, dl.image.decode_png(contents)[..., 0] == 100)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_palettes_with_a_part_of_a_color():
    contents = written("P")
    start = contents.index(b"PLTE") - 4
    (length,) = struct.unpack(">I", contents[start : start + 4])
    for nbytes in (4, 767):
        part = chunk(b"PLTE", bytes(nbytes))
        damaged = contents[:start] + part + contents[start + length + 12 :]
        with pytest.raises(ValueError, match=f"a palette of {nbytes} bytes"):
            dl.image.decode_png(damaged)
        colors = written("RGB")
        suggested = colors[:33] + part + colors[33:]
        np.testing.assert_array_equal(dl.image.decode_png(suggested), dl.image.decode_png(colors))


def test_animations():
    frames = []
    for k in range(4):
        pixels = PIXELS.copy()
        pixels[5 * k : 5 * k + 6, 3 * k : 3 * k + 5] = 255
        frames.append(Image.fromarray(pixels))
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    contents = file.getvalue()
    made = dl.image.decode_gif(contents)
    shown = Image.open(io.BytesIO(contents))
    assert made.shape == (4, 33, 41, 3)
    for k in range(4):
        shown.seek(k)
        np.testing.assert_array_equal(made[k], np.asarray(shown.convert("RGB")))
    np.testing.assert_array_equal(dl.image.decode_image(contents), made)
    np.testing.assert_array_equal(dl.image.decode_image(contents, expand_animations=False), made[0])


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
def test_bmp(mode):
    contents = encoded(PIXELS, "BMP", mode)
    np.testing.assert_array_equal(dl.image.decode_bmp(contents), decoded(contents, mode))
    with pytest.raises(ValueError, match="the BMP has"):
        dl.image.decode_bmp(contents, 4 if mode == "RGB" else 3)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP"])
def test_any_file(kind):
    contents = encoded(PIXELS, kind)
    whole = decoded(contents)
    np.testing.assert_array_equal(dl.image.decode_image(contents), whole)
    floats = dl.image.decode_image(contents, dtype=np.float32)
    np.testing.assert_allclose(floats, whole / np.float32(255), rtol=1e-6)
    words = dl.image.decode_image(contents, dtype=np.uint16)
    np.testing.assert_array_equal(words, whole.astype(np.uint16) * 257)


@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"optimize_size": True}, {"quality": 30}]
)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("downsampled", [True, False])
def test_jpeg_files_look_as_those_of_libjpeg(options, channels, downsampled):
    pixels = PIXELS[..., :channels]
    contents = dl.image.encode_jpeg(pixels, chroma_downsampling=downsampled, **options)
    mode = "L" if channels == 1 else "RGB"
    source = pixels[..., 0] if channels == 1 else pixels
    quality, sampling = options.get("quality", 95), 2 if downsampled else 0
    wanted = decoded(encoded(source, quality=quality, subsampling=sampling), mode)
    ours = np.abs(decoded(contents, mode).astype(int) - pixels).mean()
    theirs = np.abs(wanted.astype(int) - pixels).mean()
    assert ours <= 1.02 * theirs + 0.02


def test_what_is_said_in_a_file():
    contents = dl.image.encode_jpeg(PIXELS, x_density=72, y_density=71, xmp_metadata="<x/>")
    image = Image.open(io.BytesIO(contents))
    assert image.info["dpi"] == (72, 71)
    assert b"http://ns.adobe.com/xap/1.0/\0<x/>" in contents


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP"])
def test_damaged_files_are_refused_or_decoded_but_never_crash(kind):
    contents = encoded(PIXELS, kind)
    draw = np.random.default_rng(0)
    for _ in range(80):
        bad = bytearray(contents)
        for at in draw.integers(4, len(bad), 3):
            bad[at] = draw.integers(256)
        bad = bytes(bad[: draw.integers(4, len(bad) + 1)])
        try:
            image = dl.image.decode_image(bad)
        except ValueError as error:
            assert str(error).startswith("image.decode_image: ")  # noqa: PT017
        else:
            assert image.dtype == np.uint8


BMP = encoded(PIXELS, "BMP")
SPECK = b"GIF89a\1\0\1\0\x80\0\0" + bytes(6)
INDEX_3 = b",\0\0\0\0\1\0\1\0\0\2\2\x5c\1\0;"


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (encoded(PIXELS, "BMP", "1"), "BMP of 1 bits and compression 0; 8, 24 and 32"),
        (BMP[:30] + b"\1" + BMP[31:], "BMP of 24 bits and compression 1; 8, 24 and 32"),
        (BMP[:18] + bytes(4) + BMP[22:], "the BMP header gives no size, at byte 18"),
        (BMP[:18] + b"\xff" * 4 + BMP[22:], "negative numbers, at byte 10"),
        (BMP[:25], "the BMP header is too short, at byte 25"),
        (BMP[:99], "the BMP data end too early, at byte 99"),
        (SPECK + INDEX_3, "of a color that is not in its palette, at byte"),
        (SPECK + INDEX_3[:5] + b"\0" + INDEX_3[6:], "the GIF has no frame with pixels, at byte 35"),
        (SPECK + INDEX_3[:12], "the GIF cannot be decoded .*, at byte"),
    ],
)
def test_what_is_wrong_is_named(contents, message):
    with pytest.raises(ValueError, match=f"^image.decode_image: .*{message}"):
        dl.image.decode_image(contents)


def test_bmp_from_the_top_down():
    turned = BMP[:22] + (-33).to_bytes(4, "little", signed=True) + BMP[26:]
    np.testing.assert_array_equal(dl.image.decode_bmp(turned), PIXELS[::-1])


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP"])
def test_files_that_end_early(kind):
    contents = encoded(PIXELS, kind)
    for end in (0, 3, 20, len(contents) // 2):
        with pytest.raises(ValueError, match="image.decode_"):
            getattr(dl.image, f"decode_{kind.lower()}")(contents[:end])


def test_limits():
    before = dl.image.get_limits()
    dl.image.set_limits(dl.image.Limits(max_pixels=1000))
    try:
        for kind in ("PNG", "GIF", "BMP"):
            with pytest.raises(ValueError, match="max_pixels allows 1000, it needs 1353"):
                dl.image.decode_image(encoded(PIXELS, kind))
    finally:
        dl.image.set_limits(before)
    bomb = encoded(np.zeros((6000, 6000), np.uint8), "PNG", mode="1")
    with pytest.raises(ValueError, match="max_expansion"):
        dl.image.decode_png(bomb)


def test_arguments_that_make_no_sense():
    with pytest.raises(ValueError, match="no JPEG, PNG, GIF or BMP"):
        dl.image.decode_image(b"what")
    with pytest.raises(ValueError, match="channels must be one of"):
        dl.image.decode_png(written("L"), channels=2)
    with pytest.raises(ValueError, match="uint8 or uint16"):
        dl.image.decode_png(written("L"), dtype=np.float32)
    with pytest.raises(TypeError, match="must be uint8"):
        dl.image.encode_jpeg(PIXELS.astype(np.float32))
    with pytest.raises(ValueError, match="must have"):
        dl.image.encode_jpeg(PIXELS, format="grayscale")
    with pytest.raises(ValueError, match="1 to 65535"):
        dl.image.encode_jpeg(PIXELS[:0])
