"""The files of a folder and their labels, as Keras finds, shuffles and splits them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from drumline.data import AUTOTUNE, Dataset
from drumline.data.elements.seeds import draw_seed

LABEL_MODES = ("int", "categorical", "binary", None)


@dataclasses.dataclass(frozen=True)
class LabelledFiles:
    """Files, with a label for each unless there are none.

    Attributes:
        paths: of the files.
        labels: int32 (n,), or ``None``.
        class_names: which label stands for which name; ``None`` without labels.
        mode: how labels are given.
        seed: by which they were shuffled; ``None`` if they were not.
    """

    paths: list[str]
    labels: np.ndarray | None
    class_names: list[str] | None
    mode: str | None
    seed: int | None

    def part(self, rows: slice) -> LabelledFiles:
        """Some of the files."""
        labels = None if self.labels is None else self.labels[rows]
        return dataclasses.replace(self, paths=self.paths[rows], labels=labels)

    def dataset(self, rows: Any, buffer_size: int) -> Dataset:
        """Rows, or pairs of rows and labels; if the files were shuffled, shuffled each epoch.

        Args:
            rows: a row for each file: an array (n, ...) or a ``RaggedArray``.
            buffer_size: of the shuffle.
        """
        elements = rows if self.labels is None else (rows, self._encoded(self.labels))
        dataset = Dataset.from_tensor_slices(elements)
        return dataset if self.seed is None else dataset.shuffle(buffer_size, self.seed)

    def _encoded(self, labels: np.ndarray) -> np.ndarray:
        if self.mode == "binary":
            return labels.astype(np.float32)[:, None]
        if self.mode == "categorical":
            return np.eye(len(self.class_names or ()), dtype=np.float32)[labels]
        return labels


@dataclasses.dataclass(frozen=True)
class Request:
    """Which files a user asks for: arguments of Keras's functions.

    Raises:
        ValueError: one of them is none that Keras takes.
    """

    directory: str
    labels: Any
    label_mode: str | None
    class_names: Sequence[str] | None
    shuffle: bool
    seed: int | None
    validation_split: float | None
    subset: str | None
    follow_links: bool
    verbose: bool
    formats: tuple[str, ...]

    what: ClassVar[str] = "files"

    def __post_init__(self) -> None:
        if self.label_mode not in LABEL_MODES:
            raise ValueError(f"label_mode must be one of {LABEL_MODES}, got {self.label_mode!r}")
        if self.labels is not None and not isinstance(self.labels, list | tuple):
            if self.labels != "inferred":
                raise ValueError(
                    "labels must be 'inferred', None or a list of integers, got "
                    f"{self.labels!r:.60}"
                )
        if self.class_names is not None and self.labels != "inferred":
            raise ValueError("class_names may be given only with labels='inferred'")
        self._check_split()

    def _check_split(self) -> None:
        split = self.validation_split
        if split is None:
            if self.subset is not None:
                raise ValueError(f"subset={self.subset!r} needs a validation_split")
            return
        if not 0 < split < 1:
            raise ValueError(f"validation_split must lie between 0 and 1, got {split}")
        if self.subset not in ("training", "validation", "both"):
            raise ValueError(
                f"subset must be 'training', 'validation' or 'both', got {self.subset!r}"
            )
        if self.shuffle and self.seed is None and self.subset != "both":
            raise ValueError(
                "with validation_split and shuffle=True a seed must be given, the same for both "
                "subsets, or they overlap"
            )

    def datasets(
        self,
        load: Callable[[Any], Any],
        batch_size: int | None,
        batch: Callable[[Dataset, int], Dataset] = Dataset.batch,
    ) -> Any:
        """What Keras's functions return: a dataset, or a pair of them for ``subset="both"``.

        Args:
            load: makes what a file holds of its row.
            batch_size: files in a batch; ``None`` for single files.
            batch: puts so many elements into each batch.
        """
        made = [self._dataset(files, load, batch_size, batch) for files in self.files()]
        return tuple(made) if self.subset == "both" else made[0]

    def _dataset(
        self,
        files: LabelledFiles,
        load: Callable[[Any], Any],
        batch_size: int | None,
        batch: Callable[[Dataset, int], Dataset],
    ) -> Dataset:
        rows = files.dataset(self._rows(files), 1024 if batch_size is None else 8 * batch_size)
        if files.labels is None:
            loaded = rows.map(load, AUTOTUNE)
        else:
            loaded = rows.map(lambda row, label: (load(row), label), AUTOTUNE)
        if batch_size is not None:
            loaded = batch(loaded, batch_size)
        dataset = loaded.prefetch(AUTOTUNE)
        vars(dataset).update(class_names=files.class_names, file_paths=files.paths)
        return dataset

    def _rows(self, files: LabelledFiles) -> Any:
        return np.array(files.paths, object)

    def files(self) -> list[LabelledFiles]:
        """What was asked for: one set of files, or those for training and validation.

        Raises:
            ValueError: there are no files, or labels do not fit them.
        """
        found = self._shuffled(self._indexed())
        if self.validation_split is None:
            parts = {"": found}
        else:
            count = int(self.validation_split * len(found.paths))
            rest = len(found.paths) - count
            both = {
                "training": found.part(slice(0, rest)),
                "validation": dataclasses.replace(
                    found.part(slice(rest, None)),
                    seed=None if self.subset == "both" else found.seed,
                ),
            }
            parts = both if self.subset == "both" else {self.subset or "": both[str(self.subset)]}
            for name, part in parts.items():
                self._say(f"Using {len(part.paths)} {self.what} for {name}.")
        for name, part in parts.items():
            if not part.paths:
                raise ValueError(
                    f"no {self.what} {'for ' + name if name else 'found'} in {self.directory}; "
                    f"names of files end in one of {self.formats}"
                )
        return list(parts.values())

    def _indexed(self) -> LabelledFiles:
        if self.labels == "inferred":
            names = self._classes()
            folders = [os.path.join(self.directory, name) for name in names]
        else:
            names, folders = [], [self.directory]
        per_folder = [list(self._walk(folder)) for folder in folders]
        paths = [path for found in per_folder for path in found]
        labels, class_names = self._labels(names, per_folder)
        classes = "" if class_names is None else f" belonging to {len(class_names)} classes"
        self._say(f"Found {len(paths)} {self.what}{classes}.")
        mode: str | None = self.label_mode if labels is not None else None
        if mode == "binary" and len(class_names or ()) != 2:
            raise ValueError(f"label_mode='binary' needs two classes, there are {class_names}")
        if mode is None:
            labels = class_names = None
        return LabelledFiles(paths, labels, class_names, mode, None)

    def _labels(
        self, names: list[str], per_folder: list[list[str]]
    ) -> tuple[np.ndarray | None, list[str] | None]:
        if self.labels is None:
            return None, None
        counts = [len(found) for found in per_folder]
        if self.labels == "inferred":
            return np.repeat(np.arange(len(names), dtype=np.int32), counts), names
        if len(self.labels) != sum(counts):
            raise ValueError(
                f"there are {len(self.labels)} labels and {sum(counts)} {self.what} in "
                f"{self.directory}"
            )
        labels = np.array(self.labels, np.int32)
        return labels, [str(label) for label in sorted(set(labels.tolist()))]

    def _classes(self) -> list[str]:
        found = [
            entry.name
            for entry in os.scandir(self.directory)
            if entry.is_dir() and not entry.name.startswith(".")
        ]
        if self.class_names is None:
            return sorted(found)
        if not set(self.class_names) <= set(found):
            raise ValueError(
                f"class_names must be folders of {self.directory}, which are {sorted(found)}; "
                f"got {list(self.class_names)}"
            )
        return list(self.class_names)

    def _walk(self, folder: str) -> Iterator[str]:
        for root, _, files in sorted(os.walk(folder, followlinks=self.follow_links)):
            for name in sorted(files):
                if name.lower().endswith(self.formats):
                    yield os.path.join(root, name)

    def _shuffled(self, files: LabelledFiles) -> LabelledFiles:
        """The order that Keras's seed gives, so that its splits are ours."""
        if not self.shuffle:
            return files
        seed = draw_seed() % 1_000_000 if self.seed is None else self.seed
        order = np.random.RandomState(seed).permutation(len(files.paths))
        labels = None if files.labels is None else files.labels[order]
        paths = [files.paths[i] for i in order]
        return dataclasses.replace(files, paths=paths, labels=labels, seed=seed)

    def _say(self, text: str) -> None:
        if self.verbose:
            print(text)
