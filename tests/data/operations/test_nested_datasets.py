"""Windows, and functions that return datasets; expected numbers are those of TensorFlow 2.21."""

import json

import numpy as np
import pytest

from drumline.data import UNKNOWN_CARDINALITY, Dataset, DatasetSpec, TensorSpec


def ints(dataset):
    return [int(v) for v in dataset]


def outcomes(iterator):
    """Elements, and errors as their texts, up to the end."""
    found = []
    while True:
        try:
            found.append(int(next(iterator)))
        except StopIteration:
            return found
        except ValueError as error:
            found.append(str(error))


def resumed(make, count):
    """What comes after ``count`` positions, from an iterator that was restored there."""
    iterator = iter(make())
    for _ in range(count):
        try:
            next(iterator)
        except ValueError:
            continue
    again = iter(make())
    again.restore(json.loads(json.dumps(iterator.state())))
    return outcomes(again)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((3,), [[0, 1, 2], [3, 4, 5], [6]]),
        ((3, 1, 1, True), [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]),
        ((3, 1, 2, True), [[0, 2, 4], [1, 3, 5], [2, 4, 6]]),
        ((3, 2, 2), [[0, 2, 4], [2, 4, 6], [4, 6], [6]]),
        ((2, 5), [[0, 1], [5, 6]]),
        ((9,), [[0, 1, 2, 3, 4, 5, 6]]),
        ((9, None, 1, True), []),
    ],
)
def test_windows(arguments, expected):
    ds = Dataset.range(7).window(*arguments)
    assert [ints(window) for window in ds] == expected
    assert ds.cardinality() == len(expected)
    stream = Dataset.range(14).filter(lambda v: v < 7).window(*arguments)
    assert [ints(window) for window in stream] == expected


def test_a_window_of_structures_is_a_structure_of_windows():
    ds = Dataset.from_tensor_slices({"a": [1, 2, 3], "b": [b"x", b"y", b"z"]}).window(2)
    spec = DatasetSpec(TensorSpec((), np.int32)), DatasetSpec(TensorSpec((), "string"))
    assert ds.element_spec == {"a": spec[0], "b": spec[1]}
    assert [(ints(w["a"]), list(w["b"])) for w in ds] == [
        ([1, 2], [b"x", b"y"]),
        ([3], [b"z"]),
    ]


def test_windows_of_rows_whose_shapes_differ():
    rows = [np.arange(n) for n in (2, 2, 3, 1)]
    ds = Dataset.from_generator(lambda: iter(rows), output_signature=TensorSpec((None,), np.int64))
    assert [[row.tolist() for row in window] for window in ds.window(3)] == [
        [[0, 1], [0, 1], [0, 1, 2]],
        [[0]],
    ]


def test_windows_in_windows_and_in_maps():
    nested = Dataset.range(5).window(2).window(2)
    assert [[ints(w) for w in windows] for windows in nested] == [[[0, 1], [2, 3]], [[4]]]
    doubled = Dataset.range(5).window(2).map(lambda window: window.batch(2))
    assert doubled.element_spec == DatasetSpec(TensorSpec((None,), np.int64))
    assert [[b.tolist() for b in window] for window in doubled] == [[[0, 1]], [[2, 3]], [[4]]]
    made = Dataset.range(3).map(lambda n: Dataset.range(int(n)))
    assert [ints(inner) for inner in made] == [[], [0], [0, 1]]
    with pytest.raises(TypeError, match="datasets cannot be stacked"):
        list(nested.batch(2))


def failing(value):
    if value == 3:
        raise ValueError("three")
    return value


def test_an_error_in_a_window_is_raised_in_its_place():
    ds = Dataset.range(8).map(lambda v: np.int64(failing(int(v))))
    windows = ds.window(2, shift=2).flat_map(lambda window: window)
    assert outcomes(iter(windows)) == [0, 1, "three", 4, 5, 6, 7]
    assert resumed(lambda: windows, 3) == [4, 5, 6, 7]
    strided = ds.window(3, shift=7, stride=2).flat_map(lambda window: window)
    assert outcomes(iter(strided)) == [0, 2, 4, 7]
    sparse = ds.window(2, shift=8, stride=5).flat_map(lambda window: window)
    assert outcomes(iter(sparse)) == [0, 5]


