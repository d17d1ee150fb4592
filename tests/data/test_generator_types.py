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
