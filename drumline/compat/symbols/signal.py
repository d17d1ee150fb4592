"""``tf.signal``."""

from drumline.compat.symbols.table import same_names

AREA = same_names(
    "drumline.compat.ops.signal",
    "signal.",
    "dct fft fft2d fft3d fftshift frame hamming_window hann_window idct ifft ifft2d ifft3d "
    "ifftshift inverse_mdct inverse_stft inverse_stft_window_fn irfft irfft2d irfft3d "
    "kaiser_bessel_derived_window kaiser_window linear_to_mel_weight_matrix mdct "
    "mfccs_from_log_mel_spectrograms overlap_and_add rfft rfft2d rfft3d stft vorbis_window",
    differences={
        "dct": "type 1 of a single sample is refused",
        "stft": "of signals shorter than a frame no spectra, where TensorFlow raises if the "
        "transform is longer than a frame",
        "overlap_and_add": "the step is known when a function is traced, and positive",
    },
)
