"""``sample_from_datasets``, ``choose_from_datasets`` and ``rejection_resample``."""

import functools
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.data import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset


def ints(iterable):
    return [int(v) for v in iterable]


def constants(*values):
    return [Dataset.from_tensor_slices(np.full(20_000, v)) for v in values]


def choices(*numbers):
    return Dataset.from_tensor_slices(np.array(numbers, np.int64))


def drawn(inputs, numbers, stop):
    """The rule, element by element: what comes, and how many draws that took."""
    left = [list(items) for items in inputs]
    found = []
    alive = len(left)
    ended = [False] * len(left)
    for number in numbers:
        if left[number]:
            found.append(left[number].pop(0))
        elif not ended[number]:
            ended[number] = True
            alive -= 1
            if stop or not alive:
                break
    return found


shapes = st.lists(
    st.tuples(st.integers(0, 25), st.sampled_from(["slices", "filtered", "mapped"])),
    min_size=1,
    max_size=4,
)


@functools.cache
def source(i, count, how):
    ds = Dataset.range(100 * i, 100 * i + 25)
    if how == "filtered":
        ds = ds.filter(lambda v: v % 3 > 0)
    return (ds.map(lambda v: np.int64(int(v))) if how == "mapped" else ds).take(count)


def inputs_of(shape):
    return [source(i, count // 5 * 5, how) for i, (count, how) in enumerate(shape)]


@given(shapes, st.lists(st.integers(0, 3), max_size=80), st.booleans(), st.integers(0, 60))
def test_choosing_is_like_drawing_one_by_one(shape, numbers, stop, count):
    numbers = [number % len(shape) for number in numbers]
    inputs = inputs_of(shape)
    ds = Dataset.choose_from_datasets(inputs, choices(*numbers), stop)
    expected = drawn([ints(part) for part in inputs], numbers, stop)
    iterator = iter(ds)
    head = ints(next(iterator) for _ in range(min(count, len(expected))))
    again = iter(ds)
    again.restore(json.loads(json.dumps(iterator.state())))
    assert head + ints(again) == expected


@given(shapes, st.booleans(), st.integers(0, 3), st.integers(0, 60))
def test_samples_keep_each_order_and_resume(shape, stop, seed, count):
    def make():
        return Dataset.sample_from_datasets(inputs_of(shape), seed=seed, stop_on_empty_dataset=stop)

    inputs = [ints(part) for part in inputs_of(shape)]
    found = ints(make())
    for i, items in enumerate(inputs):
        mine = [v for v in found if v // 100 == i]
        assert mine == items[: len(mine)]
        assert stop or len(mine) == len(items)
    iterator = iter(make())
    head = ints(next(iterator) for _ in range(min(count, len(found))))
    again = iter(make())
    again.restore(json.loads(json.dumps(iterator.state())))
    assert head + ints(again) == found


def test_draws_have_the_weights():
    n = 20_000
    counts = Counter(ints(Dataset.sample_from_datasets(constants(0, 1, 2), [1, 3, 6], 5).take(n)))
    for value, share in enumerate((0.1, 0.3, 0.6)):
        assert abs(counts[value] / n - share) < 5 * (share * (1 - share) / n) ** 0.5
    rows = np.array([[1, 0, 0], [0, 0.5, 0.5]])
    varying = Dataset.from_tensor_slices(np.tile(rows, (n // 2, 1)))
    found = ints(Dataset.sample_from_datasets(constants(0, 1, 2), varying, 5).take(n))
    assert set(found[::2]) == {0}
    assert abs(Counter(found)[1] / n - 0.25) < 0.02


def test_epochs_draw_alike_unless_told_otherwise():
    def twice(again):
        ds = Dataset.sample_from_datasets(
            constants(0, 1), seed=1, rerandomize_each_iteration=again
        ).take(40)
        return ints(ds), ints(ds)

    for again in (None, False):
        first, second = twice(again)
        assert first == second
    first, second = twice(True)
    assert first != second


def test_shuffled_inputs_of_one_seed_have_orders_of_their_own():
    inputs = [Dataset.range(20).shuffle(20, seed=3).map(lambda v, i=i: v + 100 * i) for i in (0, 1)]
    found = ints(Dataset.sample_from_datasets(inputs, seed=1))
    assert [v for v in found if v < 100] != [v - 100 for v in found if v >= 100]


def test_degenerate_weights():
    inputs = [Dataset.range(3), Dataset.range(10, 12)]
    assert ints(Dataset.sample_from_datasets(inputs, [0.0, 1.0])) == [10, 11]
    assert ints(Dataset.sample_from_datasets(inputs, [0.0, 0.0])) == []
    assert ints(Dataset.sample_from_datasets(inputs[:1])) == [0, 1, 2]
    for weights in ([1.0], [-1.0, 2.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights"):
            Dataset.sample_from_datasets(inputs, weights)
    rows = Dataset.from_tensor_slices(np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]))
    iterator = iter(Dataset.sample_from_datasets(inputs, rows))
    assert int(next(iterator)) == 10
    with pytest.raises(ValueError, match="weights of draw 1"):
        next(iterator)
    assert ints(iterator) == [0]
    with pytest.raises(TypeError, match=r"float vectors \(2,\)"):
        Dataset.sample_from_datasets(inputs, Dataset.range(3))


def test_a_choice_that_names_no_dataset_is_an_error_in_its_place():
    ds = Dataset.choose_from_datasets([Dataset.range(3), Dataset.range(10, 13)], choices(0, 2, 1))
    iterator = iter(ds)
    assert int(next(iterator)) == 0
    with pytest.raises(IndexError, match="element 1 chooses dataset 2, but there are 2"):
        next(iterator)
    assert ints(iterator) == [10]
    with pytest.raises(TypeError, match="int64 scalars"):
        Dataset.choose_from_datasets([Dataset.range(3)], Dataset.range(3, output_type=np.int32))
    with pytest.raises(TypeError, match="dataset 1"):
        Dataset.sample_from_datasets([Dataset.range(3), Dataset.from_tensors(np.float32(1))])
    with pytest.raises(ValueError, match="at least one dataset"):
        Dataset.sample_from_datasets([])


def test_an_error_of_an_input_comes_at_its_draw():
    def checked(value):
        if value == 1:
            raise ValueError("one")
        return np.int64(int(value))

    failing = Dataset.range(3).map(checked)
    ds = Dataset.choose_from_datasets([failing, Dataset.range(10, 14)], choices(1, 0, 1, 0, 1, 0))
    iterator = iter(ds)
    assert ints(next(iterator) for _ in range(3)) == [10, 0, 11]
    with pytest.raises(ValueError, match="one"):
        next(iterator)
    again = iter(ds)
    again.restore(iterator.state())
    assert ints(iterator) == ints(again) == [12, 2]


def test_inputs_whose_shapes_differ():
    inputs = [Dataset.from_tensors(np.zeros(n)).repeat(2) for n in (1, 2)]
    ds = Dataset.choose_from_datasets(inputs, choices(0, 1, 1, 0))
    assert ds.element_spec.shape == (None,)
    assert [len(row) for row in ds] == [1, 2, 2, 1]


def test_generators_are_not_read_ahead():
    read = []

    def numbers(name):
        for i in range(5):
            read.append((name, i))
            yield i

    inputs = [
        Dataset.from_generator(
            lambda name=name: numbers(name), output_types=np.int64, output_shapes=()
        )
        for name in "ab"
    ]
    iterator = iter(Dataset.choose_from_datasets(inputs, choices(0, 0, 1, 0)))
    read.clear()
    for _ in range(3):
        next(iterator)
    assert read == [("a", 0), ("a", 1), ("b", 0)]


def test_cardinalities():
    three, endless = Dataset.range(3), Dataset.range(3).repeat()

    def sampled(*inputs, stop=False):
        return Dataset.sample_from_datasets(inputs, stop_on_empty_dataset=stop).cardinality()

    assert sampled(three, three) == UNKNOWN_CARDINALITY
    assert sampled(three) == 3
    assert sampled(three, endless) == INFINITE_CARDINALITY
    assert sampled(three, endless, stop=True) == UNKNOWN_CARDINALITY
    assert sampled(endless, endless, stop=True) == INFINITE_CARDINALITY
    chosen = Dataset.choose_from_datasets([endless, endless], Dataset.range(2))
    assert chosen.cardinality() == UNKNOWN_CARDINALITY


@pytest.mark.parametrize("initial", [[0.6, 0.4], None])
@pytest.mark.parametrize("target", [[0.5, 0.5], [0.9, 0.1], [1.0, 0.0]])
def test_resampled_classes_have_the_shares(initial, target):
    classes = np.random.default_rng(0).choice(2, size=20_000, p=[0.6, 0.4])

    def make():
        ds = Dataset.from_tensor_slices((classes, np.arange(len(classes))))
        return ds.rejection_resample(lambda kind, i: kind, target, initial, seed=1)

    iterator = iter(make())
    head = [next(iterator) for _ in range(101)]
    state = json.loads(json.dumps(iterator.state()))
    tail = list(iterator)
    found = head + tail
    assert all(classes[i] == kind == again for kind, (again, i) in found)
    share = sum(kind == 0 for kind, _ in found) / len(found)
    assert abs(share - target[0]) < 0.02
    resumed = iter(make())
    resumed.restore(state)
    assert list(resumed) == tail


def test_resampling_checks_its_arguments():
    ds = Dataset.range(4)
    with pytest.raises(TypeError, match="must return one integer"):
        ds.rejection_resample(lambda v: v / 2, [0.5, 0.5])
    with pytest.raises(ValueError, match="2 classes, initial_dist 3"):
        ds.rejection_resample(lambda v: v, [0.5, 0.5], [0.2, 0.2, 0.6])
    with pytest.raises(IndexError, match="returned 2, but there are 2 classes"):
        list(ds.rejection_resample(lambda v: v, [0.9, 0.1], [0.5, 0.5], seed=3).repeat(9))


def test_a_choice_that_is_none_is_named_by_its_position_after_restoring_too():
    turns = Dataset.from_tensor_slices(np.array([0, 1, 0, 5]))
    chosen = Dataset.choose_from_datasets([Dataset.range(9), Dataset.range(9)], turns)
    iterator = iter(chosen)
    for _ in range(2):
        next(iterator)
    again = iter(chosen)
    again.restore(iterator.state())
    next(again)
    with pytest.raises(IndexError, match="element 3 chooses dataset 5"):
        next(again)


def test_what_is_rejected_follows_from_positions_alone():
    def resampled():
        third = [1 / 3] * 3
        return Dataset.range(600).rejection_resample(
            lambda v: v % 3, [0.7, 0.2, 0.1], third, seed=1
        )

    whole = [int(v) for _, v in resampled()]
    iterator = iter(resampled())
    for _ in range(37):
        next(iterator)
    again = iter(resampled())
    again.restore(iterator.state())
    assert [int(v) for _, v in again] == whole[37:]
