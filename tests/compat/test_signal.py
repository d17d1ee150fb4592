"""``tf.signal``: inverses, gradients, and spectra in functions and datasets."""

import numpy as np
import pytest

from drumline.compat import tf

SIGNAL = np.random.default_rng(0).standard_normal(64).astype(np.float32)


def spectrogram(signal):
    return tf.abs(tf.signal.stft(signal, frame_length=16, frame_step=8))


def test_spectra_are_numpys_and_keep_64_bits():
    found = tf.signal.rfft(tf.constant(SIGNAL, tf.float64))
    assert found.dtype == tf.complex128
    np.testing.assert_allclose(found, np.fft.rfft(SIGNAL.astype(np.float64)), rtol=1e-12)
    assert tf.signal.rfft(SIGNAL.astype(np.float64)).dtype == tf.complex64
    np.testing.assert_allclose(tf.signal.ifft(tf.signal.fft(SIGNAL)).numpy().real, SIGNAL, 1e-4)


def test_a_signal_comes_back_from_its_frames_spectra():
    spectra = tf.signal.stft(SIGNAL, 16, 8)
    window = tf.signal.inverse_stft_window_fn(8)
    back = tf.signal.inverse_stft(spectra, 16, 8, window_fn=window)
    np.testing.assert_allclose(back[8:-8], SIGNAL[8:-8], atol=1e-5)


def test_functions_and_datasets_compute_what_calls_do():
    wanted = spectrogram(tf.constant(SIGNAL))
    assert wanted.shape == (7, 9)
    np.testing.assert_allclose(tf.function(spectrogram)(tf.constant(SIGNAL)), wanted, atol=1e-5)
    dataset = tf.data.Dataset.from_tensor_slices(np.stack([SIGNAL] * 3)).map(spectrogram)
    assert dataset.element_spec.shape == (7, 9)
    for each in dataset:
        np.testing.assert_allclose(each, wanted, atol=1e-5)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_gradients_have_the_signals_dtype(dtype):
    signal = tf.constant(SIGNAL, dtype)
    with tf.GradientTape() as tape:
        tape.watch(signal)
        loss = tf.reduce_sum(spectrogram(signal))
    gradient = tape.gradient(loss, signal)
    assert gradient.dtype == dtype

    def at(step):
        moved = SIGNAL.astype(np.float64)
        moved[20] += step
        return float(tf.reduce_sum(spectrogram(tf.constant(moved))))

    assert float(gradient[20]) == pytest.approx((at(1e-6) - at(-1e-6)) / 2e-6, rel=1e-4)
