"""Which features a premade model reads: names of numbers, and categories.

`InputColumns` is what premade Estimators ask for; the look-alike derives one for
``tf.feature_column`` from it. A column has two parts: what is prepared before the step, in a map of
the dataset, and what the step computes of that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline import strings
from drumline.keras.layers import StringLookup

PREFIX = "prepared_feature:"
"""Begins the names of what was prepared, among the features that a step is given."""

_ROWS = f"{PREFIX}rows"


@dataclasses.dataclass(frozen=True)
class CategoryColumn:
    """A feature of categories, for the premade Estimators of ``dl.estimator``.

    A linear model has a weight for each category. A DNN's input is a vector that is 1 for the
    category and else 0, or a row of a trained table.

    Args:
        key: the feature.
        lookup: gives the numbers of the feature's values, -1 for none; it is called in a map of the
            dataset, so it may take strings.
        size: how many categories there are.
        dimension: the length of the table's rows; None for no table.

    Raises:
        ValueError: a size is not positive.

    Example:
        >>> words = dl.keras.layers.StringLookup(vocabulary=["a", "b"])
        >>> dl.estimator.CategoryColumn("letter", words, size=3).name
        'letter'
    """

    key: str
    lookup: Callable[[Any], Any]
    size: int
    dimension: int | None = None

    def __post_init__(self) -> None:
        if self.size < 1 or (self.dimension is not None and self.dimension < 1):
            raise ValueError(f"CategoryColumn({self.key!r}): size and dimension must be positive")

    @property
    def name(self) -> str:
        """Of the column."""
        return self.key


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What a part of a model computes of features.

    Attributes:
        values: (batch, n).
        variables: those that are trained.
    """

    values: Any
    variables: list[Any]


class InputColumns:
    """Columns of ``dl.estimator``: a feature's name for its numbers, or a `CategoryColumn`."""

    def check(self, columns: Any) -> tuple[Any, ...]:
        """Columns as a tuple, by their names.

        Raises:
            TypeError: one is no column.
            ValueError: there is none, or two have one name.
        """
        given = [columns] if isinstance(columns, (str, CategoryColumn)) else list(columns or ())
        for each in given:
            if not isinstance(each, (str, CategoryColumn)):
                raise TypeError(
                    "feature_columns of dl.estimator are names of features and CategoryColumn, not "
                    f"{type(each).__name__}; tf.estimator takes those of tf.feature_column"
                )
        names = [_name(each) for each in given]
        if not names:
            raise ValueError("feature_columns must not be empty.")
        if len(set(names)) < len(names):
            raise ValueError(f"Duplicate feature column name found for columns: {names}")
        return tuple(sorted(given, key=_name))

    def prepare(self, features: Any, dense: Sequence[Any], linear: Sequence[Any]) -> dict[str, Any]:
        """Features as the step takes them: no strings, and what is prepared of them.

        Args:
            features: of an element of the input.
            dense: columns of a DNN.
            linear: columns of a linear model.
        """
        made = {name: each for name, each in features.items() if not is_text(each)}
        for column in {*dense, *linear}:
            if isinstance(column, CategoryColumn):
                if column.key not in features:
                    raise ValueError(f"Feature {column.key} is not in features dictionary.")
                made[PREFIX + column.key] = column.lookup(features[column.key])
        if not made:
            made[_ROWS] = self.rows(next(iter(features.values())))
        return made

    def rows(self, text: Any) -> Any:
        """A number for each row of a feature of strings."""
        return strings.length(text)

    def given(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """The features among what `prepare` gave, for users' functions."""
        return {name: each for name, each in features.items() if not name.startswith(PREFIX)}

    def lookup(self, vocabulary: Sequence[str], labels: Any) -> Any:
        """The numbers of words, -1 for others: in a map of the input."""
        return StringLookup(vocabulary=vocabulary, num_oov_indices=1)(labels) - 1

    def arrays(self, nested: Any) -> Any:
        """Nested values of a model_fn's as arrays of JAX's."""
        return nested

    def values(self, nested: Any) -> Any:
        """Nested arrays of JAX's as values of a model_fn's."""
        return nested

    def dense(self, columns: Sequence[Any], features: Mapping[str, Any]) -> Inputs:
        """The columns side by side."""
        parts, variables = [], []
        with scopes("input_layer"):
            for column in columns:
                if isinstance(column, str):
                    parts.append(_numbers(features, column))
                    continue
                ids = _ids(features, column)
                if column.dimension is None:
                    parts.append(jax.nn.one_hot(ids, column.size).sum(-2))
                    continue
                with scopes(f"{column.name}_embedding"):
                    spread = keras.initializers.TruncatedNormal(0.0, column.dimension**-0.5)
                    shape = (column.size, column.dimension)
                    table = keras.Variable(spread, shape=shape, name="embedding_weights")
                variables.append(table)
                parts.append(_rows(table.value, ids, mean=True))
        return Inputs(jnp.concatenate(parts, -1), variables)

    def linear(
        self, columns: Sequence[Any], features: Mapping[str, Any], units: int, combiner: str
    ) -> Inputs:
        """The sum of the columns' weights and a bias."""
        variables, total = [], None
        with scopes("linear_model"):
            for column in columns:
                numbers = _numbers(features, column) if isinstance(column, str) else None
                size = column.size if numbers is None else numbers.shape[-1]
                with scopes(_name(column)):
                    weights = keras.Variable("zeros", shape=(size, units), name="weights")
                variables.append(weights)
                if numbers is None:
                    found = _rows(weights.value, _ids(features, column), mean=combiner == "mean")
                else:
                    found = numbers @ weights.value
                total = found if total is None else total + found
            bias = keras.Variable("zeros", shape=(units,), name="bias_weights")
        return Inputs(total + bias.value, [*variables, bias])


def is_text(value: Any) -> bool:
    """Whether a feature is of strings, which no step takes."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and np.dtype(dtype).kind in "OSU"


@contextlib.contextmanager
def scopes(*names: str) -> Iterator[None]:
    """A block in which variables' names begin with these, where a scope may have them."""
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(keras.name_scope(re.sub(r"[^A-Za-z0-9_.\-]", "_", name)))
        yield


def _name(column: Any) -> str:
    return column if isinstance(column, str) else str(column.name)


def _feature(features: Mapping[str, Any], name: str, key: str) -> Any:
    if name not in features:
        raise ValueError(f"Feature {key} is not in features dictionary.")
    array = jnp.asarray(features[name])
    return array[:, None] if array.ndim == 1 else array


def _numbers(features: Mapping[str, Any], name: str) -> Any:
    """A feature as (batch, n), float32."""
    array = _feature(features, name, name)
    return array.reshape(len(array), -1).astype(np.float32)


def _ids(features: Mapping[str, Any], column: CategoryColumn) -> Any:
    """The numbers of a column's categories (batch, n)."""
    array = _feature(features, PREFIX + column.key, column.key)
    return array.reshape(len(array), -1)


def _rows(table: Any, ids: Any, mean: bool) -> Any:
    """The sum or mean of rows (batch, dimension); none for negative numbers."""
    there = ids >= 0
    rows = jnp.take(table, jnp.where(there, ids, 0), axis=0, mode="fill")
    found = jnp.where(there[..., None], rows, 0).sum(-2)
    return found / jnp.maximum(there.sum(-1, keepdims=True), 1) if mean else found
