"""``group_by_window`` and ``bucket_by_sequence_length``; numbers are those of TensorFlow 2.21."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.data import Dataset, RaggedArray, TensorSpec

SEQUENCES = [[0], [1, 2, 3, 4], [5, 6, 7], [7, 8, 9, 10, 11], [13, 14, 15, 16, 19, 20], [21, 22]]


def sequences():
    return Dataset.from_generator(
        lambda: [np.array(s) for s in SEQUENCES], output_signature=TensorSpec((None,), np.int64)
    )


def lists(dataset):
    return [element.tolist() for element in dataset]


def by_hand(items, keys, sizes):
    """Groups in the order in which they are full, then the others by key."""
    waiting, found = {}, []
    for item, key in zip(items, keys, strict=True):
        group = waiting.setdefault(key, [])
        group.append(item)
        if len(group) == sizes[key]:
            found.append(waiting.pop(key))
    return found + [waiting[key] for key in sorted(waiting)]


@given(
    st.lists(st.integers(-2, 2), max_size=60),
    st.lists(st.integers(1, 5), min_size=5, max_size=5),
    st.sampled_from(["compiled", "python", "stream"]),
    st.integers(0, 40),
)
def test_windows_by_key(keys, numbers, how, stop):
    sizes = dict(zip(range(-2, 3), numbers, strict=True))
    columns = np.arange(len(keys)), np.array(keys, np.int64)

    def make():
        ds = Dataset.from_tensor_slices(columns)
        ds = ds.filter(lambda i, key: True) if how == "stream" else ds
        key = (lambda i, key: int(key)) if how == "python" else (lambda i, key: key)
        return ds.group_by_window(
            key, lambda key, window: window.batch(9), window_size_func=lambda key: sizes[int(key)]
        )

    expected = by_hand(range(len(keys)), keys, sizes)
    iterator = iter(make())
    found = [next(iterator)[0].tolist() for _ in range(min(stop, len(expected)))]
    again = iter(make())
    again.restore(json.loads(json.dumps(iterator.state())))
    assert found + [rows.tolist() for rows, _ in again] == expected


def test_group_by_window_as_the_guide_shows_it():
    ds = Dataset.range(10).group_by_window(
        lambda v: v % 2, lambda key, window: window.batch(5), window_size=5
    )
    assert lists(ds) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]
    assert (
        Dataset.range(2)
        .repeat()
        .group_by_window(lambda v: v, lambda key, window: window, 1)
        .cardinality()
        == -1
    )


def test_errors_of_elements_keys_and_windows_come_in_their_place():
    def key(value):
        if value == 4:
            raise ValueError("key")
        return int(value) % 2

    def reduce(key, window):
        values = [int(v) for v in window]
        if 3 in values:
            raise ValueError("window")
        return Dataset.from_tensors(sum(values))

    iterator = iter(Dataset.range(10).group_by_window(key, reduce, 2))
    found = []
    while True:
        try:
            found.append(int(next(iterator)))
        except StopIteration:
            break
        except ValueError as error:
            found.append(str(error))
    assert found == [0 + 2, "window", "key", 5 + 7, 6 + 8, 9]


@pytest.mark.parametrize("stop", [8, 11, 27])
def test_orders_drawn_for_a_window_follow_from_its_number(stop):
    ds = Dataset.range(48).group_by_window(lambda v: v % 2, lambda key, w: w.shuffle(6), 6)
    iterator = iter(ds)
    head = [int(next(iterator)) for _ in range(stop)]
    again = iter(ds)
    again.restore(json.loads(json.dumps(iterator.state())))
    rest = lists(iterator)
    assert lists(again) == rest
    windows = np.reshape(head + rest, (8, 6))
    assert (np.sort(windows) != windows).any()


def test_wrong_arguments():
    ds = Dataset.range(3)
    for sizes in ({}, {"window_size": 2, "window_size_func": lambda key: 2}):
        with pytest.raises(ValueError, match="either window_size or window_size_func"):
            ds.group_by_window(lambda v: v, lambda key, window: window, **sizes)
    with pytest.raises(TypeError, match="must return one integer"):
        ds.group_by_window(lambda v: v / 2, lambda key, window: window, 2)
    with pytest.raises(ValueError, match="must be positive"):
        list(ds.group_by_window(lambda v: v, lambda key, w: w, window_size_func=lambda key: 0))
    with pytest.raises(ValueError, match="2 boundaries make 3 buckets"):
        sequences().bucket_by_sequence_length(len, [3, 5], [2, 2])
    with pytest.raises(ValueError, match="must ascend"):
        sequences().bucket_by_sequence_length(len, [5, 3], [2, 2, 2])


def test_buckets():
    ds = sequences().bucket_by_sequence_length(lambda s: s.shape[0], [3, 5], [2, 2, 2])
    assert ds.element_spec == TensorSpec((None, None), np.int64)
    assert lists(ds) == [
        [[1, 2, 3, 4], [5, 6, 7, 0]],
        [[7, 8, 9, 10, 11, 0], [13, 14, 15, 16, 19, 20]],
        [[0, 0], [21, 22]],
    ]


def test_buckets_padded_to_their_boundary():
    def bucketed(boundaries):
        return sequences().bucket_by_sequence_length(
            len,
            boundaries,
            [2] * (len(boundaries) + 1),
            padding_values=np.int64(-1),
            pad_to_bucket_boundary=True,
        )

    assert lists(bucketed([3, 5, 8])) == [
        [[1, 2, 3, 4], [5, 6, 7, -1]],
        [[7, 8, 9, 10, 11, -1, -1], [13, 14, 15, 16, 19, 20, -1]],
        [[0, -1], [21, 22]],
    ]
    with pytest.raises(ValueError, match=r"shorter than the last boundary \(5\)"):
        list(bucketed([3, 5]))


def test_buckets_without_padding_and_without_remainders():
    rows = np.arange(12).reshape(6, 2)
    lengths = np.array([1, 9, 1, 5, 9, 9], np.int32)
    ds = Dataset.from_tensor_slices((rows, lengths)).bucket_by_sequence_length(
        lambda row, length: length, [5], [4, 2], no_padding=True, drop_remainder=True
    )
    assert ds.element_spec[0] == TensorSpec((None, 2), np.int64)
    assert [batch.tolist() for batch, _ in ds] == [[[2, 3], [6, 7]], [[8, 9], [10, 11]]]


def test_ragged_rows_travel_as_blocks_and_states_stay_small():
    rows = [np.arange(n) for n in np.random.default_rng(0).integers(1, 50, 300)]

    def make():
        ds = Dataset.from_tensor_slices(RaggedArray.from_rows(rows))
        return ds.bucket_by_sequence_length(len, [10, 20, 30], [8, 8, 4, 4])

    expected = lists(make())
    generated = Dataset.from_generator(
        lambda: iter(rows), output_signature=TensorSpec((None,), np.int64)
    ).bucket_by_sequence_length(len, [10, 20, 30], [8, 8, 4, 4])
    assert lists(generated) == expected
    iterator = iter(make())
    for _ in range(23):
        next(iterator)
    state = json.dumps(iterator.state())
    assert len(state) < 1500
    again = iter(make())
    again.restore(json.loads(state))
    assert lists(again) == expected[23:]


def test_shapes_may_depend_on_the_key():
    rows = Dataset.range(10).map(lambda v: np.full(int(v), int(v)))
    ds = rows.group_by_window(
        lambda row: np.size(row) // 4,
        lambda key, window: window.padded_batch(4, padded_shapes=[(key + 1) * 10]),
        window_size=4,
    )
    assert ds.element_spec == TensorSpec((None, None), np.int64)
    assert [batch.shape for batch in ds] == [(4, 10), (4, 20), (2, 30)]


def test_a_signature_says_which_shapes_depend_on_the_key():
    widths = {0: 3, 5: 10}

    def padded(key, window):
        return window.map(lambda v: np.zeros(widths[int(key)])).batch(4)

    ds = Dataset.range(8)
    signature = TensorSpec((None, None), np.float64)
    made = ds.group_by_window(lambda v: v % 2 * 5, padded, 4, output_signature=signature)
    assert made.element_spec == signature
    assert [batch.shape for batch in made] == [(4, 3), (4, 10)]
    with pytest.raises(ValueError, match="output_signature say which dimensions vary"):
        list(ds.group_by_window(lambda v: v % 2 * 5, padded, 4))
    wrong = TensorSpec((None, 7), np.float64)
    with pytest.raises(ValueError, match="output_signature says"):
        ds.group_by_window(lambda v: v % 2 * 5, padded, 4, output_signature=wrong)


def group_calls(function, size=3):
    """The elements of windows, and how often the function was called for them."""
    calls = []

    def counted(key, window):
        calls.append(key)
        return function(key, window)

    ds = Dataset.range(24).group_by_window(lambda v: v % 4, counted, size)
    del calls[:]
    return [batch.tolist() for batch in ds], len(calls)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("drop", [False, True])
def test_windows_that_are_only_batched_are_those_of_calls(size, drop):
    def batched(key, window):
        return window.batch(size, drop_remainder=drop)

    # One that notes its calls is not taken for one that does nothing else.
    expected, calls = group_calls(batched)
    assert calls == 8
    ds = Dataset.range(24).group_by_window(lambda v: v % 4, batched, 3)
    assert [batch.tolist() for batch in ds] == expected
    for count in range(0, len(expected) + 1, 3):
        iterator = iter(ds)
        head = [next(iterator).tolist() for _ in range(count)]
        state = json.loads(json.dumps(iterator.state()))
        again = iter(Dataset.range(24).group_by_window(lambda v: v % 4, batched, 3))
        again.restore(state)
        assert head + [batch.tolist() for batch in again] == expected


def test_a_function_that_only_batches_is_not_called_for_each_window(monkeypatch):
    ds = Dataset.range(24).group_by_window(lambda v: v % 4, lambda key, w: w.batch(3), 3)
    monkeypatch.setattr(type(ds._plan.function), "__call__", None)
    assert len(list(ds)) == 8


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes, as users have them in one place."""

    size: int
    names: tuple[str, ...] = ("a",)


