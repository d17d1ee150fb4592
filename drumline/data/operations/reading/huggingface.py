"""Datasets of Hugging Face as sources: their rows by position, or by iteration.

What is read are Arrow tables, through the dataset's indices, which ``select``, ``shuffle``,
``filter`` and ``train_test_split`` leave instead of copying rows. Elements have the dtypes of the
features. The ``datasets`` package is not imported: who has one of its datasets has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from drumline._lazy import pa
from drumline.data.elements.arrow import arrow_columns, null_rows
from drumline.data.elements.errors import at_element
from drumline.data.elements.rows import conform, stack
from drumline.data.elements.spec import ElementSpec, TensorSpec, flatten
from drumline.data.operations.reading import constructors
from drumline.data.operations.reading.sources import Generator, SequenceItems
from drumline.data.plan.node import Node

_IN_MEMORY = 64e6
"""Tables of so many bytes become arrays once; larger ones are read a block at a time."""

_ITERATED_ROWS = 64


def is_huggingface(value: Any) -> bool:
    """Return whether it is a dataset of the package ``datasets``, or a dict or a stream of them."""
    module = sys.modules.get("datasets")
    names = ("Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict")
    kinds = tuple(getattr(module, name) for name in names if hasattr(module, name))
    return isinstance(value, kinds)


def huggingface(dataset: Any, output_signature: Any, operation: str) -> Node:
    """Return a source of the rows of a dataset.

    Raises:
        TypeError: it is no dataset of Hugging Face, or a column is of a kind without a column here.
        ValueError: a column has nulls, or the spec cannot be known.
    """
    if not is_huggingface(dataset):
        raise TypeError(
            f"{operation} takes a Dataset or an IterableDataset of Hugging Face's package datasets,"
            f" got {type(dataset).__name__}"
        )
    if isinstance(dataset, Mapping):
        splits = ", ".join(map(repr, dataset))
        raise TypeError(f"{operation} takes one split; choose one of {splits}, as dataset[split]")
    if isinstance(dataset, sys.modules["datasets"].IterableDataset):
        return _stream(dataset, output_signature, operation)
    form = dataset.format
    if form["type"] == "custom" or form["format_kwargs"]:
        # What the user's transform, or a format with options, makes of a row.
        return constructors.items(dataset, output_signature)
    names = form["columns"]
    if form["output_all_columns"] or names is None:
        names = dataset.column_names
    return _rows(dataset, list(names), output_signature, operation)


def _rows(dataset: Any, names: list[str], output_signature: Any, operation: str) -> Node:
    features = {name: dataset.features[name] for name in names}
    _require_known(features, operation)
    table = dataset.data.table if hasattr(dataset.data, "table") else dataset.data
    _require_no_nulls(table, features, dataset._indices, operation)
    arrow = dataset.with_format("arrow", columns=names)
    length = len(dataset)
    images = any(_image(feature) for feature in features.values())
    size = table.nbytes * length / max(1, table.num_rows)
    if not images and output_signature is None and size <= _IN_MEMORY:
        whole = arrow[:] if length else dataset.features.arrow_schema.empty_table().select(names)
        return constructors.slices(_columns(whole, features, operation))
    read = _ArrowReader(features, operation)
    if output_signature is not None:
        element = constructors.signed(output_signature, operation)
    else:
        first = arrow[:1] if length and images else None
        element = read.element(dataset.features.arrow_schema.empty_table(), first)
    return SequenceItems(
        (), element, HuggingFaceRows(arrow, read, element, length), length, _kind(dataset)
    )


def _stream(dataset: Any, output_signature: Any, operation: str) -> Node:
    if dataset.features is None:
        if output_signature is None:
            raise ValueError(
                f"{operation}: the features of this IterableDataset are not known: give an "
                "output_signature, or cast it (dataset.cast(datasets.Features(...)))"
            )
        return constructors.generator(_Python(dataset), output_signature)
    features = dict(dataset.features)
    _require_known(features, operation)
    read = _ArrowReader(features, operation)
    arrow = dataset.with_format("arrow")
    if output_signature is not None:
        element = constructors.signed(output_signature, operation)
    else:
        images = any(_image(feature) for feature in features.values())
        first = next(iter(arrow.iter(batch_size=1)), None) if images else None
        element = read.element(dataset.features.arrow_schema.empty_table(), first)
    return Generator((), element, _Stream(arrow, read, element), _kind(dataset))


class _ArrowReader:
    """Makes columns of tables."""

    def __init__(self, features: Mapping[str, Any], operation: str):
        self.features = features
        self.operation = operation

    def columns(self, table: pa.Table) -> dict[str, Any]:
        """Return the columns of a table by name; of images a list of arrays."""
        return _columns(table, self.features, self.operation)

    def element(self, empty: pa.Table, first: pa.Table | None) -> ElementSpec:
        """Return the spec of a row.

        Args:
            empty: a table without rows.
            first: one with the first row, which says what images are like.
        """
        plain = {n: f for n, f in self.features.items() if not _image(f)}
        columns = _columns(empty.select(list(plain)), plain, self.operation) if plain else {}
        images: dict[str, TensorSpec] = {}
        for name, feature in self.features.items():
            if _image(feature):
                images[name] = self._image_spec(name, feature, first)
        merged = {name: images.get(name, columns.get(name)) for name in self.features}
        leaves, structure = flatten(merged)
        specs, _ = constructors.ragged_columns([x for x in leaves if not isinstance(x, TensorSpec)])
        found = iter(specs)
        taken = [x if isinstance(x, TensorSpec) else next(found) for x in leaves]
        return ElementSpec(structure, tuple(taken))

    def _image_spec(self, name: str, feature: Any, first: pa.Table | None) -> TensorSpec:
        if first is None or not first.num_rows:
            raise ValueError(
                f"{self.operation}: without rows, the shape of the images of {name!r} is unknown: "
                "give an output_signature"
            )
        (image,) = _images(first[name], feature, 1)
        return TensorSpec((None, None, image.shape[2]), image.dtype)


class HuggingFaceRows(Sequence[Any]):
    """Rows by position, many at a time.

    Args:
        arrow: the dataset with the format ``"arrow"``.
        read: makes columns of its tables.
        element: what the columns must be.
        length: how many rows there are.
    """

    def __init__(self, arrow: Any, read: _ArrowReader, element: ElementSpec, length: int):
        self._arrow = arrow
        self._read = read
        self._element = element
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: Any) -> Any:
        columns, _, error = self.columns_at(range(position, position + 1))
        if error is not None:
            raise error
        return self._element.structure.unflatten(column[0] for column in columns)

    def columns_at(self, index: Any) -> tuple[list[Any], int, Exception | None]:
        """Return rows at these positions, up to the first of another shape or an error."""
        positions = (
            slice(index.start, index.stop)
            if isinstance(index, range) and index.step == 1
            else np.asarray(index).tolist()
        )
        table = self._arrow[positions]
        return _block(self._read, table, self._element, [int(i) for i in index])


class _Stream:
    """Rows by iteration; each call begins again."""

    def __init__(self, arrow: Any, read: _ArrowReader, element: ElementSpec):
        self._arrow = arrow
        self._read = read
        self._element = element

    def __call__(self) -> Iterator[Any]:
        structure = self._element.structure
        at = 0
        for table in self._arrow.iter(batch_size=_ITERATED_ROWS):
            done = 0
            while done < table.num_rows:
                rest = table.slice(done)
                numbers = list(range(at + done, at + table.num_rows))
                columns, count, error = _block(self._read, rest, self._element, numbers)
                for row in range(count):
                    yield structure.unflatten(column[row] for column in columns)
                if error is not None:
                    raise error
                done += count
            at += table.num_rows


class _Python:
    """Rows as Python has them; each call begins again."""

    def __init__(self, dataset: Any):
        self._dataset = dataset
        self.__qualname__ = _kind(dataset)

    def __call__(self) -> Iterator[Any]:
        return iter(self._dataset)


def _block(
    read: _ArrowReader, table: pa.Table, element: ElementSpec, numbers: list[int]
) -> tuple[list[Any], int, Exception | None]:
    """Return rows of a table as columns, up to one of other shapes or one that fails."""
    leaves = element.structure.flatten(read.columns(table), arrays=True)
    lists = [leaf for leaf in leaves if isinstance(leaf, _Images)]
    count, error = table.num_rows, None
    for images in lists:
        count, error = images.run(count, error, numbers, read.operation)
    cut = [leaf.stacked(count) if isinstance(leaf, _Images) else leaf[:count] for leaf in leaves]
    _, columns = constructors.ragged_columns(cut)
    if all(_fits(c, spec) for c, spec in zip(columns, element.leaves, strict=True)):
        return columns, count, error
    rows: list[list[np.ndarray]] = []
    for row in range(count):
        try:
            found = conform([column[row] for column in columns], element, "the dataset's spec")
        except Exception as raised:
            return stack(rows, element), row, at_element(raised, numbers[row], read.operation)
        if rows and any(a.shape != b.shape for a, b in zip(found, rows[0], strict=True)):
            break
        rows.append(found)
    return stack(rows, element), len(rows), error if len(rows) == count else None


def _fits(column: Any, spec: TensorSpec) -> bool:
    if not isinstance(column, np.ndarray):
        return TensorSpec(column.shape[1:], column.dtype) == spec
    if column.dtype != spec.dtype or column.ndim - 1 != len(spec.shape):
        return False
    pairs = zip(column.shape[1:], spec.shape, strict=True)
    return all(want in (None, found) for found, want in pairs)


class _Images:
    """Images of a column that are decoded when their turn has come, since sizes may differ."""

    def __init__(self, column: pa.ChunkedArray, feature: Any, name: str):
        self._column = column
        self._feature = feature
        self._name = name
        self._decoded: list[np.ndarray] = []

    def run(
        self, limit: int, error: Exception | None, numbers: list[int], operation: str
    ) -> tuple[int, Exception | None]:
        """Return how many images have the shape of the first, and the error that ended them."""
        while len(self._decoded) < limit:
            at = len(self._decoded)
            try:
                (image,) = _images(self._column.slice(at, 1), self._feature, 1)
            except Exception as raised:
                raised.add_note(f"drumline: an image of {self._name!r}")
                return at, at_element(raised, numbers[at], operation)
            first = self._decoded[0] if self._decoded else image
            if image.shape != first.shape or image.dtype != first.dtype:
                return at, None
            self._decoded.append(image)
        return limit, error

    def stacked(self, count: int) -> np.ndarray:
        """Return the first images as one array."""
        return np.stack(self._decoded[:count]) if count else np.empty((0, 0, 0, 0), np.uint8)


def _columns(table: pa.Table, features: Mapping[str, Any], operation: str) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for name, feature in features.items():
        column = table[name]
        if _image(feature):
            filled[name] = _Images(column, feature, name)
        else:
            plain[name] = _without_missing_parts(column, feature)
    made = arrow_columns(pa.table(plain), operation) if plain else {}
    return {name: filled[name] if name in filled else made[name] for name in features}


def _images(column: Any, feature: Any, count: int) -> list[np.ndarray]:
    """Decoded, as (height, width, channels)."""
    images = []
    for stored in column.slice(0, count).to_pylist():
        picture = feature.decode_example(stored)
        if picture.mode in ("P", "PA"):
            picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
        array = np.asarray(picture)
        images.append(array[..., None] if array.ndim == 2 else array)
    return images


def _image(feature: Any) -> bool:
    """Return whether a column's values are images that are to be decoded."""
    return type(feature).__name__ == "Image" and bool(getattr(feature, "decode", False))


