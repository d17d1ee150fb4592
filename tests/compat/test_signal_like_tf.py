"""``tf.signal`` gives what TensorFlow's gives, where it is installed."""

import warnings

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

SIGNAL = np.random.default_rng(0).standard_normal((2, 50)).astype(np.float32)
COMPLEX = (SIGNAL[0, :48] + 1j * SIGNAL[1, :48]).reshape(2, 4, 6).astype(np.complex64)
DOUBLE = SIGNAL.astype(np.float64)


def _window(tf, name):
    return None if name is None else getattr(tf.signal, name)


CASES = {
    **{
        f"{name}{where}": lambda tf, name=name, where=where: getattr(tf.signal, name + where)(
            COMPLEX
        )
        for name in ("fft", "ifft", "irfft")
        for where in ("", "2d", "3d")
    },
    **{
        f"rfft{where}": lambda tf, where=where: getattr(tf.signal, "rfft" + where)(COMPLEX.real)
        for where in ("", "2d", "3d")
    },
    "fft, complex128": lambda tf: tf.signal.fft(COMPLEX.astype(np.complex128)),
    "fft, a tensor of complex128": lambda tf: tf.signal.fft(tf.constant(COMPLEX, tf.complex128)),
    "irfft, complex128": lambda tf: tf.signal.irfft(COMPLEX.astype(np.complex128)),
    "rfft, float64": lambda tf: tf.signal.rfft(DOUBLE),
    "rfft, a tensor of float64": lambda tf: tf.signal.rfft(tf.constant(DOUBLE)),
    "rfft, integers": lambda tf: tf.signal.rfft(np.arange(6)),
    "rfft, tensor of integers": lambda tf: tf.signal.rfft(tf.range(6)),
    "rfft of a list": lambda tf: tf.signal.rfft([1, 2, 3]),
    "rfft, shorter": lambda tf: tf.signal.rfft(SIGNAL, [17]),
    "rfft, longer": lambda tf: tf.signal.rfft(SIGNAL, [64]),
    "rfft2d, lengths": lambda tf: tf.signal.rfft2d(SIGNAL, [4, 9]),
    "irfft, odd": lambda tf: tf.signal.irfft(COMPLEX, [9]),
    "irfft, longer": lambda tf: tf.signal.irfft(COMPLEX, [32]),
    "irfft2d, lengths": lambda tf: tf.signal.irfft2d(COMPLEX, [3, 8]),
    "fftshift": lambda tf: tf.signal.fftshift(SIGNAL),
    "fftshift, axis": lambda tf: tf.signal.fftshift(SIGNAL[:, :7], axes=[1]),
    "ifftshift": lambda tf: tf.signal.ifftshift(SIGNAL[:, :7], axes=1),
    "frame": lambda tf: tf.signal.frame(SIGNAL, 12, 5),
    "frame, padded": lambda tf: tf.signal.frame(SIGNAL, 12, 5, pad_end=True, pad_value=2.0),
    "frame, gaps": lambda tf: tf.signal.frame(SIGNAL, 3, 7, pad_end=True),
    "frame, axis": lambda tf: tf.signal.frame(SIGNAL.T, 12, 5, axis=0),
    "frame, axis -2": lambda tf: tf.signal.frame(SIGNAL.T, 12, 5, True, axis=-2),
    "frame, integers": lambda tf: tf.signal.frame(tf.range(10), 4, 2, True, 7),
    "frame, too short": lambda tf: tf.signal.frame(SIGNAL, 60, 5),
    "overlap_and_add": lambda tf: tf.signal.overlap_and_add(SIGNAL.reshape(2, 5, 10), 4),
    "overlap_and_add, gaps": lambda tf: tf.signal.overlap_and_add(SIGNAL.reshape(2, 5, 10), 13),
    "overlap_and_add, int": lambda tf: tf.signal.overlap_and_add(np.ones((3, 4), np.int32), 2),
    **{
        f"{name} {size}": lambda tf, name=name, size=size: getattr(tf.signal, name)(size)
        for name in ("hann_window", "hamming_window", "kaiser_window", "vorbis_window")
        for size in (1, 2, 7, 16)
    },
    "kaiser_bessel_derived_window": lambda tf: tf.signal.kaiser_bessel_derived_window(16, 4.0),
    "kaiser_window, beta": lambda tf: tf.signal.kaiser_window(9, 3.0, dtype=tf.float64),
    "hann_window, symmetric": lambda tf: tf.signal.hann_window(8, periodic=False),
    "hann_window, float64": lambda tf: tf.signal.hann_window(8, dtype=tf.float64),
    "stft": lambda tf: tf.signal.stft(SIGNAL, 12, 5),
    "stft, float64": lambda tf: tf.signal.stft(DOUBLE, 12, 5),
    "stft, length": lambda tf: tf.signal.stft(SIGNAL, frame_length=12, frame_step=5, fft_length=20),
    "stft, cut": lambda tf: tf.signal.stft(SIGNAL, 12, 5, fft_length=10),
    "stft, padded": lambda tf: tf.signal.stft(SIGNAL, 16, 8, window_fn=None, pad_end=True),
    "stft, hamming": lambda tf: tf.signal.stft(SIGNAL, 16, 8, window_fn=tf.signal.hamming_window),
    "inverse_stft": lambda tf: tf.signal.inverse_stft(tf.signal.stft(SIGNAL, 12, 5), 12, 5),
    "inverse_stft, exact": lambda tf: tf.signal.inverse_stft(
        tf.signal.stft(SIGNAL, 16, 4), 16, 4, window_fn=tf.signal.inverse_stft_window_fn(4)
    ),
    "inverse_stft, short": lambda tf: tf.signal.inverse_stft(
        tf.signal.stft(SIGNAL, 12, 5, fft_length=8), 12, 5, fft_length=8
    ),
    "inverse_stft_window_fn": lambda tf: tf.signal.inverse_stft_window_fn(
        5, tf.signal.hamming_window
    )(12, dtype=tf.float32),
    **{
        f"{name} {kind} {norm} {n}": lambda tf, name=name, kind=kind, norm=norm, n=n: getattr(
            tf.signal, name
        )(SIGNAL, type=kind, norm=norm, n=n)
        for name in ("dct", "idct")
        for kind in (1, 2, 3, 4)
        for norm in (None, "ortho")
        for n in (None, 9, 64)
    },
    "dct, float64": lambda tf: tf.signal.dct(DOUBLE, type=3),
    **{
        f"mdct {norm} {window}": lambda tf, norm=norm, window=window: tf.signal.mdct(
            SIGNAL, 8, norm=norm, window_fn=_window(tf, window), pad_end=True
        )
        for norm in (None, "ortho")
        for window in (None, "vorbis_window", "kaiser_bessel_derived_window")
    },
    **{
        f"inverse_mdct {norm} {window}": lambda tf, norm=norm, window=window: (
            tf.signal.inverse_mdct(
                SIGNAL.reshape(2, 5, 10), norm=norm, window_fn=_window(tf, window)
            )
        )
        for norm in (None, "ortho")
        for window in (None, "vorbis_window")
    },
    "linear_to_mel": lambda tf: tf.signal.linear_to_mel_weight_matrix(),
    "linear_to_mel, chosen": lambda tf: tf.signal.linear_to_mel_weight_matrix(
        80, 513, 16000.0, 80.0, 7600.0
    ),
    "linear_to_mel, float64": lambda tf: tf.signal.linear_to_mel_weight_matrix(dtype=tf.float64),
    "mfccs": lambda tf: tf.signal.mfccs_from_log_mel_spectrograms(SIGNAL),
    # What TensorFlow refuses.
    "fft of floats": lambda tf: tf.signal.fft(tf.constant(SIGNAL)),
    "fft2d of a vector": lambda tf: tf.signal.fft2d(COMPLEX[0, 0]),
    "rfft of integers": lambda tf: tf.signal.rfft(tf.range(10)),
    "irfft of floats": lambda tf: tf.signal.irfft(tf.constant(SIGNAL)),
    "rfft, two lengths": lambda tf: tf.signal.rfft(SIGNAL, [4, 4]),
    "dct, type 5": lambda tf: tf.signal.dct(SIGNAL, type=5),
    "dct, axis": lambda tf: tf.signal.dct(SIGNAL, axis=0),
    "dct, norm": lambda tf: tf.signal.dct(SIGNAL, norm="forward"),
    "dct of integers": lambda tf: tf.signal.dct(tf.range(4)),
    "dct, n=0": lambda tf: tf.signal.dct(SIGNAL, n=0),
    "frame, step 0": lambda tf: tf.signal.frame(SIGNAL, 2, 0),
    "frame of a number": lambda tf: tf.signal.frame(1.0, 2, 1),
    "overlap_and_add of a vector": lambda tf: tf.signal.overlap_and_add(SIGNAL[0], 2),
    "mdct, length 6": lambda tf: tf.signal.mdct(SIGNAL, 6),
    "stft of integers": lambda tf: tf.signal.stft(tf.range(10), 4, 2),
    "window of integers": lambda tf: tf.signal.hann_window(4, dtype=tf.int32),
    "no bands": lambda tf: tf.signal.linear_to_mel_weight_matrix(0),
    "beyond Nyquist": lambda tf: tf.signal.linear_to_mel_weight_matrix(upper_edge_hertz=8000.0),
    "edges out of order": lambda tf: tf.signal.linear_to_mel_weight_matrix(
        lower_edge_hertz=900.0, upper_edge_hertz=800.0
    ),
}