@dataclasses.dataclass(frozen=True)
class Computed(Config):
    """Sizes of which one may be another at each call."""

    @property
    def again(self) -> int:
        return self.size


@dataclasses.dataclass
class Changing:
    """Sizes that may be set."""

    size: int


def test_a_frozen_dataclass_is_as_good_as_its_numbers(monkeypatch):
    config = Config(3)
    others = [Computed(3), Changing(3), Config(3, [object()])]

    def windows(config):
        return Dataset.range(24).group_by_window(
            lambda v: v % 4, lambda key, w: w.batch(config.size), 3
        )

    expected = lists(windows(config))
    assert all(windows(other)._plan.function.batched is None for other in others)
    assert all(lists(windows(other)) == expected for other in others)
    ds = windows(config)
    monkeypatch.setattr(type(ds._plan.function), "__call__", None)
    assert lists(ds) == expected


def test_functions_that_use_the_key_or_change_are_called():
    sizes = iter([3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    changing = Dataset.range(24).group_by_window(
        lambda v: v % 4, lambda key, w: w.batch(next(sizes)), 3, output_signature=spec_of_batches()
    )
    assert [len(batch) for batch in changing][-1] == 1
    by_key = Dataset.range(24).group_by_window(
        lambda v: v % 4, lambda key, w: w.batch(int(key) + 1), 3, output_signature=spec_of_batches()
    )
    found = [batch.tolist() for batch in by_key]
    assert [len(batch) for batch in found[:8]] == [1, 1, 1, 2, 1, 3, 3, 1]


def spec_of_batches():
    return TensorSpec((None,), np.int64)
