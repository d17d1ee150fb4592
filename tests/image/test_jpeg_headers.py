"""JPEG files that say of themselves what is not so, or what is rare: made of Pillow's."""

import re

import numpy as np
import pytest

import drumline as dl
from tests.image.samples import decoded, encoded, picture

PIXELS = picture(24, 16)
SOF, DHT, DQT, DRI, APP1, ADOBE = 0xC0, 0xC4, 0xDB, 0xDD, 0xE1, 0xEE


def segments(contents):
    """Markers and bodies of what stands before the first scan; and the rest."""
    found, at = [], 2
    while contents[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(contents[at + 2 : at + 4], "big")
        found.append((contents[at + 1], contents[at + 4 : end]))
        at = end
    return found, contents[at:]


def joined(parts, rest):
    """A file of such segments."""
    heads = (bytes([0xFF, marker]) + (len(body) + 2).to_bytes(2, "big") for marker, body in parts)
    bodies = (body for _, body in parts)
    return b"\xff\xd8" + b"".join(map(bytes.__add__, heads, bodies)) + rest


def changed(contents, marker, change):
    """The file with other bodies in the segments of a marker."""
    parts, rest = segments(contents)
    return joined([(m, change(body) if m == marker else body) for m, body in parts], rest)


def without(contents, marker, number=None):
    """The file without the segments of a marker, or those of them whose first half byte it is."""
    parts, rest = segments(contents)
    dropped = ((m == marker and number in (None, body[0] >> 4)) for m, body in parts)
    return joined([part for part, drop in zip(parts, dropped, strict=True) if not drop], rest)


def more(contents, marker, body):
    """The file with another segment before its first scan."""
    parts, rest = segments(contents)
    return joined([*parts, (marker, body)], rest)


def put(body, at, value):
    return body[:at] + value + body[at + len(value) :]


BASELINE = encoded(PIXELS, subsampling=0)
PROGRESSIVE = encoded(PIXELS, progressive=True)
CODES = bytes([1] + [0] * 15)


@pytest.mark.parametrize(
    ("marker", "change", "message"),
    [
        (SOF, lambda body: put(body, 0, b"\x0c"), "12 bits per sample; 8 are"),
        (SOF, lambda body: put(body, 1, b"\0\0"), "gives no size, at byte 1"),
        (SOF, lambda body: put(body, 5, b"\2"), "must have 1, 3 or 4 components, at byte"),
        (SOF, lambda body: put(body, 7, b"\x51"), "a component of .* is invalid, at byte"),
        (SOF, lambda body: put(body, 9, b"\1"), "a component of .* is invalid, at byte"),
        (SOF, lambda body: put(put(body, 7, b"\x31"), 10, b"\x21"), "factors 2 x 1 of 3 x 1"),
        (SOF, lambda body: body[:5], "frame header is too short, at byte"),
        (DHT, lambda body: body[:9], "segment FF C4 is malformed, at byte"),
        (DHT, lambda body: b"\x20" + CODES + b"\0", "segment FF C4 is malformed"),
        (DHT, lambda body: b"\x04" + CODES + b"\0", "segment FF C4 is malformed"),
        (DHT, lambda body: b"\x00" + CODES + b"\x10", "segment FF C4 is malformed"),
        (DHT, lambda body: b"\x10\x03" + bytes(15) + b"\0\1\2", "segment FF C4 is malformed"),
        (DHT, lambda body: b"\x10\x02\x01" + bytes(14) + b"\0\1\2", "segment FF C4 is malformed"),
        (DQT, lambda body: put(body, 0, b"\x20"), "segment FF DB is malformed, at byte 20"),
        (DQT, lambda body: put(body, 0, b"\4"), "segment FF DB is malformed"),
        (DQT, lambda body: body[:64], "segment FF DB is malformed"),
    ],
)
def test_segments_that_are_wrong_are_named(marker, change, message):
    with pytest.raises(ValueError, match=f"^image.decode_jpeg: .*{message}"):
        dl.image.decode_jpeg(changed(BASELINE, marker, change))


HEADS, SCAN = segments(BASELINE)
GRAY = encoded(PIXELS, mode="L")
FIRST = re.search(rb"\xff[^\x00\xd0-\xd7\xff]", segments(PROGRESSIVE)[1][14:]).start() + 14


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (joined([(m + 9 * (m == SOF), b) for m, b in HEADS], SCAN), "JPEG of kind SOF9: baseline"),
        (more(BASELINE, SOF, dict(HEADS)[SOF]), "a second JPEG frame header, at byte"),
        (without(BASELINE, SOF), "a JPEG scan without a frame header, at byte"),
        (joined(HEADS[:1], b"\xff\xd9"), "its end without a frame header, at byte 22"),
        (without(BASELINE, DHT, 0), "a JPEG scan without its DC table, at byte"),
        (without(BASELINE, DHT, 1), "a JPEG scan without its AC table, at byte"),
        (without(BASELINE, DQT), "a JPEG scan without its quantization table, at byte"),
        (without(PROGRESSIVE, DQT), "without a component's quantization table, at byte"),
        (without(PROGRESSIVE, DHT), "no such code or coefficient, at byte"),
        (more(BASELINE, DRI, b"123"), "segment FF DD is malformed, at byte"),
        (more(BASELINE, DRI, b"\0\2"), "fewer bits than its blocks need, at byte"),
        (joined(HEADS, b"\xff\xe1\0\0" + SCAN), "a JPEG segment has no length, at byte"),
        (joined(HEADS, b"\xff\xe1\xff\xff" + SCAN), "longer than the data, at byte"),
        (joined(HEADS, b"\xff\xe1\0"), "longer than the data, at byte"),
        (joined(HEADS, put(SCAN, 4, b"\5")), "the JPEG scan header is malformed, at byte"),
        (joined(HEADS, put(SCAN, 5, b"\2")), "the JPEG scan header is malformed, at byte"),
        (joined(HEADS, put(SCAN, 6, b"\x04")), "the JPEG scan header is malformed, at byte"),
        (joined(HEADS, put(SCAN, 5, b"x")), "names a component that is not there, at byte"),
        (
            changed(GRAY, SOF, lambda body: put(body, 5, b"\3") + b"\2\x11\0\3\x11\0"),
            "the JPEG ends without a scan of component 1, at byte",
        ),
        (
            joined(segments(PROGRESSIVE)[0], 101 * segments(PROGRESSIVE)[1][:FIRST]),
            "a JPEG of more than 100 scans, at byte",
        ),
    ],
)
def test_files_that_are_wrong_as_a_whole_are_named(contents, message):
    with pytest.raises(ValueError, match=f"^image.decode_jpeg: .*{message}"):
        dl.image.decode_jpeg(contents)


