"""Decoding WAV files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from drumline._core import decode_wavs
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.spec import ElementSpec, TensorSpec, flatten
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.plan.node import count_of

_MOST = 1 << 28
"""The most numbers that one file is decoded to: a GiB."""


class DecodeWav(NamedTuple):
    """What a WAV file holds, as ``tf.audio.decode_wav`` returns it.

    Attributes:
        audio: float32 (samples, channels), from -1 to 1.
        sample_rate: int32, samples a second.
    """

    audio: Any
    sample_rate: Any


@dataclasses.dataclass(frozen=True)
class DecodeWavFile(NativeOperation):
    """Contents of files to samples and rates; -1 leaves a number to the file."""

    desired_channels: int
    desired_samples: int

    @property
    def name(self) -> str:
        """As users know it."""
        return "audio.decode_wav"

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """Of the audio; ``None`` is what varies."""
        wanted = (self.desired_samples, self.desired_channels)
        samples, channels = (None if number < 0 else number for number in wanted)
        return samples, channels

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        """Audio and rate."""
        (contents,) = arguments
        if not contents.is_string or contents.shape != ():
            raise TypeError(f"{self.name}: contents must be the bytes of one file, got {contents}")
        specs = DecodeWav(TensorSpec(self.shape, np.float32), TensorSpec((), np.int32))
        leaves, structure = flatten(specs)
        return ElementSpec(structure, tuple(leaves))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        """Decode files sequentially."""
        samples, channels = self.shape
        audio, rates, told = decode_wavs(list(np.asarray(columns[0])), channels, samples, _MOST)
        error = None if told is None else ValueError(f"{self.name}: {told}")
        return OperationResult((self._column(audio), np.array(rates, np.int32)), error)

    def _column(self, audio: list[np.ndarray]) -> Column:
        samples, channels = self.shape
        if channels is None:
            return audio
        if samples is not None:
            return np.stack(audio) if audio else np.empty((0, samples, channels), np.float32)
        if not audio:
            return RaggedArray(np.empty((0, channels), np.float32), [0])
        return RaggedArray.from_row_lengths(np.concatenate(audio), [len(rows) for rows in audio])


def decode_wav(
    contents: Any, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> DecodeWav:
    """Decodes a WAV file of 16-bit samples, as ``tf.audio.decode_wav``.

    Args:
        contents: the file's bytes.
        desired_channels: how many channels to give: the first ones, or the last one again and
            again if there are fewer. -1: those of the file.
        desired_samples: how many samples to give: the first ones, or zeros after the last. -1:
            those of the file.
        name: not used; it is there as in TensorFlow.

    Returns:
        audio, float32 (samples, channels) from -1 to 1; sample_rate, int32.

    Raises:
        ValueError: the file is damaged, or its samples are no 16-bit integers; it says at which
            byte. A number is less than -1.
        TypeError: ``contents`` are no bytes.
    """
    channels = count_of(desired_channels, "decode_wav", "desired_channels", least=-1)
    samples = count_of(desired_samples, "decode_wav", "desired_samples", least=-1)
    result: DecodeWav = apply(DecodeWavFile(channels, samples), contents)
    return result