def _stored(feature: Any) -> bool:
    """Return whether its values are dicts of ``bytes`` and ``path``, either optional."""
    return hasattr(feature, "decode_example") and not getattr(feature, "decode", True)


def _without_missing_parts(column: pa.ChunkedArray, feature: Any) -> pa.ChunkedArray:
    if not _stored(feature) or not pa.types.is_struct(column.type):
        return column
    chunks = []
    for chunk in column.chunks:
        names = [field.name for field in chunk.type]
        parts = [
            part.fill_null("" if pa.types.is_string(part.type) else b"") for part in chunk.flatten()
        ]
        chunks.append(pa.StructArray.from_arrays(parts, names))
    return pa.chunked_array(chunks, type=None if chunks else column.type)


def _require_known(features: Mapping[str, Any], operation: str) -> None:
    for name, feature in features.items():
        if not _image(feature):
            _require_plain(name, feature, operation)


def _require_plain(path: str, feature: Any, operation: str) -> None:
    """Refuse features whose values are neither Arrow's own nor images of a column."""
    kind = type(feature).__name__
    if isinstance(feature, Mapping):
        for name, part in feature.items():
            _require_plain(f"{path}.{name}", part, operation)
    elif isinstance(feature, list | tuple):
        _require_plain(f"{path}[]", feature[0], operation)
    elif hasattr(feature, "feature"):
        _require_plain(f"{path}[]", feature.feature, operation)
    elif hasattr(feature, "decode_example") and getattr(feature, "decode", True):
        column = path.split(".")[0].removesuffix("[]")
        remedy = (
            f"dataset.cast_column({path!r}, datasets.{kind}(decode=False)), which gives the files' "
            f"bytes ({'dl.audio.decode_wav' if kind == 'Audio' else 'dl.image.decode_image'} and "
            "others decode them)"
            if column == path and hasattr(feature, "decode")
            else "another form of that column, made by dataset.map"
        )
        raise TypeError(
            f"{operation}: column {path!r} has the feature {kind}, which is not decoded here: give "
            f"{remedy}, or leave it out with dataset.remove_columns({column!r})"
        )


def _require_no_nulls(
    table: pa.Table, features: Mapping[str, Any], indices: Any, operation: str
) -> None:
    rows = None if indices is None else indices.column(0).to_numpy()
    for name, feature in features.items():
        if _image(feature) or _stored(feature):
            continue
        chunks = [null_rows(chunk) for chunk in table[name].chunks if _may_have_nulls(chunk)]
        if not any(found.any() for found in chunks):
            continue
        found = np.concatenate([null_rows(chunk) for chunk in table[name].chunks])
        count = int((found if rows is None else found[rows]).sum())
        if count:
            raise ValueError(
                f"{operation}: {count} rows have a null in column {name!r}, and a dataset has "
                f"none: drop them (dataset.filter(lambda row: row[{name!r}] is not None)), or fill "
                "them with dataset.map"
            )


def _may_have_nulls(array: pa.Array) -> bool:
    return bool(array.null_count) or pa.types.is_nested(array.type) or hasattr(array, "storage")


def _kind(dataset: Any) -> str:
    split = getattr(dataset, "split", None)
    return f"Hugging Face {type(dataset).__name__}" + (f" {split}" if split else "")
