"""``tf.signal``: Fourier and cosine transforms, frames, windows, spectrograms.

Short windows and tables are computed by numpy in float64 and rounded once. Functions of signals
compute with numpy or JAX, as the others do, and have gradients.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert, is_jax, raw, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor

_COMPLEX = {"float32": np.complex64, "float64": np.complex128}
_REAL = {"complex64": np.float32, "complex128": np.float64}


def _of_array(function: Callable[[Any, Any], Any], array: Any) -> Tensor:
    """``function(numpy or JAX's numpy, array)``, 64-bit numbers as they are."""
    from drumline.compat.values.computing import compute

    if is_jax(array):
        return Tensor(compute(functools.partial(function, jnp), array))
    return Tensor(function(np, array))


def _single(value: Any, dtype: Any) -> Any:
    """``value`` if it is a tensor; of Python and numpy, numbers of this dtype."""
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value).astype(dtype)
    return value


def _floating(value: Any, what: str) -> Any:
    """The array of ``value``: numbers of Python as float32.

    Raises:
        ValueError: it has another dtype than float32 and float64.
    """
    array = convert(value) if hasattr(raw(value), "dtype") else convert(value, np.float32)
    if array.dtype.name not in _COMPLEX:
        raise ValueError(
            f"{what} requires tf.float32 or tf.float64 inputs, got: {array.dtype.name}"
        )
    return array


def _complex(value: Any, what: str, error: type[Exception]) -> Any:
    array = convert(value) if hasattr(raw(value), "dtype") else convert(value, np.complex64)
    if array.dtype.name not in _REAL:
        message = f"{what} requires tf.complex64 or tf.complex128 inputs, got: {array.dtype.name}"
        raise error(None, None, message) if error is InvalidArgumentError else error(message)
    return array


def _check_rank(array: Any, rank: int) -> None:
    if array.ndim < rank:
        raise InvalidArgumentError(
            None, None, f"Input must have rank of at least {rank} but got: {list(array.shape)}"
        )


def _lengths(given: Any, rank: int) -> list[int] | None:
    if given is None:
        return None
    lengths = static(given)
    if not isinstance(lengths, list) or len(lengths) != rank:
        raise InvalidArgumentError(None, None, f"fft_length must have shape [{rank}]")
    return [int(length) for length in lengths]


def _transform(name: str, rank: int) -> Callable[..., Tensor]:
    """A transform of complex numbers over the last ``rank`` axes."""

    def transform(input: Any, name: Any = None) -> Tensor:
        array = _complex(_single(input, np.complex64), label.upper(), InvalidArgumentError)
        _check_rank(array, rank)
        axes = tuple(range(-rank, 0))
        kind = array.dtype
        function = "ifftn" if label.startswith("i") else "fftn"
        return _of_array(lambda xp, x: getattr(xp.fft, function)(x, axes=axes).astype(kind), array)

    label = name
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"""The {"inverse " if name[0] == "i" else ""}discrete Fourier transform.

    Args:
        input: complex numbers ``(...{", n" * rank})``; the last {rank} axes are transformed.
        name: has no effect.

    Raises:
        InvalidArgumentError: the input is not complex, or has too few axes.
    """
    return transform


fft, fft2d, fft3d = (
    _transform(name, rank + 1) for rank, name in enumerate(("fft", "fft2d", "fft3d"))
)
ifft, ifft2d, ifft3d = (
    _transform(name, rank + 1) for rank, name in enumerate(("ifft", "ifft2d", "ifft3d"))
)