def _outcome(program, tf):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of TensorFlow's 0 // 0
            found = program(tf)
    except Exception as error:
        return type(error).__name__
    return found


@pytest.mark.parametrize("case", CASES)
def test_values_dtypes_shapes_and_errors(case):
    wanted, got = _outcome(CASES[case], theirs), _outcome(CASES[case], ours)
    if isinstance(wanted, str) or isinstance(got, str):
        assert got == wanted
        return
    assert (got.dtype.name, tuple(got.shape)) == (wanted.dtype.name, tuple(wanted.shape))
    wide = wanted.dtype.name in ("float64", "complex128")
    scale = max(1.0, float(np.abs(wanted.numpy()).max(initial=0.0)))
    # TensorFlow computes the windows' and the tables' arguments in float32.
    np.testing.assert_allclose(
        got.numpy(), wanted.numpy(), rtol=1e-6, atol=(1e-6 if wide else 3e-5) * scale
    )


DIFFERENTIABLE = {
    "stft": lambda tf, x: tf.abs(tf.signal.stft(x, 12, 5)),
    "inverse_stft": lambda tf, x: tf.signal.inverse_stft(tf.signal.stft(x, 12, 5), 12, 5),
    "frame": lambda tf, x: tf.signal.frame(x, 12, 5, pad_end=True),
    "overlap_and_add": lambda tf, x: tf.signal.overlap_and_add(tf.reshape(x, (2, 5, 10)), 4),
    "dct 1": lambda tf, x: tf.signal.dct(x, type=1),
    "dct 2": lambda tf, x: tf.signal.dct(x, norm="ortho"),
    "dct 3": lambda tf, x: tf.signal.dct(x, type=3),
    "mdct": lambda tf, x: tf.signal.inverse_mdct(tf.signal.mdct(x, 8)),
    "mfccs": lambda tf, x: tf.signal.mfccs_from_log_mel_spectrograms(x),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", DIFFERENTIABLE)
def test_gradients(case, dtype):
    def gradient(tf):
        x = tf.constant(SIGNAL.astype(dtype))
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(DIFFERENTIABLE[case](tf, x)))
        return tape.gradient(loss, x)

    wanted, got = gradient(theirs), gradient(ours)
    assert got.dtype.name == wanted.dtype.name
    scale = max(1.0, float(np.abs(wanted.numpy()).max()))
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5 * scale)
