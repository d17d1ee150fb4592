"""ShuffleIndices against the shuffle buffer written in plain Python."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._core import ShuffleIndices, mix64
from tests.core import shuffle_reference as reference

keys = st.integers(0, 2**64 - 1)
sizes = st.integers(1, 60)
lengths = st.integers(0, 80)
instalments = st.lists(st.integers(0, 30), max_size=8)


@given(keys, sizes, lengths, instalments)
def test_instalments_give_the_reference_order(
    key: int, size: int, length: int, parts: list[int]
) -> None:
    shuffle = ShuffleIndices(key, size, length)
    rows = np.concatenate([shuffle.next(k) for k in [*parts, length]])
    assert rows.dtype == np.int64
    assert rows.tolist() == reference.shuffled(key, size, length)
    assert shuffle.emitted == length
    assert shuffle.next(5).shape == (0,)


@given(keys, sizes, lengths, instalments)
def test_skipping_equals_emitting(key: int, size: int, length: int, parts: list[int]) -> None:
    skipping, emitting = (ShuffleIndices(key, size, length) for _ in range(2))
    for k in parts:
        assert skipping.skip(k) == len(emitting.next(k))
        assert skipping.emitted == emitting.emitted
    assert skipping.next(length).tolist() == emitting.next(length).tolist()


@given(keys, sizes, lengths, st.integers(0, 80))
def test_a_length_found_later_changes_nothing(
    key: int, size: int, length: int, before: int
) -> None:
    stream = ShuffleIndices(key, size)
    possible = min(before, max(0, length - size + 1))
    assert stream.needed(possible) <= length
    rows = stream.next(possible).tolist()
    stream.set_length(length)
    rows += stream.next(length).tolist()
    assert rows == ShuffleIndices(key, size, length).next(length).tolist()


def test_needed_counts_rows_from_the_start() -> None:
    stream = ShuffleIndices(1, 10)
    assert [stream.needed(k) for k in (0, 1, 5)] == [0, 10, 14]
    stream.skip(5)
    assert [stream.needed(k) for k in (0, 1)] == [14, 15]
    assert ShuffleIndices(1, 10, 4).needed(3) == 4


def test_a_length_that_contradicts_the_past_is_refused() -> None:
    stream = ShuffleIndices(1, 10)
    stream.skip(3)
    with pytest.raises(ValueError, match="length is 11; it must be at least 12"):
        stream.set_length(11)
    stream.set_length(12)
    stream.set_length(12)
    with pytest.raises(ValueError, match="length is 13; it must be 12"):
        stream.set_length(13)


def test_first_places_of_a_full_shuffle_are_uniform() -> None:
    rows, trials = 8, 16_000
    counts = np.zeros((rows, rows))
    for trial in range(trials):
        counts[np.arange(rows), ShuffleIndices(mix64(3, trial), rows, rows).next(rows)] += 1
    expected = trials / rows
    chi_square = ((counts - expected) ** 2 / expected).sum()
    # 49 degrees of freedom: the mean is 49 and the standard deviation 10.
    assert 15 < chi_square < 100


def test_a_small_buffer_emits_from_its_window_uniformly() -> None:
    size, trials = 5, 10_000
    first = [int(ShuffleIndices(mix64(4, i), size, 50).next(1)[0]) for i in range(trials)]
    counts = np.bincount(first, minlength=size)
    assert len(counts) == size
    assert ((counts - trials / size) ** 2 / (trials / size)).sum() < 25


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1, 0, 5), ValueError, "buffer_size is 0"),
        ((1, -2, 5), ValueError, "buffer_size is -2"),
        ((1, 5, -1), ValueError, "length is -1"),
        ((-1, 5, 5), OverflowError, "int"),
        ((2**64, 5, 5), OverflowError, "int"),
        ((1, 1.5, 5), TypeError, "buffer_size"),
    ],
)
def test_impossible_arguments(
    arguments: tuple[int, int, int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ShuffleIndices(*arguments)


def test_negative_counts_are_refused() -> None:
    shuffle = ShuffleIndices(1, 5, 5)
    for method in (shuffle.next, shuffle.skip, shuffle.needed):
        with pytest.raises(ValueError, match="k is -1; it must be at least 0"):
            method(-1)


def test_a_buffer_beyond_memory_is_an_error_that_harms_nothing() -> None:
    stream = ShuffleIndices(1, 2**62)
    with pytest.raises(MemoryError, match="smaller buffer_size"):
        stream.next(1)
    stream.set_length(4)
    assert sorted(stream.next(9).tolist()) == [0, 1, 2, 3]


def test_threads_share_one_order() -> None:
    shuffle = ShuffleIndices(9, 1000, 20_000)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: shuffle.next(100), range(200)))
    assert np.sort(np.concatenate(parts)).tolist() == list(range(20_000))


@given(keys, keys)
def test_mix64_is_the_reference_hash(a: int, b: int) -> None:
    assert mix64(a, b) == reference.mix64(a, b)


def test_mix64_depends_on_the_order_of_its_arguments() -> None:
    assert mix64(1, 2) != mix64(2, 1)