def _real_transform(name: str, rank: int) -> Callable[..., Tensor]:
    """A transform from real numbers to the half of the spectrum that determines it."""

    def transform(input_tensor: Any, fft_length: Any = None, name: Any = None) -> Tensor:
        array = _floating(_single(input_tensor, np.float32), label.upper())
        _check_rank(array, rank)
        lengths, axes = _lengths(fft_length, rank), tuple(range(-rank, 0))
        kind = _COMPLEX[array.dtype.name]
        return _of_array(lambda xp, x: xp.fft.rfftn(x, lengths, axes).astype(kind), array)

    label = name
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"""The discrete Fourier transform of real numbers.

    Args:
        input_tensor: real numbers ``(...{", n" * rank})``; the last {rank} axes are transformed.
        fft_length: {rank} lengths, to which the axes are cut or padded with zeros.
        name: has no effect.

    Returns:
        Complex numbers, of whose last axis the first ``n // 2 + 1``.

    Raises:
        ValueError: the input is neither float32 nor float64.
    """
    return transform


def _inverse_real_transform(name: str, rank: int) -> Callable[..., Tensor]:
    """The inverse of `_real_transform`."""

    def transform(input_tensor: Any, fft_length: Any = None, name: Any = None) -> Tensor:
        array = _complex(_single(input_tensor, np.complex64), label.upper(), ValueError)
        _check_rank(array, rank)
        lengths, axes = _lengths(fft_length, rank), tuple(range(-rank, 0))
        kind = _REAL[array.dtype.name]
        return _of_array(lambda xp, x: xp.fft.irfftn(x, lengths, axes).astype(kind), array)

    label = name
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"""Real numbers of their discrete Fourier transform.

    Args:
        input_tensor: complex numbers, as the transform of real numbers gives them.
        fft_length: {rank} lengths of the result; by default that of the last axis is even.
        name: has no effect.

    Raises:
        ValueError: the input is not complex.
    """
    return transform


rfft, rfft2d, rfft3d = (
    _real_transform(name, rank + 1) for rank, name in enumerate(("rfft", "rfft2d", "rfft3d"))
)
irfft, irfft2d, irfft3d = (
    _inverse_real_transform(name, rank + 1)
    for rank, name in enumerate(("irfft", "irfft2d", "irfft3d"))
)


def _axes(axes: Any) -> Any:
    found = static(axes)
    return tuple(found) if isinstance(found, list) else found


def fftshift(x: Any, axes: Any = None, name: Any = None) -> Tensor:
    """The zero frequency moved to the middle of the axes, of all by default."""
    chosen = _axes(axes)
    return _of_array(lambda xp, value: xp.fft.fftshift(value, chosen), convert(x))


