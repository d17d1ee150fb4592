"""Sound files become the integers that scipy, soundfile and the standard library read."""

from __future__ import annotations

import contextlib
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.datasets import features
from drumline.datasets.features.connector import FeatureError
from drumline.datasets.features.sound_files import SoundError, decode_sound
from drumline.datasets.features.stored_values import ExampleEncoder
from tests.datasets.builders.fabricated_sounds import of_library, samples, wav


def written(values: np.ndarray) -> bytes:
    """Return a WAV file of scipy's."""
    out = io.BytesIO()
    pytest.importorskip("scipy.io.wavfile").write(out, 8_000, values)
    return out.getvalue()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_wav_of_all_numbers(dtype: Any, channels: int) -> None:
    rng = np.random.RandomState(1)
    if np.dtype(dtype).kind == "f":
        values = rng.uniform(-1, 1, (20, channels)).astype(dtype)
        expected = np.rint(values.astype(np.float64) * 2**31)
    else:
        bounds = np.iinfo(dtype)
        values = rng.randint(bounds.min, bounds.max, (20, channels), dtype=dtype)
        expected = values.astype(np.int64) - (128 if dtype is np.uint8 else 0)
    assert np.array_equal(decode_sound(written(values), None), expected)


def of_24_bits(values: list[int], channels: int = 1) -> bytes:
    data = b"".join(struct.pack("<i", value)[:3] for value in values)
    form = struct.pack("<HHIIHH", 1, channels, 8_000, 24_000, 3 * channels, 24)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def test_24_bits_are_padded_to_32() -> None:
    """As pydub's source has it: the lowest byte is 0xff for negative numbers."""
    read = decode_sound(of_24_bits([0, 1, -1, 2**23 - 1, -(2**23)]), None)
    assert read[:, 0].tolist() == [0, 256, -1, (2**23 - 1) * 256, -(2**31) + 255]


def test_channels_become_one_by_their_mean() -> None:
    stereo = np.array([[1, 2], [-1, -2], [5, 5]], np.int16)
    assert decode_sound(written(stereo), 1)[:, 0].tolist() == [1, -2, 5]
    assert decode_sound(written(stereo[:, :1]), 2).tolist() == [[1, 1], [-1, -1], [5, 5]]
    with pytest.raises(SoundError, match="2 channels, which do not become 3"):
        decode_sound(written(stereo), 3)


def test_like_pydub() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pydub = pytest.importorskip("pydub", reason="compares with pydub (the extra `reference`)")
    rng = np.random.RandomState(2)
    contents = [of_24_bits([*map(int, rng.randint(-(2**23), 2**23, 12))], 2)]
    for dtype in (np.uint8, np.int16, np.int32):
        bounds = np.iinfo(dtype)
        shapes = [(9, channels) for channels in (1, 2, 3)]
        contents += [written(rng.randint(bounds.min, bounds.max, s, dtype=dtype)) for s in shapes]
    for content in contents:
        for channels in (None, 1):
            theirs = pydub.AudioSegment.from_file(io.BytesIO(content), format="wav")
            theirs = theirs if channels is None else theirs.set_channels(channels)
            numbers = np.array(theirs.get_array_of_samples()).reshape(-1, theirs.channels)
            assert np.array_equal(decode_sound(content, channels), numbers)


@pytest.mark.parametrize("kind", ["FLAC", "WAV", "AIFF"])
def test_what_loses_nothing_is_exact(kind: str) -> None:
    values = samples(3, 70_000)  # more than one block
    assert np.array_equal(decode_sound(of_library(values, kind), 1)[:, 0], values)


def test_flac_of_24_bits_is_padded_like_wav() -> None:
    library = pytest.importorskip("soundfile")
    values = np.random.RandomState(4).randint(-(2**23), 2**23, 100).astype(np.int32)
    out = io.BytesIO()
    library.write(out, values << 8, 8_000, format="FLAC", subtype="PCM_24")
    assert np.array_equal(
        decode_sound(out.getvalue(), None), decode_sound(of_24_bits(values.tolist()), None)
    )


@pytest.mark.parametrize("kind", ["MP3", "OGG"])
def test_what_loses_something_is_close(kind: str) -> None:
    library = pytest.importorskip("soundfile")
    content = of_library(np.sin(np.arange(8_000) / 20) / 2, kind)
    heard, _ = library.read(io.BytesIO(content))
    assert np.abs(decode_sound(content, 1)[:, 0] - heard * 32_768).max() <= 0.6


def test_the_feature_takes_paths_bytes_and_files(tmp_path: Path) -> None:
    path = tmp_path / "sound.flac"
    path.write_bytes(of_library(samples(5), "FLAC"))
    audio = features.Audio(dtype=np.int16)
    for given_as in (path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes())):
        assert np.array_equal(audio.encode(given_as)[""], samples(5))
    stored = features.Audio(dtype=np.int16, lazy_decode=True).encode(path)[""]
    assert stored == path.read_bytes()
    path.write_bytes(b"RIFF0000WAVEdata")
    with pytest.raises(FeatureError, match=r"sound\.flac: WAV: "):
        audio.encode(path)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ImportError, match=r"soundfile: pip install 'drumline\[audio\]'"):
        decode_sound(b"fLaC", None, "flac")


_WHOLE = wav(samples(6))


@given(st.binary(max_size=80), st.integers(0, len(_WHOLE)), st.integers(0, 60))
def test_damaged_wav_is_a_clean_error(noise: bytes, cut: int, place: int) -> None:
    for content in (
        b"RIFF0000WAVE" + noise,
        _WHOLE[:cut],
        _WHOLE[: place + 12] + noise + _WHOLE[place + 12 :],
    ):
        if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
            continue
        try:
            read = decode_sound(content, 1)
        except (SoundError, ImportError):
            continue
        assert read.ndim == 2 and len(read) <= len(content)


@given(st.binary(min_size=1, max_size=200), st.integers(0, 400))
def test_damaged_flac_is_a_clean_error(noise: bytes, place: int) -> None:
    whole = of_library(samples(7, 1_000), "FLAC")
    for content in (b"fLaC" + noise, whole[:place], whole[:place] + noise + whole[place:]):
        with contextlib.suppress(SoundError):
            assert decode_sound(content, 1, "flac").shape[1] == 1


def test_an_example_with_a_damaged_sound_names_its_feature() -> None:
    encoder = ExampleEncoder(features.FeaturesDict({"voice": features.Audio()}))
    with pytest.raises(FeatureError, match="feature 'voice'"):
        encoder.encode({"voice": b"RIFF0000WAVE"})
