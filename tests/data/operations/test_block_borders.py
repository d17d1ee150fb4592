"""Operations where blocks of elements begin and end: what falls on a border is neither lost nor
doubled."""

import numpy as np
import pytest

from drumline.data import Dataset


def stream(start, stop):
    """Numbers that come in blocks of a compiled map; the one that is 6 fails within its block."""
    kept = Dataset.range(start, stop).filter(lambda v: v >= 0)
    return kept.map(lambda v: v + 0 * (1 // (v - 6)))


def outcomes(iterator):
    found = []
    while True:
        try:
            found.append(np.asarray(next(iterator)).tolist())
        except StopIteration:
            return found
        except ZeroDivisionError:
            found.append("failed")


@pytest.mark.parametrize("batch", [Dataset.batch, Dataset.padded_batch, Dataset.ragged_batch])
def test_an_error_right_behind_a_batch_takes_nothing_of_it(batch):
    joined = stream(0, 2).concatenate(stream(4, 10))
    assert outcomes(iter(batch(joined, 4))) == [[0, 1, 4, 5], "failed", [7, 8, 9]]
    assert outcomes(iter(batch(joined, 5))) == ["failed", [7, 8, 9]]


def test_no_more_batches_come_than_are_taken():
    numbers = Dataset.range(900).filter(lambda v: v >= 0).map(lambda v: v + 1)
    assert [b.tolist() for b in numbers.batch(2).take(3)] == [[1, 2], [3, 4], [5, 6]]


def test_a_pass_that_was_resumed_midway_does_not_fill_a_cache():
    def kept(v):
        return v >= 0

    iterator = iter(Dataset.range(9).filter(kept).cache())
    for _ in range(4):
        next(iterator)
    dataset = Dataset.range(9).filter(kept).cache()
    again = iter(dataset)
    again.restore(iterator.state())
    assert len(list(again)) == 5
    assert [int(v) for v in dataset] == list(range(9))


def test_endless_passes_over_nothing_end():
    nothing = Dataset.range(5).filter(lambda v: v > 9)
    assert list(nothing.repeat()) == []


def test_chosen_elements_of_different_lengths_keep_their_order():
    turns = Dataset.from_tensor_slices(np.array([0, 1, 1, 0, 0, 1]))
    inputs = [Dataset.range(3).batch(1), Dataset.range(6).batch(2)]
    found = Dataset.choose_from_datasets(inputs, turns)
    assert [row.tolist() for row in found] == [[0], [0, 1], [2, 3], [1], [2], [4, 5]]


def test_an_element_that_fails_among_two_shuffled_datasets_costs_no_other():
    failing = Dataset.range(8).map(lambda v: v + 0 * (1 // (v - 6)))
    found = outcomes(iter(failing.concatenate(Dataset.range(20, 28)).shuffle(16, seed=1)))
    assert found.count("failed") == 1
    assert sorted(set(found) - {"failed"}) == [0, 1, 2, 3, 4, 5, 7, *range(20, 28)]
    assert len(found) == 16


def test_a_prefetch_is_restored_and_asked_for_its_state_again():
    def ahead():
        return iter(Dataset.range(30).filter(lambda v: v >= 0).prefetch(3))

    iterator = ahead()
    for expected in range(12):
        again = ahead()
        again.restore(iterator.state())
        iterator = ahead()
        iterator.restore(again.state())
        assert int(next(iterator)) == expected
