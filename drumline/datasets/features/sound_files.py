"""Samples of sound files as integers, as pydub gives them to TensorFlow Datasets."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np

from drumline._extras import import_extra

_MOST = 1 << 28
"""The most numbers that one file is decoded to."""

_BLOCK = 1 << 16
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_WIDTHS = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}


class SoundError(ValueError):
    """A file is no sound that is known, or is damaged."""


def decode_sound(contents: bytes, channels: int | None, kind: str | None = None) -> np.ndarray:
    """Return the samples of a file: WAV is read here, FLAC, MP3, Ogg and others by soundfile.

    Samples of 8 and 16 bits are what they are; those of 24 and 32 bits, and floats, are of 32 bits.
    What is stored as no numbers of a width, as MP3, gives 16 bits.

    Args:
        contents: the file.
        channels: how many to give; those of the file if it is ``None``. Two or more become one by
            their mean, and one becomes several by repetition.
        kind: the name of the format, for errors.

    Returns:
        int32 (samples, channels).

    Raises:
        SoundError: the file is damaged, of an unknown format, too large, or of other channels.
        MissingExtraError: it needs soundfile, which is not installed.
    """
    is_wav = contents[:4] == b"RIFF" and contents[8:12] == b"WAVE"
    found = _of_wav(contents) if is_wav else None
    samples = _of_library(contents, kind) if found is None else found
    return _with_channels(samples, channels)


def _of_wav(contents: bytes) -> np.ndarray | None:
    """Return the samples of a WAV file; ``None`` if they are stored in a rare way."""
    place, form = 12, None
    while place + 8 <= len(contents):
        name, size = struct.unpack_from("<4sI", contents, place)
        place += 8
        if name == b"fmt ":
            form = _wav_form(contents, place, size)
        elif name == b"data":
            if form is None:
                raise SoundError(f"WAV: at byte {place}: samples before the chunk 'fmt '")
            return _wav_samples(contents, place, size, *form)
        place += size + size % 2
    raise SoundError(f"WAV: the file ends at byte {len(contents)} without samples")


def _wav_form(contents: bytes, place: int, size: int) -> tuple[int, int, int]:
    """Return code, channels and bits of what the chunk 'fmt ' describes."""
    if size < 16 or place + size > len(contents):
        raise SoundError(f"WAV: at byte {place}: the chunk 'fmt ' is cut off")
    code, channels, _, _, _, bits = struct.unpack_from("<HHIIHH", contents, place)
    if code == _EXTENSIBLE and size >= 26:
        (code,) = struct.unpack_from("<H", contents, place + 24)
    if not channels:
        raise SoundError(f"WAV: at byte {place}: there are no channels")
    return code, channels, bits


def _wav_samples(
    contents: bytes, place: int, size: int, code: int, channels: int, bits: int
) -> np.ndarray | None:
    if bits not in _WIDTHS.get(code, ()):
        return None
    frame = channels * bits // 8
    left = len(contents) - place
    if size > left and size < 0xFFFFFF00:  # a program that writes to a pipe knows no size
        raise SoundError(f"WAV: {size} bytes of samples are announced, and {left} are there")
    count = min(size, left) // frame
    _check_size(count * channels)
    data = np.frombuffer(contents, np.uint8, count * frame, place)
    if code == _FLOAT:
        values = data.view(f"<f{bits // 8}").astype(np.float64)
        samples = _from_floats(values, 31)
    elif bits == 8:
        samples = data.astype(np.int32) - 128
    elif bits == 24:
        parts = np.zeros((count * channels, 4), np.uint8)
        parts[:, 1:] = data.reshape(-1, 3)
        samples = _padded(parts.view("<i4")[:, 0])
    else:
        samples = data.view(f"<i{bits // 8}").astype(np.int32)
    return samples.reshape(count, channels)


def _padded(samples: np.ndarray) -> np.ndarray:
    """Return 24 bits in 32 as pydub has them: the lowest 8 bits of negative ones are set."""
    return np.where(samples < 0, samples | 0xFF, samples).astype(np.int32)


def _from_floats(values: np.ndarray, bits: int) -> np.ndarray:
    most = float(1 << bits)
    whole = np.rint(np.nan_to_num(values, posinf=1.0, neginf=-1.0) * most)
    return np.clip(whole, -most, most - 1).astype(np.int32)


def _check_size(numbers: int) -> None:
    if numbers > _MOST:
        raise SoundError(f"the file has more than {_MOST:,} samples: cut it into parts")


def _of_library(contents: bytes, kind: str | None) -> np.ndarray:
    named = f"of the format {kind!r} " if kind else ""
    library: Any = import_extra(
        "soundfile", "audio", f"features.Audio: sound {named}that is no WAV of numbers"
    )
    try:
        with library.SoundFile(io.BytesIO(contents)) as file:
            subtype, channels = file.subtype, file.channels
            whole = {"PCM_24": "int32", "PCM_32": "int32", "PCM_16": "int16"}.get(subtype)
            blocks, count = [np.zeros((0, channels), whole or "float64")], 0
            while True:  # as the number of samples in the head may be any
                block = file.read(_BLOCK, dtype=whole or "float64", always_2d=True)
                blocks.append(block)
                count += block.size
                _check_size(count)
                if len(block) < _BLOCK:
                    break
    except (library.SoundFileError, RuntimeError, OSError, TypeError) as error:
        raise SoundError(f"sound {named}is damaged, or of an unknown format: {error}") from error
    samples = np.concatenate(blocks)
    if whole is None:
        return _from_floats(samples, 31 if subtype in ("FLOAT", "DOUBLE") else 15)
    return _padded(samples) if subtype == "PCM_24" else samples.astype(np.int32)


def _with_channels(samples: np.ndarray, channels: int | None) -> np.ndarray:
    own = samples.shape[1]
    if channels is None or channels == own:
        return samples
    if own == 1:
        return np.repeat(samples, channels, axis=1)
    if channels != 1:
        raise SoundError(f"the file has {own} channels, which do not become {channels}")
    if own == 2:
        mean = samples.sum(axis=1, dtype=np.int64) >> 1
    else:  # as pydub does it: each is divided first
        mean = (samples // own).sum(axis=1, dtype=np.int64)
    return mean.astype(np.int32)[:, None]