def test_windows_with_gaps_between_them_resume():
    def make():
        return Dataset.range(24).window(2, shift=5).flat_map(lambda window: window)

    expected = [0, 1, 5, 6, 10, 11, 15, 16, 20, 21]
    for count in range(len(expected) + 1):
        assert resumed(make, count) == expected[count:]


def test_a_state_of_a_longer_source_is_refused():
    count = [5]

    def make(nested):
        ds = Dataset.from_generator(
            lambda: iter(range(count[0])), output_signature=TensorSpec((), np.int64)
        )
        return nested(ds)

    for nested in (
        lambda ds: ds.flat_map(lambda n: Dataset.range(2)),
        lambda ds: ds.group_by_window(lambda n: n, lambda key, window: window, 2),
    ):
        count[0] = 5
        iterator = iter(make(nested))
        for _ in range(5):
            next(iterator)
        state = iterator.state()
        count[0] = 1
        with pytest.raises(ValueError, match="its source is not what it was"):
            iter(make(nested)).restore(state)


def test_flat_map_of_windows():
    ds = Dataset.range(7).window(3, shift=1, drop_remainder=True)
    batches = ds.flat_map(lambda window: window.batch(3, drop_remainder=True))
    assert batches.element_spec == TensorSpec((3,), np.int64)
    assert [b.tolist() for b in batches] == [[i, i + 1, i + 2] for i in range(5)]


def test_interleave_as_the_guide_shows_it():
    ds = Dataset.range(1, 6).interleave(
        lambda x: Dataset.from_tensors(x).repeat(6), cycle_length=2, block_length=4
    )
    assert ints(ds) == (
        [1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5]
    )
    assert ds.cardinality() == UNKNOWN_CARDINALITY


def raising_at(number):
    def make(n):
        if n == number:
            raise ValueError(f"not {number}")
        return Dataset.range(n * 10, n * 10 + 2)

    return make


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda f: Dataset.range(4).flat_map(f), [0, 1, 10, 11, "not 2", 30, 31]),
        (lambda f: Dataset.range(4).interleave(f, 2), [0, 10, 1, 11, "not 2", 30, 31]),
    ],
)
def test_what_the_function_raises_is_raised_in_its_place(make, expected):
    ds = make(raising_at(2))
    assert outcomes(iter(ds)) == expected
    for count in range(len(expected)):
        assert resumed(lambda: make(raising_at(2)), count) == expected[count:]
    with pytest.raises(ValueError, match="not 2") as caught:
        list(ds)
    assert caught.value.element_index == 2
    with pytest.raises(ValueError, match="not 0"):
        make(raising_at(0))


def test_what_the_function_returns_is_checked():
    with pytest.raises(TypeError, match="must return a Dataset, it returned"):
        Dataset.range(3).flat_map(lambda v: v)
    ds = Dataset.range(3).flat_map(
        lambda v: Dataset.range(2) if v < 2 else Dataset.from_tensors(np.float32(1))
    )
    with pytest.raises(ValueError, match="its datasets so far have"):
        list(ds)
    longer = Dataset.range(1, 4).flat_map(lambda n: Dataset.from_tensors(np.arange(n)))
    assert longer.element_spec == TensorSpec((None,), np.int64)
    assert [len(row) for row in longer] == [1, 2, 3]
    with pytest.raises(ValueError, match="cycle_length must be at least 1"):
        Dataset.range(3).interleave(lambda v: Dataset.range(3), cycle_length=0)