def ifftshift(x: Any, axes: Any = None, name: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    chosen = _axes(axes)
    return _of_array(lambda xp, value: xp.fft.ifftshift(value, chosen), convert(x))


def _cosines(xp: Any, x: Any, kind: int, norm: str | None) -> Any:
    """The cosine transform of type ``kind`` over the last axis, by Fourier transforms.

    Makhoul, "A fast cosine transform in one and two dimensions", 1980.
    """
    size = x.shape[-1]
    if kind == 1:
        return xp.fft.rfft(xp.concatenate([x, x[..., -2:0:-1]], -1)).real.astype(x.dtype)
    if kind == 4:
        zeros = xp.zeros_like(x)
        found = _cosines(xp, xp.concatenate([x, zeros], -1), 2, None)[..., 1::2]
        return found * x.dtype.type(math.sqrt(0.5 / size)) if norm else found
    turns = np.exp(1j * np.pi / (2 * size) * np.arange(size)).astype(_COMPLEX[x.dtype.name])
    scale = np.full(size, math.sqrt(0.5 / size))
    scale[0] = math.sqrt(0.25 / size)
    if kind == 2:
        spectrum = xp.fft.rfft(x, 2 * size)[..., :size]
        found = (spectrum * turns.conj()).real.astype(x.dtype) * x.dtype.type(2)
        return found * scale.astype(x.dtype) if norm else found
    if norm:
        weights = scale * 2 * size
        weights[0] *= 2
    else:
        weights = np.full(size, 2.0 * size)
    return xp.fft.irfft(x * weights.astype(x.dtype) * turns, 2 * size)[..., :size].astype(x.dtype)


def dct(
    input: Any, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None, name: Any = None
) -> Tensor:
    """The discrete cosine transform over the last axis.

    Args:
        input: real numbers ``(..., samples)``.
        type: 1, 2, 3 or 4.
        n: cut or pad the axis to this length first.
        axis: -1 alone.
        norm: None or ``"ortho"``, with which the transform is orthonormal.
        name: has no effect.

    Raises:
        ValueError: such a type or norm is not there.
        NotImplementedError: the axis is another than -1.
    """
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if type not in (1, 2, 3, 4):
        raise ValueError("Types I, II, III and IV (I)DCT are supported.")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")
    if type == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")
    array = convert(input) if hasattr(raw(input), "dtype") else convert(input, np.float32)
    if array.dtype.name not in _COMPLEX:
        raise TypeError(f"the cosine transform takes float32 and float64, not {array.dtype.name}")
    length = None if n is None else int(static(n))
    if length is not None and length < 1:
        raise ValueError("n should be a positive integer or None")
    if type == 1 and (array.shape[-1] if length is None else length) < 2:
        raise ValueError("Type-I DCT requires the dimension to be greater than one.")

    def transformed(xp: Any, x: Any) -> Any:
        if length is not None:
            missing = max(0, length - x.shape[-1])
            x = xp.pad(x[..., :length], [(0, 0)] * (x.ndim - 1) + [(0, missing)])
        return _cosines(xp, x, type, norm)

    return _of_array(transformed, array)


def idct(
    input: Any, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None, name: Any = None
) -> Tensor:
    """The inverse of `dct`, up to a factor unless ``norm`` is ``"ortho"``."""
    if type not in (1, 2, 3, 4):
        raise ValueError("Types I, II, III and IV (I)DCT are supported.")
    return dct(input, {1: 1, 2: 3, 3: 2, 4: 4}[type], n, axis, norm)


def _step(given: Any, what: str) -> int:
    size = static(given)
    if isinstance(size, list):
        raise ValueError(f"{what} must be a scalar, not {size}")
    return int(size)


def frame(
    signal: Any,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: Any = -1,
    name: Any = None,
) -> Tensor:
    """Overlapping frames of a signal.

    Args:
        signal: ``(..., samples, ...)``, of any dtype.
        frame_length: samples in a frame.
        frame_step: samples from the beginning of a frame to that of the next.
        pad_end: pad the end, so that each step begins a frame; else incomplete ones are left out.
        pad_value: what to pad with.
        axis: the axis of the samples.
        name: has no effect.

    Returns:
        ``(..., frames, frame_length, ...)``.
    """
    array = convert(signal)
    if not array.ndim:
        raise ValueError("Shape () must have rank at least 1")
    length, step = _step(frame_length, "frame_length"), _step(frame_step, "frame_step")
    if step == 0:
        raise InvalidArgumentError(None, None, "Integer division by zero: frame_step is 0")
    where = int(static(axis))
    if not -array.ndim <= where < array.ndim:
        raise ValueError(f"axis={where} of a signal with {array.ndim} axes")
    where %= array.ndim
    samples = array.shape[where]
    count = -(-samples // step) if pad_end else max(0, (samples - length + step) // step)
    places = np.arange(count)[:, None] * step + np.arange(length)

    def framed(xp: Any, x: Any) -> Any:
        if pad_end:
            missing = max(0, (count - 1) * step + length - samples)
            widths = [(0, 0)] * x.ndim
            widths[where] = (0, missing)
            x = xp.pad(x, widths, constant_values=raw(pad_value))
        return xp.take(x, places, where)

    return _of_array(framed, array)


def overlap_and_add(signal: Any, frame_step: Any, name: Any = None) -> Tensor:
    """The signal of overlapping frames, which are added where they overlap.

    Args:
        signal: ``(..., frames, frame_length)``.
        frame_step: samples from the beginning of a frame to that of the next.
        name: has no effect.

    Returns:
        ``(..., (frames - 1) * frame_step + frame_length)``.
    """
    array = convert(signal)
    if array.ndim < 2:
        raise ValueError(f"Shape {tuple(array.shape)} must have rank at least 2")
    step = _step(frame_step, "frame_step")
    if step < 1:
        raise ValueError(f"frame_step must be positive, not {step}")
    frames, length = array.shape[-2:]
    parts = max(1, -(-length // step))
    total = max(0, (frames - 1) * step + length)

    def added(xp: Any, x: Any) -> Any:
        leading = [(0, 0)] * (x.ndim - 2)
        x = xp.pad(x, [*leading, (0, 0), (0, parts * step - length)])
        # A frame's part number p begins p steps later: the parts of one number do not overlap.
        made = sum(
            xp.pad(x[..., p * step : (p + 1) * step], [*leading, (p, parts - 1 - p), (0, 0)])
            for p in range(parts)
        )
        return made.reshape(*x.shape[:-2], (frames + parts - 1) * step)[..., :total]

    return _of_array(added, array)


def _window(values: Callable[[int], np.ndarray], length: Any, dtype: Any) -> Tensor:
    """A window of float64 numbers in the wanted dtype; of one sample it is 1."""
    kind = dtypes.as_dtype(dtype).dtype
    if kind.name not in ("float16", "bfloat16", "float32", "float64"):
        raise ValueError(f"dtype must be a floating point type. Found {kind.name}")
    size = _step(length, "window_length")
    return Tensor((np.ones(size) if size < 2 else values(size)).astype(kind))


def _raised_cosine(length: Any, periodic: Any, dtype: Any, a: float) -> Tensor:
    # Of odd windows, the periodic and the symmetric one are the same in TensorFlow.
    def values(size: int) -> np.ndarray:
        period = size - 1 + (1 - size % 2 if static(periodic) else 0)
        return a - (1 - a) * np.cos(2 * np.pi * np.arange(size) / period)

    return _window(values, length, dtype)


def hann_window(
    window_length: Any, periodic: Any = True, dtype: Any = np.float32, name: Any = None
) -> Tensor:
    """A Hann window ``(window_length,)``; periodic, for spectra, or symmetric, for filters."""
    return _raised_cosine(window_length, periodic, dtype, 0.5)


def hamming_window(
    window_length: Any, periodic: Any = True, dtype: Any = np.float32, name: Any = None
) -> Tensor:
    """A Hamming window ``(window_length,)``; periodic or symmetric as `hann_window`."""
    return _raised_cosine(window_length, periodic, dtype, 0.54)


def kaiser_window(
    window_length: Any, beta: Any = 12.0, dtype: Any = np.float32, name: Any = None
) -> Tensor:
    """A Kaiser window ``(window_length,)`` of shape parameter ``beta``."""
    return _window(lambda size: np.kaiser(size, static(beta)), window_length, dtype)


def kaiser_bessel_derived_window(
    window_length: Any, beta: Any = 12.0, dtype: Any = np.float32, name: Any = None
) -> Tensor:
    """A window ``(window_length,)`` of the sums of a Kaiser window, for `mdct`."""

    def values(size: int) -> np.ndarray:
        sums = np.cumsum(np.kaiser(size // 2 + 1, static(beta)))
        half = np.sqrt(sums[:-1] / sums[-1])
        return np.concatenate([half, half[::-1]])

    return _window(values, window_length, dtype)


def vorbis_window(window_length: Any, dtype: Any = np.float32, name: Any = None) -> Tensor:
    """Vorbis's window ``(window_length,)``, for `mdct`."""

    def values(size: int) -> np.ndarray:
        return np.sin(np.pi / 2 * np.sin(np.pi / size * (np.arange(size) + 0.5)) ** 2)

    size = _step(window_length, "window_length")
    return Tensor(values(size).astype(_window(np.ones, size, dtype)._value.dtype))


def _windowed(frames: Tensor, window_fn: Any, length: int) -> Tensor:
    if window_fn is None:
        return frames
    return frames * window_fn(length, dtype=frames.dtype)


def _scaled(frames: Tensor, factor: float, window_fn: Any = None, length: int = 0) -> Tensor:
    """Frames times the window of this length, or times ``factor`` if there is none."""
    if window_fn is not None:
        return _windowed(frames, window_fn, length)
    return _of_array(lambda xp, x: x * xp.asarray(factor, x.dtype), frames._value)


def _enclosing_power_of_two(length: int) -> int:
    return 1 << max(0, length - 1).bit_length()


def stft(
    signals: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Any = hann_window,
    pad_end: bool = False,
    name: Any = None,
) -> Tensor:
    """The spectra of overlapping frames of signals.

    Args:
        signals: real numbers ``(..., samples)``.
        frame_length: samples in a frame.
        frame_step: samples from the beginning of a frame to that of the next.
        fft_length: the length of the transform; by default the power of two that holds a frame.
        window_fn: a window of a length and ``dtype=``, or None.
        pad_end: whether to pad the end with zeros, so that each step begins a frame.
        name: has no effect.

    Returns:
        Complex numbers ``(..., frames, fft_length // 2 + 1)``.
    """
    length = _step(frame_length, "frame_length")
    size = _enclosing_power_of_two(length) if fft_length is None else _step(fft_length, "length")
    frames = frame(Tensor(_floating(signals, "stft")), length, frame_step, pad_end)
    return rfft(_windowed(frames, window_fn, length), [size])


def inverse_stft_window_fn(
    frame_step: Any, forward_window_fn: Any = hann_window, name: Any = None
) -> Callable[..., Tensor]:
    """A window for `inverse_stft` with which it gives back what `stft` had.

    Args:
        frame_step: samples from the beginning of a frame to that of the next.
        forward_window_fn: the window that `stft` had.
        name: has no effect.
    """

    def inverse_window(frame_length: Any, dtype: Any) -> Tensor:
        length, step = _step(frame_length, "frame_length"), _step(frame_step, "frame_step")
        forward = np.asarray(forward_window_fn(length, dtype=dtype))
        parts = -(-length // step)
        squares = np.pad(forward * forward, (0, parts * step - length)).reshape(parts, step)
        return Tensor(forward / np.tile(squares.sum(0), parts)[:length])

    return inverse_window


def inverse_stft(
    stfts: Any,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Any = hann_window,
    name: Any = None,
) -> Tensor:
    """The signals of the spectra of their frames.

    Args:
        stfts: complex numbers ``(..., frames, fft_length // 2 + 1)``, as of `stft`.
        frame_length: samples in a frame.
        frame_step: samples from the beginning of a frame to that of the next.
        fft_length: the length of the transform; by default the power of two that holds a frame.
        window_fn: a window of a length and ``dtype=``, or None; see `inverse_stft_window_fn`.
        name: has no effect.

    Returns:
        Real numbers ``(..., samples)``.
    """
    length = _step(frame_length, "frame_length")
    size = _enclosing_power_of_two(length) if fft_length is None else _step(fft_length, "length")
    array = _complex(stfts, "inverse_stft", ValueError)
    if array.ndim < 2:
        raise ValueError(f"Shape {tuple(array.shape)} must have rank at least 2")
    frames = irfft(Tensor(array), [size])[..., :length]
    if size < length:
        missing = [(0, 0)] * (array.ndim - 1) + [(0, length - size)]
        frames = _of_array(lambda xp, x: xp.pad(x, missing), frames._value)
    return overlap_and_add(_windowed(frames, window_fn, length), frame_step)


def mdct(
    signals: Any,
    frame_length: Any,
    window_fn: Any = vorbis_window,
    pad_end: bool = False,
    norm: Any = None,
    name: Any = None,
) -> Tensor:
    """The modified cosine transform of frames that overlap by half.

    Args:
        signals: real numbers ``(..., samples)``.
        frame_length: samples in a frame, a multiple of 4.
        window_fn: a window of a length and ``dtype=``, or None.
        pad_end: whether to pad the end with zeros, so that each step begins a frame.
        norm: None or ``"ortho"``.
        name: has no effect.

    Returns:
        ``(..., frames, frame_length // 2)``.

    Raises:
        ValueError: the length is no multiple of 4.
    """
    length = _step(frame_length, "frame_length")
    if length % 4:
        raise ValueError("The frame length must be a multiple of 4.")
    frames = frame(Tensor(_floating(signals, "mdct")), length, length // 2, pad_end)
    frames = _scaled(frames, math.sqrt(0.5), window_fn, length)

    def folded(xp: Any, x: Any) -> Any:
        a, b, c, d = xp.split(x, 4, -1)
        return xp.concatenate([-c[..., ::-1] - d, a - b[..., ::-1]], -1)

    return dct(_of_array(folded, frames._value), type=4, norm=norm)


def inverse_mdct(
    mdcts: Any, window_fn: Any = vorbis_window, norm: Any = None, name: Any = None
) -> Tensor:
    """The signals of their modified cosine transform, but for half a frame at either end.

    Args:
        mdcts: ``(..., frames, frame_length // 2)``, as of `mdct`.
        window_fn: the window that `mdct` had.
        norm: the norm that it had.
        name: has no effect.
    """
    array = _floating(mdcts, "inverse_mdct")
    half = array.shape[-1]
    found = dct(Tensor(array), type=4, norm=norm)
    if norm is None:
        found = found * (0.5 / half)

    def unfolded(xp: Any, x: Any) -> Any:
        a, b = xp.split(x, 2, -1)
        return xp.concatenate([b, -b[..., ::-1], -a[..., ::-1], -a], -1)

    frames = _of_array(unfolded, found._value)
    frames = _scaled(frames, math.sqrt(0.5), window_fn, 2 * half)
    return overlap_and_add(frames, half)


def linear_to_mel_weight_matrix(
    num_mel_bins: Any = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: Any = 125.0,
    upper_edge_hertz: Any = 3800.0,
    dtype: Any = np.float32,
    name: Any = None,
) -> Tensor:
    """The weights that make mel bands of linear frequencies.

    Args:
        num_mel_bins: bands.
        num_spectrogram_bins: frequencies, as ``fft_length // 2 + 1``.
        sample_rate: samples in a second.
        lower_edge_hertz: where the lowest band begins.
        upper_edge_hertz: where the highest band ends.
        dtype: of the result.
        name: has no effect.

    Returns:
        ``(num_spectrogram_bins, num_mel_bins)``, to multiply spectrograms with from the right.

    Raises:
        ValueError: the edges lie beyond half of the sample rate, or are not in order.
    """
    bands, bins, rate = static(num_mel_bins), static(num_spectrogram_bins), static(sample_rate)
    low, high = static(lower_edge_hertz), static(upper_edge_hertz)
    if bands <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {bands}")
    if rate <= 0:
        raise ValueError(f"sample_rate must be positive. Got: {rate}")
    if low < 0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {low}")
    if low >= high:
        raise ValueError(f"lower_edge_hertz {low} >= upper_edge_hertz {high}")
    if high > rate / 2:
        raise ValueError(
            "upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). "
            f"Got {high} for sample_rate: {rate}"
        )
    kind = dtypes.as_dtype(dtype).dtype
    if kind.kind != "f" and kind.name != "bfloat16":
        raise ValueError(f"dtype must be a floating point type. Found {kind.name}")

    def mel(hertz: Any) -> Any:
        return 1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0)

    frequencies = mel(np.linspace(0.0, rate / 2, bins))[1:, None]
    edges = np.linspace(mel(low), mel(high), bands + 2)
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    # The constant part of a spectrum belongs to no band.
    weights = np.pad(np.maximum(0.0, np.minimum(rising, falling)), [(1, 0), (0, 0)])
    return Tensor(weights.astype(kind))


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: Any = None) -> Tensor:
    """The cepstral coefficients of logarithms of mel spectrograms ``(..., frames, bands)``."""
    array = _floating(log_mel_spectrograms, "mfccs")
    if not array.ndim or not array.shape[-1]:
        raise ValueError("num_mel_bins must be positive. Got: 0")
    return _scaled(dct(Tensor(array), type=2), 1 / math.sqrt(2 * array.shape[-1]))
