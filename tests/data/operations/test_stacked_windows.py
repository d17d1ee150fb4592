"""Windows batched or taken apart: elements, errors and states as with a dataset for each."""

import copy
import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.data import Dataset, Options, TensorSpec
from drumline.data.rewrite.optimize import stack_windows


def names(dataset):
    return [node.name for node in stack_windows(dataset._plan).walk()]


def plain(dataset):
    options = Options()
    options.experimental_optimization.window_and_batch_fusion = False
    return dataset.with_options(options)


def outcomes(iterator, count=None):
    """Elements and the texts of errors."""
    found = []
    while count is None or len(found) < count:
        try:
            element = next(iterator)
        except StopIteration:
            break
        except ValueError as error:
            found.append(str(error))
        else:
            leaves = element if isinstance(element, tuple) else (element,)
            found.append([(np.asarray(leaf).dtype, np.asarray(leaf).tolist()) for leaf in leaves])
    return found


def check_going_on(dataset, expected, stop):
    """From an iterator's state after so many elements come those that are left."""
    iterator = iter(copy.copy(dataset))
    assert outcomes(iterator, stop) == expected[:stop]
    again = iter(copy.copy(dataset))
    again.restore(json.loads(json.dumps(iterator.state())))
    assert outcomes(again) == expected[stop:]


def test_the_windows_of_the_time_series_guide():
    """Numbers of TensorFlow 2.21 for the guide's ``make_window_dataset``."""
    windows = Dataset.range(100).window(10, shift=5, stride=3)
    ds = windows.flat_map(lambda sub: sub.batch(10, drop_remainder=True))
    assert names(ds) == ["range", "stacked_windows"]
    assert ds.element_spec == TensorSpec((10,), np.int64)
    found = [window.tolist() for window in ds]
    assert found[:2] == [list(range(0, 30, 3)), list(range(5, 35, 3))]
    assert len(found) == 15
    assert found[-1] == list(range(70, 100, 3))


def structured():
    return Dataset.from_tensor_slices(
        {"a": np.arange(6, dtype=np.float32), "b": (np.arange(12).reshape(6, 2), list("uvwxyz"))}
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.range(9).window(3, shift=1).flat_map(lambda w: w.batch(3)),
        lambda: Dataset.range(9).window(3, shift=2).interleave(lambda w: w.batch(7), 3, 2),
        lambda: Dataset.range(9).enumerate().window(2).flat_map(lambda i, v: v.batch(2, True)),
        lambda: (
            Dataset.range(9)
            .enumerate()
            .window(4, 3)
            .flat_map(lambda i, v: Dataset.zip(v.batch(4), i.batch(4, drop_remainder=True)))
        ),
        lambda: (
            Dataset.range(9)
            .enumerate()
            .window(4, 3, 2)
            .flat_map(lambda i, v: Dataset.zip((v, i)).batch(4))
        ),
        lambda: (
            structured()
            .window(3, 1)
            .flat_map(lambda w: Dataset.zip((w["b"][1].batch(3), w["b"][0].batch(3))))
        ),
    ],
)
def test_functions_that_batch_are_not_called_for_each_window(make):
    dataset = make()
    assert names(dataset)[-1] == "stacked_windows"
    assert "stacked windows (" in dataset.explain()
    found, expected = outcomes(iter(dataset)), outcomes(iter(plain(make())))
    assert found == expected
    assert found


calls = itertools.count(2)


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w.batch(4, drop_remainder=True),
        lambda w: w.batch(2).batch(2),
        lambda w: w.take(2),
        lambda w: Dataset.zip(w.batch(2), w),
        lambda w: Dataset.zip(w.batch(2), w.batch(1)),
        lambda w: Dataset.from_tensor_slices([int(v) for v in w]),
        lambda w: w.batch(3).map(lambda v: v + 1),
        lambda w: w.padded_batch(3),
        lambda w: w.batch(3 + int(next(iter(w)))),
        lambda w: w.batch(3 if len(w) < 3 else 4),
        lambda w: w.batch(next(calls)),
        lambda w: w.batch(random.choice([3, 3, 3])),
        lambda w: Dataset.zip(w.batch(3), Dataset.range(1)),
    ],
)
def test_other_functions_are_called(function):
    dataset = Dataset.range(7).window(3, shift=2).flat_map(function)
    assert names(dataset)[-1] == "flat_map"


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: Dataset.range(9).window(4, 3).flat_map(lambda w: w), "rows"),
        (lambda: Dataset.range(9).window(4, 3).flat_map(lambda w: w.batch(2)), "2, drop"),
        (lambda: Dataset.range(9).window(4).interleave(lambda w: w.batch(3), 3, 2), "3, drop"),
        (lambda: Dataset.range(9).window(4, 3).interleave(lambda w: w, 1), "rows"),
        (
            lambda: structured().window(3, 1).flat_map(lambda w: Dataset.zip((w["b"][1], w["a"]))),
            "rows",
        ),
        (
            lambda: (
                Dataset.range(9)
                .enumerate()
                .window(5, 2, 2, True)
                .flat_map(lambda i, v: Dataset.zip(v.batch(2), i.batch(2, drop_remainder=True)))
            ),
            "2, drop_remainder=True",
        ),
    ],
)
def test_functions_that_take_windows_apart_are_not_called_for_each(make, shown):
    dataset = make()
    assert names(dataset)[-2:] == ["stacked_windows", "window_pieces"]
    assert f"pieces of windows ({shown}" in dataset.explain()
    assert stack_windows(dataset._plan).spec == dataset._plan.spec
    found, expected = outcomes(iter(dataset)), outcomes(iter(plain(make())))
    assert found == expected
    assert found


