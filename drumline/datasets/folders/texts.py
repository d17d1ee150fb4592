"""Folders of texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from drumline import io, strings
from drumline.datasets.folders.labelled_files import Request


def text_dataset_from_directory(
    directory: str | bytes | os.PathLike[str],
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    verbose: bool = True,
) -> Any:
    """Batches of the text files in a folder, as ``keras.utils.text_dataset_from_directory``.

    Elements are (texts, labels), or texts without labels: ``bytes`` (n,), each a whole file, and
    labels (n,), (n, classes) or (n, 1) by ``label_mode``. The attributes ``class_names`` and
    ``file_paths`` tell the order of classes and files.

    Args:
        directory: the folder. Names of files end in ``.txt``.
        labels: ``"inferred"``: a folder in it is a class; a list of integers, one for each file in
            alphanumeric order; or ``None``.
        label_mode: ``"int"``: int32; ``"categorical"``: float32, 1 at the class; ``"binary"``:
            float32, of two classes; ``None``: no labels.
        class_names: the folders to read, in the order of their labels; sorted unless given.
        batch_size: files in a batch; ``None`` for single files.
        max_length: how many bytes to give of each file at most.
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
        (".txt",),
    )

    def loaded(path: Any) -> Any:
        text = io.read_file(path)
        return text if max_length is None else strings.substr(text, 0, max_length)

    return request.datasets(loaded, batch_size)
