"""Summaries by kind: numbers, distributions, pictures, sound, text, any array.

Tags, layouts and plugins are those of TensorFlow's ``tf.summary``, which TensorBoard's plugins read
(``tensorboard/plugins/*/summary_v2.py``).
"""

from __future__ import annotations

import functools
import io
import wave
from typing import Any

import jax
import numpy as np

from drumline import image as images
from drumline._event_messages import buckets_of, summary_message, summary_metadata, tensor_message
from drumline.summary.recording import record

_FLOAT = np.dtype("<f4")
_AUDIO_CONTENT = b"\x10\x0b"  # AudioPluginData(encoding=WAV)


def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> Any:
    """Record a number, as ``tf.summary.scalar``.

    The number may still be being computed: nothing waits for it but the thread that writes. Within
    a compiled step or function it is recorded each time that runs, once for all replicas.

    Args:
        name: its tag.
        data: a real number, or a scalar array; float32 is kept.
        step: by default that of `set_step` or ``as_default``; a number or a variable.
        description: Markdown.

    Returns:
        Whether it is recorded: there is a writer, and the condition of `record_if` holds. In a
        compiled step, what the step computes.

    Raises:
        ValueError: there is no step, or `data` is no scalar.
        TypeError: `data` is no real number, or differs from replica to replica.
        OSError: earlier summaries could not be written, as on a full disk.

    Example:
        >>> import tempfile
        >>> import drumline as dl
        >>> with dl.summary.create_file_writer(tempfile.mkdtemp()).as_default():
        ...     dl.summary.scalar("loss", 0.5, step=0)
        True
    """

    def check(value: Any) -> None:
        _real(name, value)
        if np.shape(value):
            raise ValueError(f"summary.scalar({name!r}): expected a scalar, got {np.shape(value)}")

    def make(tag: str, value: np.ndarray) -> bytes:
        number = value if value.dtype == _FLOAT else value.astype(_FLOAT)
        return _scalar_head(tag, description or "") + number.tobytes()

    return record(name, make, data, step, check)


@functools.lru_cache(4096)
def _scalar_head(tag: str, description: str) -> bytes:
    """The message of a number but for its last four bytes, which are the number."""
    metadata = summary_metadata("scalars", b"", description)
    return summary_message(tag, metadata, tensor_message(np.zeros((), np.float32)))[:-4]


def histogram(
    name: str,
    data: Any,
    step: Any = None,
    buckets: int | None = None,
    description: str | None = None,
) -> Any:
    """Record how numbers are distributed, as ``tf.summary.histogram``.

    Args:
        name, step, description: as of `scalar`.
        data: real numbers, of any shape.
        buckets: into so many of equal width; 30 by default.

    Returns, raises: as `scalar`.
    """
    count = 30 if buckets is None else buckets
    metadata = summary_metadata("histograms", b"", description or "")

    def make(tag: str, value: np.ndarray) -> bytes:
        return summary_message(tag, metadata, tensor_message(buckets_of(value, count)))

    return record(name, make, data, step, functools.partial(_real, name))


def image(
    name: str,
    data: Any,
    step: Any = None,
    max_outputs: int = 3,
    description: str | None = None,
) -> Any:
    """Record images, as ``tf.summary.image``.

    Args:
        name, step, description: as of `scalar`.
        data: (batch, height, width, channels) of 1 to 4 channels; uint8, or floats from 0 to 1.
        max_outputs: how many of the batch.

    Returns, raises: as `scalar`.
    """
    metadata = summary_metadata("images", b"", description or "")

    def check(value: Any) -> None:
        _real(name, value)
        shape = np.shape(value)
        if len(shape) != 4 or not 1 <= shape[3] <= 4:
            raise ValueError(
                f"summary.image({name!r}): expected (batch, height, width, channels) with 1 to 4 "
                f"channels, got {shape}"
            )

    def make(tag: str, value: np.ndarray) -> bytes:
        bytes_of = images.convert_image_dtype(value[:max_outputs], np.uint8, saturate=True)
        encoded = [bytes(images.encode_png(each)) for each in np.asarray(bytes_of)]
        size = [str(value.shape[2]).encode(), str(value.shape[1]).encode()]
        return summary_message(tag, metadata, tensor_message(_texts([*size, *encoded])))

    return record(name, make, data, step, check)