def test_segments_that_say_nothing_are_passed():
    """As libjpeg does: bytes between segments, fill bytes, restart markers, notes."""
    parts, rest = segments(BASELINE)
    contents = joined([*parts, (APP1, b"Exif\0\0 no such thing")], b"between\xff\xff\xd0" + rest)
    np.testing.assert_array_equal(dl.image.decode_jpeg(contents), decoded(BASELINE))


@pytest.mark.parametrize("wide", [False, True])
def test_tables_may_be_wide_and_come_together(wide):
    """All quantization tables in one segment, of 8 or 16 bits; all codes in another."""
    parts, rest = segments(BASELINE)
    tables = [body for marker, body in parts if marker == DQT]
    if wide:
        tables = [b"%c" % (16 | t[0]) + b"".join(b"\0%c" % v for v in t[1:]) for t in tables]
    codes = [body for marker, body in parts if marker == DHT]
    others = [part for part in parts if part[0] not in (DQT, DHT)]
    contents = joined([(DQT, b"".join(tables)), *others, (DHT, b"".join(codes))], rest)
    if wide:  # Only extended files may have them.
        contents = contents.replace(b"\xff\xc0", b"\xff\xc1", 1)
    np.testing.assert_array_equal(dl.image.decode_jpeg(contents), decoded(BASELINE))


def test_colors_that_adobe_wrote():
    """The transform that its marker names, or none without it."""
    ink = encoded(PIXELS, mode="CMYK", subsampling=0)
    turned = changed(ink, ADOBE, lambda body: put(body, 11, b"\2"))
    values = 255 - decoded(turned).astype(int)  # Pillow turns Adobe's values over.
    wanted = values[..., :3] * values[..., 3:] // 255
    np.testing.assert_array_equal(dl.image.decode_jpeg(turned), wanted)
    plain = without(ink, ADOBE)
    values = decoded(plain).astype(int)
    wanted = values[..., :3] * values[..., 3:] // 255
    np.testing.assert_array_equal(dl.image.decode_jpeg(plain), wanted)


@pytest.mark.parametrize("adobe", [False, True])
def test_colors_without_a_transform(adobe):
    contents = encoded(PIXELS, keep_rgb=True)
    contents = contents if adobe else without(contents, ADOBE)
    np.testing.assert_array_equal(dl.image.decode_jpeg(contents), decoded(contents))
    gray = dl.image.decode_jpeg(contents, channels=1)
    np.testing.assert_array_equal(gray, decoded(contents, "L"))
