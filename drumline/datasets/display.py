"""Looking at examples: as numpy's arrays, as a table of pandas, as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from drumline._extras import import_extra
from drumline.data import Dataset, RaggedArray
from drumline.datasets.features.media import ImageFeature
from drumline.datasets.features.tensors import ClassLabel
from drumline.datasets.info import DatasetInfo


class NumpyExamples:
    """A dataset that is iterated over as numpy's arrays, again and again; see `as_numpy`.

    Args:
        dataset: of examples; a `Dataset`, or the look-alike's.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dataset.as_numpy_iterator())

    def __len__(self) -> int:
        return len(self._dataset)


def as_numpy(dataset: Any) -> Any:
    """Datasets and arrays as numpy's, as ``tfds.as_numpy``.

    Args:
        dataset: a dataset or array, or dictionaries, lists and tuples of them.

    Returns:
        The same structure, of what is iterated over as numpy's arrays, and of arrays.
    """
    if isinstance(dataset, Mapping):
        return {name: as_numpy(each) for name, each in dataset.items()}
    if isinstance(dataset, list | tuple):
        return type(dataset)([as_numpy(each) for each in dataset])
    if isinstance(dataset, Dataset):
        return NumpyExamples(dataset)
    return dataset if isinstance(dataset, RaggedArray | bytes) else np.asarray(dataset)


def named_values(example: Any, info: DatasetInfo | None) -> dict[str, Any]:
    """Return an example's values by their names, nested ones with a slash between.

    Args:
        example: a dictionary or a tuple.
        info: tells the names of a tuple's parts; they have numbers otherwise.
    """
    if isinstance(example, tuple):
        keys = None if info is None else info.supervised_keys
        plain = keys is not None and len(keys) == len(example)
        names = keys if plain and keys is not None else range(len(example))
        pairs = [
            (str(name) if isinstance(name, str | int) else "", value)
            for name, value in zip(names, example, strict=True)
        ]
    elif isinstance(example, Mapping):
        pairs = list(example.items())
    else:
        return {"": example}
    found: dict[str, Any] = {}
    for name, value in pairs:
        for inner, each in named_values(value, None).items():
            found["/".join(part for part in (name, inner) if part)] = each
    return found


def as_dataframe(ds: Dataset, ds_info: DatasetInfo | None = None) -> Any:
    """A dataset as a table of pandas, as ``tfds.as_dataframe``.

    Args:
        ds: a dataset that is not batched; all of it is read.
        ds_info: from which columns of pairs get their names.

    Returns:
        A ``pandas.DataFrame`` with a row for each example.

    Raises:
        MissingExtraError: pandas is not installed.

    Example:
        >>> few, info = dl.datasets.load("digits", split="test[:3]", with_info=True)
        >>> list(dl.datasets.as_dataframe(few, info).columns)
        ['image', 'label']
    """
    pandas = import_extra("pandas", "tutorials", "datasets.as_dataframe")
    return pandas.DataFrame([named_values(each, ds_info) for each in ds.as_numpy_iterator()])


def show_examples(
    ds: Dataset,
    ds_info: DatasetInfo,
    *,
    rows: int = 3,
    cols: int = 3,
    plot_scale: float = 3.0,
    image_key: str | None = None,
) -> Any:
    """Draw the first pictures of a dataset with their classes, as ``tfds.show_examples``.

    Args:
        ds: a dataset that is not batched, of dictionaries or pairs.
        ds_info: of it.
        rows: of pictures.
        cols: of pictures.
        plot_scale: inches of a picture.
        image_key: the name of the picture; the first one unless given.

    Returns:
        The figure of matplotlib's.

    Raises:
        ValueError: it has no pictures, or none of the name.
        MissingExtraError: matplotlib is not installed.
    """
    pictures = [name for name, each in ds_info.features.items() if isinstance(each, ImageFeature)]
    if image_key is not None and image_key not in pictures:
        raise ValueError(f"{ds_info.name} has the pictures {pictures}, and no {image_key!r}")
    if not pictures:
        raise ValueError(f"{ds_info.name} has no pictures, but {', '.join(ds_info.features)}")
    shown = image_key or pictures[0]
    labels = {name: each for name, each in ds_info.features.items() if isinstance(each, ClassLabel)}
    pyplot = import_extra("matplotlib.pyplot", "profile", "datasets.show_examples")
    figure = pyplot.figure(figsize=(plot_scale * cols, plot_scale * rows), layout="tight")
    figure.suptitle(ds_info.full_name)
    for number, element in enumerate(ds.take(rows * cols).as_numpy_iterator()):
        example = named_values(element, ds_info)
        axes = figure.add_subplot(rows, cols, number + 1)
        axes.set_axis_off()
        picture = np.asarray(example[shown])
        flat = picture[..., 0] if picture.shape[-1] == 1 else picture
        axes.imshow(flat, cmap="gray", interpolation="nearest")
        named = [(each, int(example[name])) for name, each in labels.items() if name in example]
        axes.set_title(", ".join(_title(each, value) for each, value in named))
    return figure


def _title(label: ClassLabel, value: int) -> str:
    if value < 0:
        return "no label"
    name = label.int2str(value)
    return name if name == str(value) else f"{name} ({value})"
