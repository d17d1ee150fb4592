"""WAV files; expected samples are those of TensorFlow 2.21."""

import struct

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset

SAMPLES = [0, 1, -1, 32767, -32768, 100]


def wav(samples=SAMPLES, channels=1, rate=8000, bits=16, code=1, before=b"", after=b"") -> bytes:
    data = struct.pack(f"<{len(samples)}h", *samples)
    frame = channels * bits // 8
    form = struct.pack("<HHIIHH", code, channels, rate, rate * frame, frame, bits)
    chunks = before + b"fmt " + struct.pack("<I", 16) + form
    chunks += after + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


CASES = {
    "mono": (wav(), {}, [[0], [1], [-1], [32767], [-32768], [100]]),
    "stereo": (wav(channels=2), {}, [[0, 1], [-1, 32767], [-32768, 100]]),
    "fewer channels": (wav(channels=2), {"desired_channels": 1}, [[0], [-1], [-32768]]),
    "more channels": (
        wav(channels=2),
        {"desired_channels": 3},
        [[0, 1, 1], [-1, 32767, 32767], [-32768, 100, 100]],
    ),
    "fewer samples": (wav(), {"desired_samples": 2}, [[0], [1]]),
    "more samples": (wav(SAMPLES[:2]), {"desired_samples": 3}, [[0], [1], [0]]),
    "other chunks": (
        wav(SAMPLES[:2], before=b"JUNK\4\0\0\0abcd", after=b"LIST\4\0\0\0abcd"),
        {},
        [[0], [1]],
    ),
    "an odd chunk without padding": (wav([7], after=b"LIST\3\0\0\0abc"), {}, [[7]]),
    "an odd chunk": (wav([7], after=b"LIST\3\0\0\0abc\0"), {}, [[7]]),
    "no samples": (wav([]), {}, np.empty((0, 1))),
    "no channels": (wav([1]), {"desired_channels": 0}, np.empty((1, 0))),
}


@pytest.mark.parametrize("case", CASES)
def test_samples(case):
    contents, arguments, expected = CASES[case]
    audio, rate = dl.audio.decode_wav(contents, **arguments)
    assert audio.dtype == np.float32 and rate.dtype == np.int32 and rate == 8000
    np.testing.assert_array_equal(audio, np.asarray(expected) / 32768)


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        (b"", "no WAV file"),
        (b"x" * 99, "no WAV file"),
        (wav()[:-1], "at byte 36: 1 or more bytes are missing"),
        (wav()[:36], "no samples"),
        (wav(code=3), "at byte 12: samples are coded by format 3"),
        (wav(bits=24), "samples have 24 bits; only 16"),
        (wav(channels=0), "there are no channels"),
        (wav(SAMPLES[:5], channels=2), "10 bytes of samples do not divide by 4"),
        (wav() + b"data\2\0\0\0\1\0", 'a second chunk "data"'),
    ],
)
def test_what_is_wrong_is_named(contents, text):
    with pytest.raises(ValueError, match=f"audio.decode_wav: .*{text}"):
        dl.audio.decode_wav(contents)


def test_limits():
    with pytest.raises(ValueError, match="desired_channels"):
        dl.audio.decode_wav(wav(), desired_channels=-2)
    with pytest.raises(ValueError, match="more than 268435456 numbers"):
        dl.audio.decode_wav(wav(), desired_samples=1 << 40)
    with pytest.raises(TypeError, match="must be the bytes of one file"):
        dl.audio.decode_wav(3)


@pytest.mark.parametrize("arguments", [{}, {"desired_channels": 1}, {"desired_samples": 3}])
def test_a_map_decodes_natively(arguments):
    files = [wav(SAMPLES[:n]) for n in (2, 4, 6, 0)]

    def decode(contents):
        return dl.audio.decode_wav(contents, **arguments)

    dataset = Dataset.from_tensor_slices(files).map(decode)
    found = [audio.tolist() for audio, _ in dataset]
    assert found == [dl.audio.decode_wav(file, **arguments)[0].tolist() for file in files]
    bad = Dataset.from_tensor_slices([files[0], files[1][:-1], files[2]]).map(decode)
    iterator = iter(bad)
    next(iterator)
    with pytest.raises(ValueError, match=r"decode_wav: at byte 36: 1 or more") as caught:
        next(iterator)
    assert caught.value.element_index == 1
    assert len(next(iterator)[0]) == arguments.get("desired_samples", 6)
