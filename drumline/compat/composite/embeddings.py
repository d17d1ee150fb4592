"""``tf.nn``: embeddings of sparse and ragged numbers, combined in each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.compat.composite.ragged import RaggedTensor
from drumline.compat.composite.sparse import SparseTensor
from drumline.compat.ops.arrays import boolean_mask, static_array, where
from drumline.compat.ops.elementwise import cast, divide_no_nan, multiply, sqrt, square
from drumline.compat.ops.math.segments import unsorted_segment_sum
from drumline.compat.ops.nn.functions import embedding_lookup
from drumline.compat.values.convert import convert, static
from drumline.compat.values.tensor import Tensor

_COMBINERS = ("mean", "sqrtn", "sum")


def _rows_of(ids: Any) -> tuple[np.ndarray, Any]:
    """The row of each number, and the numbers."""
    if isinstance(ids, SparseTensor):
        return static_array(ids.indices)[:, 0], ids.values
    if isinstance(ids, RaggedTensor):
        return static_array(ids.value_rowids()), ids.values
    raise TypeError(f"sp_ids must be SparseTensor or RaggedTensor, got {type(ids).__name__}")


def _check_combiner(combiner: str) -> None:
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of {', '.join(_COMBINERS)}, got {combiner!r}")


def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    combiner: Any = None,
    max_norm: Any = None,
    name: Any = None,
    allow_fast_lookup: bool = False,
) -> Any:
    """The embeddings of the numbers in each row, combined.

    Args:
        params: ``(numbers, ...)``, or a list of its parts.
        sp_ids: a sparse or ragged tensor of numbers.
        sp_weights: of the same kind, what each counts; None for 1.
        combiner: ``"mean"``, ``"sqrtn"`` or ``"sum"``; the mean by default.
        max_norm: the largest norm of an embedding.
        name: accepted.
        allow_fast_lookup: accepted: it says how TensorFlow computes it.

    Returns:
        ``(rows, ...)``, up to the last row that has a number.

    Raises:
        TypeError: the numbers are not sparse or ragged.
        ValueError: the combiner is unknown.
    """
    combiner = combiner or "mean"
    _check_combiner(combiner)
    rows, numbers = _rows_of(sp_ids)
    count = int(rows.max()) + 1 if rows.size else 0
    weights = None if sp_weights is None else _rows_of(sp_weights)[1]
    return _combined(params, numbers, weights, rows, count, combiner, max_norm)


def _combined(
    params: Any, numbers: Any, weights: Any, rows: np.ndarray, count: int, combiner: str, most: Any
) -> Any:
    found = embedding_lookup(params, numbers, most)
    shape = (len(rows), *[1] * (len(found.shape) - 1))
    shares = Tensor(np.ones(len(rows), found.dtype.as_numpy_dtype))
    if weights is not None:
        shares = cast(weights, found.dtype)
    spread = Tensor(convert(shares).reshape(shape))
    total = unsorted_segment_sum(multiply(found, spread), rows, count)
    if combiner == "sum":
        return total
    size = unsorted_segment_sum(spread if combiner == "mean" else square(spread), rows, count)
    return divide_no_nan(total, size if combiner == "mean" else sqrt(size))


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: Any = "mean",
    default_id: Any = None,
    max_norm: Any = None,
    name: Any = None,
    allow_fast_lookup: bool = False,
) -> Any:
    """As `embedding_lookup_sparse`, without negative numbers, and with a row where there are none.

    Args:
        embedding_weights: see there.
        sparse_ids: a sparse tensor of numbers ``(..., n)``, or a ragged one.
        sparse_weights: numbers whose weight is not positive are left out, but of sums.
        combiner: see there.
        default_id: the number of which rows without any have the embedding; None for zeros.
        max_norm: see there.
        name: accepted.
        allow_fast_lookup: accepted.

    Returns:
        ``(..., *embedding)``.
    """
    combiner = combiner or "mean"
    _check_combiner(combiner)
    if isinstance(sparse_ids, SparseTensor):
        leading = tuple(int(each) for each in static_array(sparse_ids.dense_shape)[:-1])
        places = static_array(sparse_ids.indices)[:, :-1]
        rows = np.ravel_multi_index(tuple(places.T), leading) if len(places) else np.zeros(0, int)
        numbers = sparse_ids.values
    else:
        rows, numbers = _rows_of(sparse_ids)
        leading = (int(static(sparse_ids.nrows())),)
    weights = None if sparse_weights is None else sparse_weights.values
    kept = static_array(numbers) >= 0
    if weights is not None and combiner != "sum":
        kept &= static_array(weights) > 0
    rows, numbers = rows[kept], boolean_mask(numbers, kept)
    weights = None if weights is None else boolean_mask(weights, kept)
    count = int(np.prod(leading))
    made = _combined(embedding_weights, numbers, weights, rows, count, combiner, max_norm)
    empty = ~np.isin(np.arange(count), rows)
    if default_id is not None and empty.any():
        one = embedding_lookup(embedding_weights, static_array(default_id)[None], max_norm)
        made = where(empty.reshape(-1, *[1] * (len(made.shape) - 1)), one, made)
    return Tensor(convert(made).reshape((*leading, *made.shape[1:])))


def compute_accidental_hits(
    true_classes: Any,
    sampled_candidates: Any,
    num_true: int,
    seed: Any = None,
    name: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Where candidates that were drawn are true classes.

    Args:
        true_classes: ``(batch, num_true)``.
        sampled_candidates: ``(candidates,)``.
        num_true: of each example.
        seed: accepted: nothing is drawn.
        name: accepted.

    Returns:
        The examples, int32, the numbers of the candidates, int64, and as many times the least
        float, to be added to their logits.
    """
    true, drawn = static_array(true_classes), static_array(sampled_candidates)
    if true.ndim != 2 or true.shape[1] != num_true:
        raise ValueError(f"true_classes must be (batch, {num_true}), not {true.shape}")
    # Of a class that was drawn twice the last place counts, as in TensorFlow.
    place_of = {one: place for place, one in enumerate(drawn.tolist())}
    places = [
        (row, place_of[one])
        for row, classes in enumerate(true.tolist())
        for one in classes
        if one in place_of
    ]
    rows = np.asarray([row for row, _ in places], np.int32)
    numbers = np.asarray([place for _, place in places], np.int64)
    return Tensor(rows), Tensor(numbers), Tensor(np.full(len(rows), np.finfo(np.float32).min))
