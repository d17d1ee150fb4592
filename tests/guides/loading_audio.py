"""TensorFlow's tutorial "Simple audio recognition", as far as input goes.

What differs: sounds made here instead of downloads, ``keras.ops.stft`` for ``tf.signal.stft``, and
no pictures.
"""

import os
import pathlib
import wave

import drumline as dl  # isort: skip  (it selects Keras's JAX backend)
import jax.numpy as jnp
import keras
import numpy as np


def section(name):
    print(f"== {name}")


def make_files():
    """What the tutorial downloads."""
    for number, command in enumerate(["down", "go", "no"]):
        (data_dir / command).mkdir(parents=True)
        for i in range(4):
            samples = np.sin(np.arange(1200 + 100 * (i // 3)) * 0.1 * (number + 1)) * 2**14
            with wave.open(str(data_dir / command / f"{i}.wav"), "wb") as file:
                file.setparams((1, 2, 16000, 0, "NONE", ""))
                file.writeframes(samples.astype("<i2").tobytes())


data_dir = pathlib.Path("mini_speech_commands")
make_files()

section("A Keras utility")
train_ds, val_ds = dl.datasets.audio_dataset_from_directory(
    directory=data_dir,
    batch_size=3,
    validation_split=0.25,
    seed=0,
    output_sequence_length=1600,
    subset="both",
)
label_names = np.array(train_ds.class_names)
print("label names:", label_names)
print(train_ds.element_spec)


def squeeze(audio, labels):
    audio = jnp.squeeze(audio, axis=-1)
    return audio, labels


train_ds = train_ds.map(squeeze, dl.data.AUTOTUNE)
val_ds = val_ds.map(squeeze, dl.data.AUTOTUNE)
test_ds = val_ds.shard(num_shards=2, index=0)
val_ds = val_ds.shard(num_shards=2, index=1)
for example_audio, example_labels in train_ds.take(1):
    print(example_audio.shape)
    print(example_labels.shape)


def get_spectrogram(waveform):
    # Convert the waveform to a spectrogram via a STFT.
    real, imaginary = keras.ops.stft(
        waveform, sequence_length=255, sequence_stride=128, fft_length=256, center=False
    )
    # Obtain the magnitude of the STFT.
    spectrogram = jnp.hypot(real, imaginary)
    # Add a `channels` dimension, so that the spectrogram can be used
    # as image-like input data with convolution layers (which expect
    # shape (`batch_size`, `height`, `width`, `channels`).
    spectrogram = spectrogram[..., jnp.newaxis]
    return spectrogram


def make_spec_ds(ds):
    return ds.map(
        map_func=lambda audio, label: (get_spectrogram(audio), label),
        num_parallel_calls=dl.data.AUTOTUNE,
    )


train_spectrogram_ds = make_spec_ds(train_ds)
for example_spectrograms, _ in train_spectrogram_ds.take(1):
    print(example_spectrograms.shape)
train_spectrogram_ds = train_spectrogram_ds.cache().shuffle(10000).prefetch(dl.data.AUTOTUNE)
print(sum(len(labels) for _, labels in train_spectrogram_ds))

section("Reading audio files and their labels")
commands = np.array(sorted(os.listdir(data_dir)))
filenames = [str(path) for path in data_dir.glob("*/*")]
filenames = dl.random.shuffle(filenames)
print("Number of total examples:", len(filenames))
train_files = filenames[:8]


def decode_audio(audio_binary):
    audio, _ = dl.audio.decode_wav(audio_binary)
    return np.squeeze(audio, axis=-1)


def get_label(file_path):
    parts = dl.strings.split(file_path, os.path.sep)
    # Note: You'll use indexing here instead of tuple unpacking to enable this
    # to work in a TensorFlow graph.
    return parts[-2]


def get_waveform_and_label(file_path):
    label = get_label(file_path)
    audio_binary = dl.io.read_file(file_path)
    waveform = decode_audio(audio_binary)
    return waveform, label


files_ds = dl.data.Dataset.from_tensor_slices(train_files)
waveform_ds = files_ds.map(get_waveform_and_label, num_parallel_calls=dl.data.AUTOTUNE)
for waveform, label in waveform_ds.take(2):
    print(waveform.ndim, label in {b"down", b"go", b"no"})


def get_equal_length(waveform):
    # Padding for files with less than 16000 samples
    zero_padding = jnp.zeros([1600 - jnp.shape(waveform)[0]], dtype=np.float32)
    # Concatenate audio with padding so that all audio clips will be of the
    # same length
    return jnp.concatenate([waveform, zero_padding], 0)


def get_equal_length_and_label_id(audio, label):
    equal_length = get_equal_length(audio)
    label_id = jnp.argmax(label == commands)
    return equal_length, label_id


equal_ds = waveform_ds.map(get_equal_length_and_label_id, num_parallel_calls=dl.data.AUTOTUNE)
found = [int(label_id) for _, label_id in equal_ds]
print(
    found
    == [list(commands).index(path.split(os.path.sep)[1]) for path in map(os.fsdecode, train_files)]
)
for equal_length, _ in equal_ds.batch(4).take(1):
    print(equal_length.shape)