def text(name: str, data: Any, step: Any = None, description: str | None = None) -> Any:
    """Record text, which TensorBoard shows as Markdown, and vectors and matrices of it as tables.

    Args:
        name, step, description: as of `scalar`.
        data: a string, or an array or list of strings or ``bytes``.

    Returns, raises: as `scalar`.
    """
    metadata = summary_metadata("text", b"", description or "")

    def make(tag: str, value: np.ndarray) -> bytes:
        return summary_message(tag, metadata, tensor_message(_encoded(value)))

    def check(value: Any) -> None:
        if np.dtype(value.dtype).kind not in "OSU":
            raise ValueError(
                f"Text summary data must be a string or an array of strings: summary.text({name!r})"
                f" got {value.dtype}"
            )

    return record(name, make, data, step, check)


def audio(
    name: str,
    data: Any,
    sample_rate: int,
    step: Any = None,
    max_outputs: int = 3,
    encoding: str | None = None,
    description: str | None = None,
) -> Any:
    """Record sounds as 16-bit WAV, as ``tf.summary.audio``.

    Args:
        name, step, description: as of `scalar`.
        data: (batch, samples, channels), floats from -1 to 1.
        sample_rate: samples a second.
        max_outputs: how many of the batch.
        encoding: None or ``"wav"``.

    Returns: as `scalar`.

    Raises:
        ValueError: another `encoding`; and as `scalar`.
    """
    if encoding not in (None, "wav"):
        raise ValueError(f"Unknown encoding: {encoding!r}")
    metadata = summary_metadata("audio", _AUDIO_CONTENT, description or "")

    def check(value: Any) -> None:
        _real(name, value)
        if np.ndim(value) != 3:
            raise ValueError(
                f"summary.audio({name!r}): expected (batch, samples, channels), got "
                f"{np.shape(value)}"
            )

    def make(tag: str, value: np.ndarray) -> bytes:
        clips = [part for clip in value[:max_outputs] for part in (_wav(clip, sample_rate), b"")]
        return summary_message(tag, metadata, tensor_message(_texts(clips, (-1, 2))))

    return record(name, make, data, step, check)


def _wav(clip: np.ndarray, rate: int) -> bytes:
    scaled = clip.astype(np.float32) * np.float32(32768)
    away_from_zero = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))  # as C's roundf
    samples = np.clip(away_from_zero, -32768, 32767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(clip.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return buffer.getvalue()


def write(tag: str, tensor: Any, step: Any = None, metadata: Any = None) -> Any:
    """Record an array under a tag, for another plugin, as ``tf.summary.write``.

    Args:
        tag: its name.
        tensor: numbers or text, or a function that gives them, called if they are recorded.
        step: as of `scalar`.
        metadata: a ``SummaryMetadata`` message, or its bytes.

    Returns: as `scalar`.

    Raises:
        TypeError: an array of a type that ``TensorProto`` does not have here, as complex numbers;
            and as `scalar`.
    """
    about: bytes = (
        metadata.SerializeToString() if hasattr(metadata, "SerializeToString") else metadata
    )

    def check(value: Any) -> None:
        if value.dtype.kind not in "SU":
            tensor_message(np.zeros(0, value.dtype))

    def make(tag: str, value: np.ndarray) -> bytes:
        return summary_message(tag, about or b"", tensor_message(_encoded(value)))

    return record(tag, make, tensor, step, check)


def _texts(texts: list[bytes], shape: tuple[int, ...] = (-1,)) -> np.ndarray:
    made = np.empty(len(texts), object)
    made[:] = texts
    return made.reshape(shape)


def _encoded(value: np.ndarray) -> np.ndarray:
    """Strings as ``bytes``; other arrays as they are."""
    if value.dtype.kind not in "OSU":
        return value
    flat = value.ravel().tolist()
    return _texts([t.encode() if isinstance(t, str) else bytes(t) for t in flat], value.shape)


def _real(name: str, value: Any) -> None:
    expected = _expected(value.dtype)
    if expected:
        raise TypeError(f"The summary {name!r} is of {expected}, got {value.dtype}")


@functools.lru_cache(64)
def _expected(dtype: Any) -> str:
    """What a summary is of that cannot be of this dtype; empty where it can."""
    if not jax.numpy.issubdtype(dtype, np.number) and dtype != np.bool_:
        return "numbers"
    return "real numbers" if jax.numpy.issubdtype(dtype, np.complexfloating) else ""