def test_seeds_drawn_inside_follow_from_the_epoch_and_the_element():
    def make():
        return Dataset.range(4).interleave(lambda n: Dataset.range(20).shuffle(20), 2, 3)

    ds = make()
    first, second = ints(ds), ints(ds)
    assert first != second
    assert first[:3] != first[3:6]
    iterator = iter(ds)
    for _ in range(33):
        next(iterator)
    state, rest = json.loads(json.dumps(iterator.state())), ints(iterator)
    again = iter(ds)
    again.restore(state)
    assert ints(again) == rest
    elsewhere = iter(make())
    elsewhere.restore(state)
    assert ints(elsewhere) == rest


def test_generators_inside_and_outside_are_not_read_ahead():
    read = []

    def numbers(name, count):
        for i in range(count):
            read.append((name, i))
            yield i

    def generated(name):
        return Dataset.from_generator(
            lambda: numbers(name, 3), output_signature=TensorSpec((), np.int64)
        )

    ds = generated("outer").interleave(lambda n: generated(int(n)), cycle_length=2)
    read.clear()
    iterator = iter(ds)
    for _ in range(3):
        next(iterator)
    assert read == [("outer", 0), (0, 0), ("outer", 1), (1, 0), (0, 1)]


def test_reading_ahead_on_threads_changes_nothing():
    def make(calls):
        return Dataset.range(9).interleave(
            lambda n: Dataset.range(n * 100, n * 100 + n),
            cycle_length=3,
            block_length=2,
            num_parallel_calls=calls,
        )

    expected = ints(make(None))
    for calls in (1, 2, -1):
        assert ints(make(calls)) == expected
        assert resumed(lambda calls=calls: make(calls), 17) == expected[17:]


def test_a_take_opens_nothing_past_it():
    opened = []

    def make(n):
        opened.append(int(n))
        return Dataset.range(2)

    ds = Dataset.range(5).flat_map(make).take(4)
    opened.clear()
    assert ints(ds) == [0, 1, 0, 1]
    assert opened == [0, 1]


def test_empty_and_endless_datasets():
    assert ints(Dataset.range(0).flat_map(lambda v: Dataset.range(3))) == []
    assert list(Dataset.range(0).window(3).flat_map(lambda window: window)) == []
    assert ints(Dataset.range(3).interleave(lambda v: Dataset.range(0))) == []
    endless = Dataset.range(2).interleave(lambda v: Dataset.from_tensors(v).repeat(), 2)
    assert ints(endless.take(5)) == [0, 1, 0, 1, 0]
    forever = Dataset.range(3).repeat().flat_map(lambda v: Dataset.range(v))
    assert ints(forever.take(7)) == [0, 0, 1, 0, 0, 1, 0]


def test_caches_inside_are_filled_and_served():
    calls = []

    def count(value):
        calls.append(int(value))
        return np.int64(int(value))

    inner = Dataset.range(3).map(count).cache()
    ds = Dataset.range(2).flat_map(lambda v: inner)
    calls.clear()
    assert ints(ds) == [0, 1, 2, 0, 1, 2]
    assert ints(ds) == [0, 1, 2, 0, 1, 2]
    assert calls == [0, 1, 2]


def test_explain_names_the_function():
    text = Dataset.range(3).window(2).flat_map(lambda w: w.take(2), name="flat").explain()
    assert "window(2, shift=2, stride=1, drop_remainder=False)" in text
    assert "called as Python" in text
    assert "flat" in text


def test_padded_batches_of_short_windows():
    windows = Dataset.from_tensor_slices(np.ones((4, 2), np.float32)).window(2)
    padded = [e.tolist() for e in windows.flat_map(lambda w: w.padded_batch(2, [3]))]
    assert padded == [[[1, 1, 0], [1, 1, 0]]] * 2
    grouped = Dataset.from_tensor_slices(np.ones((2, 2), np.float32)).group_by_window(
        lambda row: 0, lambda key, w: w.padded_batch(1, [3]), 1
    )
    assert [e.tolist() for e in grouped] == [[[1, 1, 0]]] * 2