def single(w, size=3):
    return w.batch(size).get_single_element()


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda i, v: single(v),
        lambda i, v: {"b": single(v, 8), "a": single(i)},
        lambda i, v: (single(v), (v.batch(3, drop_remainder=True).get_single_element(),)),
    ],
)
def test_maps_to_single_batches_are_not_called_for_each_window(function, failing):
    def make():
        rows = Dataset.range(14, 30).map(picky) if failing else Dataset.range(14, 30)
        return rows.enumerate().window(3, 2, drop_remainder=True).map(function)

    dataset = make()
    assert names(dataset)[-1] == "stacked_windows"
    assert stack_windows(dataset._plan).spec == dataset._plan.spec

    def found(ds):
        iterator, texts = iter(ds), []
        while True:
            try:
                texts.append(repr(next(iterator)))
            except StopIteration:
                return texts
            except ValueError as error:
                texts.append(str(error))

    assert found(dataset) == found(plain(make()))
    assert len(found(dataset)) == 7


@pytest.mark.parametrize(
    "function",
    [
        lambda w: single(w) + 1,
        lambda w: w.batch(4, drop_remainder=True).get_single_element() if len(w) > 3 else single(w),
        lambda w: (single(w), 0),
        lambda w: w.reduce(np.int64(0), lambda a, b: a + b),
        lambda w: Dataset.zip((w, w)).batch(3).get_single_element(),
    ],
)
def test_other_maps_are_called(function):
    dataset = Dataset.range(7).window(3, shift=2, drop_remainder=True).map(function)
    assert names(dataset)[-1] == "map"


def test_a_map_of_no_windows_has_no_elements():
    dataset = Dataset.range(2).window(3, drop_remainder=True).map(single)
    assert list(dataset) == list(plain(dataset)) == []


def test_a_map_whose_last_windows_are_errors_is_called():
    dataset = Dataset.range(7).window(3, shift=2).map(single)
    assert names(dataset)[-1] == "map"
    with pytest.raises(ValueError, match="more than one element"):
        Dataset.range(7).window(3).map(lambda w: single(w, 2))
    with pytest.raises(ValueError, match=r"has shape \(1,\)"):
        list(dataset)


def failing(count, at):
    """Numbers, of which one fails."""

    def number(i):
        if int(i) == at:
            raise ValueError(f"no {at}")
        return np.int64(i)

    return Dataset.range(count).map(number)


@given(
    count=st.integers(1, 9),
    size=st.integers(1, 5),
    shift=st.integers(1, 5),
    stride=st.integers(1, 3),
    at=st.integers(1, 8),
    stop=st.integers(0, 6),
)
@settings(max_examples=60)
def test_an_error_among_what_is_left_at_the_end_is_raised(count, size, shift, stride, at, stop):
    """Each full window that has it raises it; if none does, what is left at the end does, once."""
    spans = [range(s, s + (size - 1) * stride + 1, stride) for s in range(0, count, shift)]
    full = [span for span in spans if span[-1] < count]
    expected = [f"no {at}" if at in span else list(span) for span in full]
    fails = at < count and not any(at in span for span in full)
    if fails and any(at in span for span in spans):
        expected.append(f"no {at}")
    if expected[:1] == [f"no {at}"]:
        return  # flat_map calls its function with the first window
    windows = failing(count, at).window(size, shift, stride, drop_remainder=True)
    dataset = windows.flat_map(lambda w: w.batch(size))
    for made in (dataset, plain(dataset)):
        found = [
            each.splitlines()[0] if isinstance(each, str) else each[0][1]
            for each in outcomes(iter(made))
        ]
        assert found == expected
        check_going_on(made, outcomes(iter(made)), min(stop, len(expected)))


