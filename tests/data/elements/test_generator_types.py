"""``from_generator`` as older guides spell it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec


def rows() -> Iterator[Any]:
    for index in range(3):
        yield np.full(4, index, np.float64), {"id": index}


def test_types_and_shapes() -> None:
    types = (np.float32, {"id": np.int32})
    dataset = Dataset.from_generator(rows, types, ([4], {"id": ()}))
    assert dataset.element_spec == (TensorSpec((4,)), {"id": TensorSpec((), np.int32)})
    assert [(a.dtype, a.tolist(), int(b["id"])) for a, b in dataset] == [
        (np.float32, [index] * 4, index) for index in range(3)
    ]
    single = Dataset.from_generator(lambda: [[1, 2]], output_types=np.int64, output_shapes=(None,))
    assert single.element_spec == TensorSpec((None,), np.int64)


def test_arguments_of_the_generator() -> None:
    def count(start: Any, step: Any) -> Iterator[Any]:
        assert isinstance(start, np.ndarray) and isinstance(step, np.ndarray)
        yield from (int(start), int(start + step))

    def made(step: int) -> Dataset:
        return Dataset.from_generator(count, np.int32, (), args=(5, step))

    assert [int(v) for v in made(2)] == [5, 7]
    state = iter(made(2)).state()
    iter(made(2)).restore(state)
    with pytest.raises(ValueError, match="another dataset"):
        iter(made(3)).restore(state)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "needs output_signature"),
        ({"output_types": np.int32}, TypeError, "no tensors of unknown rank"),
        (
            {"output_signature": TensorSpec(()), "output_types": np.int32},
            TypeError,
            "output_signature alone",
        ),
        (
            {"output_types": (np.int32, np.int32), "output_shapes": ((),)},
            ValueError,
            "do not have the structure",
        ),
    ],
)
def test_what_is_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        Dataset.from_generator(rows, **arguments)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.1, "float64"),
        ([0.1, 0.2], "float64"),
        (0.1 + 0.2j, "complex128"),
        (16777217.0000001, "float32"),
        (1 / 3, "float16"),
        (2**40 + 1, "float64"),
        (255, "uint8"),
        (np.int32(3), "uint8"),
        (2**63 - 1, "uint64"),
        (np.inf, "float32"),
    ],
)
def test_numbers_keep_their_digits(value: Any, dtype: str) -> None:
    """As tf.data gives them: ``np.asarray(value, dtype)``."""
    signature = TensorSpec([None] * np.ndim(value), dtype)
    (found,) = Dataset.from_generator(lambda: [value], output_signature=signature)
    expected = np.asarray(value, dtype)
    assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


@pytest.mark.parametrize(
    ("value", "dtype", "named"),
    [
        (-1, "uint8", "uint8: -1;"),
        ([3, 256], "uint8", "uint8: 256;"),
        (np.uint64(2**63), "int64", f"int64: {2**63};"),
        (1e300, "float32", r"float32: 1e\+300;"),
        (np.array([0.1, -1e300, np.inf]), "float32", r"float32: -1e\+300;"),
        (0.5, "int32", r"element\['a'\] has dtype float64"),
        ([0], "int32", r"element\['a'\] has shape \(1,\)"),
        (object(), "int32", r"element\['a'\]: cannot make a column of object"),
    ],
)
def test_what_does_not_fit_is_named(value: Any, dtype: str, named: str) -> None:
    def generator() -> Iterator[Any]:
        yield {"a": value}

    rank = 0 if type(value) is list and value == [0] else np.ndim(value)
    signature = {"a": TensorSpec([None] * rank, dtype)}
    with pytest.raises((TypeError, ValueError), match=named) as caught:
        list(Dataset.from_generator(generator, output_signature=signature))
    line = generator.__code__.co_firstlineno
    assert f"generator (test_generator_types.py:{line}))" in caught.value.__notes__[0]


def test_tuples_in_the_place_of_an_array_are_one() -> None:
    """As guides yield them."""

    def generator() -> Iterator[Any]:
        yield (1,), [("a",), ("b",)]

    signature = (TensorSpec((1,), np.int64), TensorSpec((2, 1), "string"))
    ((number, names),) = Dataset.from_generator(generator, output_signature=signature)
    assert (number.tolist(), names.tolist()) == ([1], [[b"a"], [b"b"]])
    wrong = Dataset.from_generator(generator, output_signature=(TensorSpec(()), signature[1]))
    with pytest.raises(
        TypeError, match=r"expected the structure \* at element\[0\], found \(\*,\)"
    ):
        next(iter(wrong))
