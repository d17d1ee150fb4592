"""Folders of sounds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from drumline import audio, io
from drumline.data import Dataset
from drumline.datasets.folders.labelled_files import Request


def audio_dataset_from_directory(
    directory: str | bytes | os.PathLike[str],
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    output_sequence_length: int | None = None,
    ragged: bool = False,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    verbose: bool = True,
) -> Any:
    """Batches of the WAV files in a folder, as ``keras.utils.audio_dataset_from_directory``.

    Elements are (audio, labels), or audio without labels: float32 (n, samples, channels), and
    labels (n,), (n, classes) or (n, 1) by ``label_mode``. The attributes ``class_names`` and
    ``file_paths`` tell the order of classes and files.

    Args:
        directory: the folder. Names of files end in ``.wav``.
        labels: ``"inferred"``: a folder in it is a class; a list of integers, one for each file in
            alphanumeric order; or ``None``.
        label_mode: ``"int"``: int32; ``"categorical"``: float32, 1 at the class; ``"binary"``:
            float32, of two classes; ``None``: no labels.
        class_names: the folders to read, in the order of their labels; sorted unless given.
        batch_size: files in a batch; ``None`` for single files.
        output_sequence_length: how many samples to give of each file, zeros at the end; without it
            batches are as long as their longest file.
        ragged: gives ``RaggedArray`` instead of zeros at the ends.
        shuffle: whether the files come in a random order, a new one each epoch.
        seed: of that order.
        validation_split: the part of the files that is for validation.
        subset: ``"training"``, ``"validation"``, or ``"both"`` for a pair of datasets.
        follow_links: whether to look into folders that links lead to.
        verbose: whether to print how many files were found.

    Raises:
        ValueError: an argument is out of range, or there are no files.
        FileNotFoundError: there is no such folder.
    """
    if ragged and output_sequence_length is not None:
        raise ValueError("ragged and output_sequence_length cannot both be given")
    request = Request(
        os.fsdecode(directory),
        labels,
        label_mode,
        class_names,
        shuffle,
        seed,
        validation_split,
        subset,
        follow_links,
        verbose,
        (".wav",),
    )
    samples = -1 if output_sequence_length is None else output_sequence_length

    def loaded(path: Any) -> Any:
        return audio.decode_wav(io.read_file(path), desired_samples=samples).audio

    if ragged:
        return request.datasets(loaded, batch_size, Dataset.ragged_batch)
    if output_sequence_length is None:
        return request.datasets(loaded, batch_size, Dataset.padded_batch)
    return request.datasets(loaded, batch_size)