def test_windows_visited_by_turns_keep_their_datasets():
    dataset = Dataset.range(9).window(4).interleave(lambda w: w.batch(2), 2, 1)
    assert names(dataset)[-1] == "interleave"
    assert [v.tolist() for v in dataset] == [[0, 1], [4, 5], [2, 3], [6, 7], [8]]


def test_rows_that_may_differ_in_shape_keep_their_datasets():
    rows = Dataset.from_generator(lambda: [[1], [2, 3]], output_signature=TensorSpec([None]))
    dataset = rows.window(2).flat_map(lambda w: w.batch(2))
    assert names(dataset)[-1] == "flat_map"
    with pytest.raises(ValueError, match="cannot stack elements of different shapes"):
        list(dataset)


def picky(v):
    if int(v) in (17, 18, 26):
        raise ValueError(f"no {int(v)}")
    return np.array([v, -v], np.int32)


@settings(max_examples=12, deadline=None)
@given(
    number=st.integers(0, 40),
    size=st.integers(1, 6),
    shift=st.integers(1, 8),
    stride=st.integers(1, 3),
    whole=st.booleans(),
    full=st.booleans(),
    failing=st.booleans(),
    stop=st.integers(0, 40),
)
def test_any_windows(number, size, shift, stride, whole, full, failing, stop):
    def make():
        rows = Dataset.range(number)
        rows = rows.map(picky) if failing else rows
        windows = rows.enumerate().window(size, shift, stride, whole)
        return windows.flat_map(
            lambda i, v: Dataset.zip(i.batch(size, drop_remainder=full), v.batch(size))
        )

    dataset, expected = make(), outcomes(iter(plain(make())))
    check_going_on(dataset, expected, stop)
    assert outcomes(iter(dataset.prefetch(3))) == expected


@settings(max_examples=24, deadline=None)
@given(
    number=st.integers(0, 40),
    size=st.integers(1, 6),
    shift=st.integers(1, 8),
    stride=st.integers(1, 3),
    whole=st.booleans(),
    rows=st.integers(0, 6),
    full=st.booleans(),
    turns=st.sampled_from([None, (1, 1), (2, 1), (3, 6)]),
    failing=st.booleans(),
    stop=st.integers(0, 60),
)
def test_any_windows_taken_apart(
    number, size, shift, stride, whole, rows, full, turns, failing, stop
):
    def parts(i, v):
        if rows == 0:
            return Dataset.zip(v, i)
        return Dataset.zip(v.batch(rows, drop_remainder=full), i.batch(rows))

    def make():
        source = Dataset.range(number)
        source = source.map(picky) if failing else source
        windows = source.enumerate().window(size, shift, stride, whole)
        return windows.flat_map(parts) if turns is None else windows.interleave(parts, *turns)

    dataset, expected = make(), outcomes(iter(plain(make())))
    check_going_on(dataset, expected, stop)
    assert outcomes(iter(dataset.prefetch(3))) == expected


def test_windows_with_a_shorter_piece_go_on_from_any_element():
    dataset = Dataset.range(12).window(5, shift=4).flat_map(lambda w: w.batch(2))
    expected = outcomes(iter(plain(dataset)))
    assert len(expected) == 8
    for stop in range(9):
        check_going_on(dataset, expected, stop)


def test_stacked_windows_go_on_to_batches_maps_and_shuffles():
    def make():
        windows = Dataset.range(200).window(5, shift=1, drop_remainder=True)
        batches = windows.flat_map(lambda w: w.batch(5)).map(lambda w: (w[:-1], w[-1] * 2))
        return batches.shuffle(50, seed=3).batch(32)

    found, expected = outcomes(iter(make())), outcomes(iter(plain(make())))
    assert found == expected
    assert len(found) == 7


def test_nothing_past_what_is_needed_is_read_of_a_generator():
    given = []

    def numbers():
        for i in range(50):
            given.append(i)
            yield i

    ds = Dataset.from_generator(numbers, output_signature=TensorSpec((), np.int64))
    iterator = iter(ds.window(4, shift=2).flat_map(lambda w: w.batch(4)))
    given.clear()
    assert [next(iterator).tolist() for _ in range(3)][-1] == [4, 5, 6, 7]
    assert given == list(range(8))
    given.clear()
    iterator = iter(ds.window(4).flat_map(lambda w: w.batch(2)))
    given.clear()
    assert [next(iterator).tolist() for _ in range(3)][-1] == [4, 5]
    assert given == list(range(8))
