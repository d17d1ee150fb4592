"""What runs before the program of an Estimator's saved model: parsing, and columns of strings.

No device holds strings, so a program takes numbers alone. A signature of an Estimator's takes
serialized examples, or features among which strings may be. Its description in the file says, in
JSON, how these become the program's arguments: `HostPart`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drumline import io
from drumline.compat.data.features.columns import (
    BucketizedColumn,
    CategoricalColumn,
    CrossedColumn,
    HashedCategoricalColumn,
    IdentityCategoricalColumn,
    ModelColumn,
    NumericColumn,
    SequenceCategoricalColumn,
    VocabularyFileCategoricalColumn,
    VocabularyListCategoricalColumn,
    WeightedCategoricalColumn,
)
from drumline.compat.io.files import parse_example
from drumline.compat.keras.feature_layers import unwrap_features
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import wrap
from drumline.compat.values.specs import ArraySpec
from drumline.compat.values.tensor import Tensor

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        BucketizedColumn,
        CrossedColumn,
        HashedCategoricalColumn,
        IdentityCategoricalColumn,
        NumericColumn,
        SequenceCategoricalColumn,
        VocabularyListCategoricalColumn,
        WeightedCategoricalColumn,
    )
}


@dataclasses.dataclass(frozen=True)
class HostColumn:
    """A column of which a part is prepared before the program.

    Attributes:
        prefix: begins the names of its parts.
        column: the column, or the categorical one in it.
        as_categories: whether it is prepared as a categorical one.
    """

    prefix: str
    column: Any
    as_categories: bool

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """The column's parts by name, of unwrapped features."""
        prepare = type(self.column).prepare
        if self.as_categories and isinstance(self.column, BucketizedColumn):
            prepare = CategoricalColumn.prepare
        made = prepare(self.column, features)
        return {f"{self.prefix}{part}": each for part, each in made.items()}


@dataclasses.dataclass(frozen=True)
class HostPart:
    """How a signature's tensors become the arguments of its program.

    Attributes:
        inputs: names in the signature, and the specs of the tensors.
        parsed: the features of examples, if the one tensor is of those; else None.
        columns: what is prepared.
        passed: the features that the program takes as they are.
    """

    inputs: dict[str, ArraySpec]
    parsed: dict[str, Any] | None
    columns: Sequence[HostColumn]
    passed: Sequence[str]

    def features(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The features, of a signature's tensors."""
        if self.parsed is None:
            return dict(tensors)
        (examples,) = tensors.values()
        return dict(parse_example(examples, self.parsed))

    def arguments(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The program's arguments by name, of a signature's tensors."""
        return self.prepared(unwrap_features(self.features(tensors)))

    def prepared(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """The program's arguments by name, of unwrapped features."""
        made = {name: features[name] for name in self.passed}
        for column in self.columns:
            made |= column.prepare(features)
        return {name: Tensor(np.asarray(each)) for name, each in made.items()}

    def described(self) -> dict[str, Any]:
        """It, in JSON."""
        parsed = None
        if self.parsed is not None:
            parsed = {name: _described_feature(each) for name, each in self.parsed.items()}
        return {
            "inputs": [
                [name, list(spec.shape), spec.dtype.name] for name, spec in self.inputs.items()
            ],
            "parsed": parsed,
            "columns": [
                [each.prefix, described_column(each.column), each.as_categories]
                for each in self.columns
            ],
            "passed": list(self.passed),
        }

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> HostPart:
        """What `described` gave, again."""
        parsed = described["parsed"]
        if parsed is not None:
            parsed = {name: _feature_of(each) for name, each in parsed.items()}
        return cls(
            {name: ArraySpec(shape, kind, name) for name, shape, kind in described["inputs"]},
            parsed,
            [HostColumn(start, _column_of(each), as_) for start, each, as_ in described["columns"]],
            described["passed"],
        )


def _described_feature(feature: Any) -> list[Any]:
    if isinstance(feature, io.VarLenFeature):
        return ["var", _kind(feature.dtype).name]
    if isinstance(feature, io.FixedLenFeature):
        default = _plain(feature.default_value)
        return ["fixed", _kind(feature.dtype).name, list(feature.shape), default]
    raise NotImplementedError(
        f"A saved model parses FixedLenFeature and VarLenFeature, not {type(feature).__name__}"
    )


def _feature_of(described: Sequence[Any]) -> Any:
    kind, dtype, *rest = described
    if kind == "var":
        return io.VarLenFeature(dtypes.as_dtype(dtype).as_numpy_dtype)
    return io.FixedLenFeature(rest[0], dtypes.as_dtype(dtype).as_numpy_dtype, rest[1])


def _kind(dtype: Any) -> Any:
    if isinstance(dtype, dtypes.DType):
        return dtype
    if np.dtype(dtype).kind in "OSU":
        return dtypes.string
    return dtypes.of_array(np.dtype(dtype))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def described_column(column: Any) -> Any:
    """A column in JSON.

    Raises:
        NotImplementedError: it has a function of Python's, or is of another class.
    """
    if isinstance(column, VocabularyFileCategoricalColumn):
        with open(column.vocabulary_file, encoding="utf-8") as file:
            words = file.read().splitlines()[: column.vocabulary_size]
        column = VocabularyListCategoricalColumn(
            column.key,
            tuple(words),
            column.dtype,
            column.default_value,
            column.num_oov_buckets,
        )
    kind = type(column).__name__
    if kind not in _KINDS:
        raise NotImplementedError(f"A saved model cannot hold the column {column!r}.")
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(column):
        value = getattr(column, field.name)
        if callable(value) and not isinstance(value, dtypes.DType):
            raise NotImplementedError(
                f"A saved model cannot hold the function {field.name} of the column "
                f"{column.name!r}, which is computed with strings: apply it to the features, in "
                "input_fn and before serving."
            )
        if isinstance(value, dtypes.DType):
            value = {"dtype": value.name}
        elif isinstance(value, ModelColumn):
            value = described_column(value)
        elif isinstance(value, tuple):
            value = [
                described_column(each) if isinstance(each, ModelColumn) else _plain(each)
                for each in value
            ]
        fields[field.name] = value
    return {"column": kind, "fields": fields}


def _column_of(described: Any) -> Any:
    if isinstance(described, list):
        return tuple(_column_of(each) for each in described)
    if isinstance(described, Mapping) and "column" in described:
        fields = {name: _column_of(each) for name, each in described["fields"].items()}
        return _KINDS[described["column"]](**fields)
    if isinstance(described, Mapping):
        return dtypes.as_dtype(described["dtype"])
    return described


def placeholder(spec: ArraySpec) -> Any:
    """A batch of one row that a tensor of a spec may be."""
    shape = [1 if size is None else size for size in spec.shape]
    if spec.dtype == dtypes.string:
        return wrap(np.full(shape, b"", object))
    return wrap(np.zeros(shape, spec.dtype.as_numpy_dtype))
