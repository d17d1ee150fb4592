"""Folders of sounds and images; orders and splits are those of Keras 3.15 with TensorFlow 2.21."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest

import drumline as dl
from drumline.datasets.folders.labelled_files import Request


def wav(samples, channels=1):
    data = struct.pack(f"<{len(samples)}h", *samples)
    form = struct.pack("<HHIIHH", 1, channels, 8000, 16000 * channels, 2 * channels, 16)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


@pytest.fixture
def sounds(tmp_path):
    """Ten files, file i of i + 1 samples of i, in two folders and one inside."""
    for i in range(10):
        folder = tmp_path / ("b" if i % 2 else "a/inner" if i == 4 else "a")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.WAV").write_bytes(wav([i] * (i + 1)))
    (tmp_path / "a" / "notes.txt").write_text("")
    (tmp_path / ".hidden").mkdir()
    return tmp_path


def numbers(paths):
    return [int(os.path.basename(path).split(".")[0]) for path in paths]


def request(directory, **changed):
    arguments = {
        "labels": "inferred",
        "label_mode": "int",
        "class_names": None,
        "shuffle": True,
        "seed": 1,
        "validation_split": None,
        "subset": None,
        "follow_links": False,
        "verbose": False,
        "formats": (".wav",),
    }
    return Request(str(directory), **(arguments | changed))


def test_order_and_splits_are_kerass(sounds):
    (plain,) = request(sounds, shuffle=False).files()
    assert numbers(plain.paths) == [0, 2, 6, 8, 4, 1, 3, 5, 7, 9]
    assert plain.labels.tolist() == [0] * 5 + [1] * 5 and plain.class_names == ["a", "b"]
    (shuffled,) = request(sounds).files()
    assert numbers(shuffled.paths) == KERAS_ORDER
    assert shuffled.labels.tolist() == [number % 2 for number in KERAS_ORDER]
    for subset, part in (("training", slice(0, 7)), ("validation", slice(7, 10))):
        (found,) = request(sounds, validation_split=0.3, subset=subset).files()
        assert numbers(found.paths) == KERAS_ORDER[part]
    both = request(sounds, validation_split=0.3, subset="both").files()
    assert [numbers(part.paths) for part in both] == [KERAS_ORDER[:7], KERAS_ORDER[7:]]
    (swapped,) = request(sounds, shuffle=False, class_names=["b", "a"]).files()
    assert numbers(swapped.paths) == [1, 3, 5, 7, 9, 0, 2, 6, 8, 4]


KERAS_ORDER = [6, 9, 3, 4, 0, 8, 2, 5, 7, 1]


def test_sounds(sounds):
    dataset = dl.datasets.audio_dataset_from_directory(
        sounds, batch_size=4, shuffle=False, verbose=False
    )
    assert dataset.class_names == ["a", "b"] and numbers(dataset.file_paths)[:2] == [0, 2]
    (first, labels), *_, (last, _) = dataset
    assert (first.shape, labels.tolist(), last.shape) == ((4, 9, 1), [0, 0, 0, 0], (2, 10, 1))
    assert (first * 32768)[1, :, 0].tolist() == [2] * 3 + [0] * 6
    cut = dl.datasets.audio_dataset_from_directory(
        sounds, label_mode="categorical", output_sequence_length=3, shuffle=False, verbose=False
    )
    ((audio, labels),) = cut
    assert audio.shape == (10, 3, 1) and labels.tolist() == [[1, 0]] * 5 + [[0, 1]] * 5
    training, validation = dl.datasets.audio_dataset_from_directory(
        sounds, None, batch_size=None, validation_split=0.3, subset="both", seed=1, verbose=False
    )
    assert sorted(len(audio) - 1 for audio in training) == sorted(KERAS_ORDER[:7])
    assert [len(audio) - 1 for audio in validation] == KERAS_ORDER[7:]
    binary = dl.datasets.audio_dataset_from_directory(sounds, label_mode="binary", verbose=False)
    ((_, labels),) = binary
    assert labels.shape == (10, 1) and labels.dtype == np.float32


def test_what_is_said(sounds, capsys):
    dl.datasets.audio_dataset_from_directory(
        sounds, validation_split=0.3, subset="training", seed=1
    )
    said = capsys.readouterr().out
    assert said == "Found 10 files belonging to 2 classes.\nUsing 7 files for training.\n"


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"label_mode": "text"}, "label_mode must be one of"),
        ({"labels": "none"}, "labels must be 'inferred', None or a list"),
        ({"labels": [0, 1]}, "there are 2 labels and 10 files"),
        ({"labels": None, "class_names": ["a"]}, "only with labels='inferred'"),
        ({"class_names": ["a", "c"]}, r"which are \['a', 'b'\]; got \['a', 'c'\]"),
        ({"class_names": ["a"], "label_mode": "binary"}, "needs two classes"),
        ({"subset": "training"}, "needs a validation_split"),
        ({"validation_split": 1.0, "subset": "both"}, "between 0 and 1"),
        ({"validation_split": 0.5}, "subset must be"),
        ({"validation_split": 0.5, "subset": "training", "seed": None}, "a seed must be given"),
        ({"validation_split": 0.01, "subset": "validation"}, "no files for validation"),
        ({"formats": (".ogg",)}, "no files found"),
    ],
)
def test_what_is_refused(sounds, changed, text):
    with pytest.raises(ValueError, match=text):
        request(sounds, **changed).files()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        dl.datasets.audio_dataset_from_directory(tmp_path / "none")


def test_texts(tmp_path):
    for name, text in {"a/1.txt": "one", "a/2.TXT": "", "b/3.txt": "grüße"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    read = dl.datasets.text_dataset_from_directory
    ((texts, labels),) = read(tmp_path, shuffle=False, verbose=False)
    assert (texts.tolist(), labels.tolist()) == ([b"one", b"", "grüße".encode()], [0, 0, 1])
    (cut,) = read(tmp_path, label_mode=None, shuffle=False, max_length=2, verbose=False)
    assert cut.tolist() == [b"on", b"", b"gr"]
    single = read(tmp_path, batch_size=None, seed=1, verbose=False)
    assert sorted(text for text, _ in single) == sorted(texts)
