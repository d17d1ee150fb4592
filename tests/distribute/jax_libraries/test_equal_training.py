"""Loops of optax, flax and equinox users give one device's numbers, whatever the last batch."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.distribute.jax_libraries.programs import BATCH, PROGRAMS, assert_equal_to_one_device

pytestmark = pytest.mark.usefixtures("quick_compilation")  # most of what these tests cost


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_last_batch_of_one_row(name: str) -> None:
    """The other replica has no row of it, in every epoch."""
    assert_equal_to_one_device(name, 2, 2 * BATCH + 1, 2, compiled=False)


@pytest.mark.parametrize("name", ["optax", "flax.nnx"])
def test_in_a_function(name: str) -> None:
    assert_equal_to_one_device(name, 4, BATCH + 2, 2, compiled=True)


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("replicas", "last"),
    [(1, 3), *itertools.product([2, 4], [0, 1, 3, 5])],  # one replica has all rows of any batch
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_way(name: str, replicas: int, last: int, compiled: bool) -> None:
    assert_equal_to_one_device(name, replicas, 2 * BATCH + last, 2, compiled=compiled)


@settings(max_examples=3)
@given(
    replicas=st.sampled_from([2, 4]),
    count=st.integers(1, 3 * BATCH),
    epochs=st.integers(1, 3),
    compiled=st.booleans(),
)
def test_any_number_of_rows(replicas: int, count: int, epochs: int, compiled: bool) -> None:
    assert_equal_to_one_device("jax alone", replicas, count, epochs, compiled=compiled)
