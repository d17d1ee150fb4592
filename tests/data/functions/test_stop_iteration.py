"""A ``StopIteration`` of a user's function is an error in its place, never the end of the data."""

import itertools

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, Options, TensorSpec
from drumline.data.runtime.stage import Stage
from drumline.data.runtime.threads import Promise

OUT_OF_DATA = pytest.raises(RuntimeError, match="StopIteration was raised")


def events(ds):
    """The elements; the kind of what is raised in place of one."""
    iterator, found = iter(ds), []
    while True:
        try:
            found.append(np.asarray(next(iterator)).tolist())
        except StopIteration:
            return found
        except Exception as error:
            placed = any("drumline: raised for element" in note for note in error.__notes__)
            found.append(type(error) if placed else error)


def stops_at(n, then=lambda v: v):
    """Asks an iterator that has ended for more where it is given ``n``."""

    def function(v):
        if int(np.asarray(v)) == n:
            next(iter(()))
        return then(v)

    return function


def in_processes(ds):
    options = Options()
    options.python_workers = "processes"
    return ds.with_options(options)


def numbers():
    return Dataset.range(5)


def single(v):
    return Dataset.from_tensors(np.asarray(v))


WHOLE = [0, 1, RuntimeError, 3, 4]


@pytest.mark.parametrize(
    "made",
    [
        lambda: numbers().map(stops_at(2)),
        lambda: numbers().map(stops_at(2), num_parallel_calls=2),
        lambda: in_processes(numbers().map(stops_at(2), num_parallel_calls=2)),
        lambda: numbers().filter(stops_at(2, lambda v: np.asarray(v) >= 0)),
        lambda: numbers().flat_map(stops_at(2, single)),
        lambda: numbers().flat_map(stops_at(2, single)).prefetch(2),
        lambda: numbers().interleave(stops_at(2, single), cycle_length=1),
        lambda: numbers().interleave(stops_at(2, single), cycle_length=1, num_parallel_calls=1),
        lambda: numbers().interleave(stops_at(2, single), 3, num_parallel_calls=dl.data.AUTOTUNE),
        lambda: numbers().scan(np.int64(0), lambda s, v: (s, stops_at(2)(v))),
        lambda: numbers().take_while(stops_at(2, lambda v: np.asarray(v) >= 0)),
        lambda: numbers().group_by_window(
            lambda v: v, lambda k, _: stops_at(2, single)(k), window_size=1
        ),
        lambda: numbers().group_by_window(
            lambda v: v, lambda k, _: single(k), window_size_func=stops_at(2, lambda _: 1)
        ),
        lambda: numbers().group_by_window(stops_at(2), lambda k, _: single(k), 1),
    ],
    ids=[
        "map",
        "parallel map",
        "processes",
        "filter",
        "flat_map",
        "prefetch",
        "interleave",
        "parallel interleave",
        "autotuned interleave",
        "scan",
        "take_while",
        "reduce_func",
        "window_size_func",
        "key_func",
    ],
)
def test_what_follows_is_delivered(made):
    found = events(made())
    assert found.count(RuntimeError) == 1
    assert sorted(v for v in found if v is not RuntimeError) == [0, 1, 3, 4]


def test_an_iterator_that_ended_inside_of_a_function():
    ended = iter([1])
    made = numbers().flat_map(lambda _: Dataset.from_tensors(next(ended, None) or next(iter(()))))
    assert events(made) == [RuntimeError] * 5
    assert list(made.ignore_errors(log_warning=False)) == []


@pytest.mark.parametrize("remainder", [True, False])
def test_a_batch_of_what_failed_raises(remainder):
    made = numbers().flat_map(stops_at(2, single)).batch(2, drop_remainder=remainder)
    assert events(made)[:2] == [[0, 1], RuntimeError]


def test_sequences_and_factories():
    class Rows:
        def __len__(self):
            return 5

        def __getitem__(self, i):
            return stops_at(2)(np.int64(i))

    def factory():
        raise StopIteration

    assert events(Dataset.from_sequence(Rows())) == WHOLE
    generated = Dataset.from_generator(factory, output_signature=TensorSpec((), np.int64))
    assert events(generated) == [RuntimeError]
    with OUT_OF_DATA:
        Dataset.from_sequence(Rows(), TensorSpec((), np.int64)).skip(2).map(float)


def test_a_factory_that_fails_is_not_called_for_ever():
    calls = itertools.count()

    def factory():
        next(calls)
        raise OSError("there is no file")

    made = Dataset.from_generator(factory, output_signature=TensorSpec((), np.int64))
    assert events(made) == [OSError]
    assert list(made.ignore_errors(log_warning=False)) == []
    assert next(calls) == 2


def test_reduce_raises():
    with OUT_OF_DATA:
        numbers().reduce(np.int64(0), lambda s, v: s + stops_at(2)(v))
    with OUT_OF_DATA:
        numbers().flat_map(stops_at(2, single)).reduce(np.int64(0), lambda s, v: s + v)


def test_the_call_that_tries_a_function_raises(tmp_path):
    first = stops_at(0)
    for method, arguments in [
        ("map", (first,)),
        ("filter", (first,)),
        ("flat_map", (first,)),
        ("interleave", (first,)),
        ("scan", (np.int64(0), lambda _, v: first(v))),
        ("reduce", (np.int64(0), lambda _, v: first(v))),
        ("group_by_window", (first, lambda k, _: single(k), 1)),
        ("group_by_window", (lambda v: v, lambda k, _: first(k), 1)),
        ("save", (tmp_path / "saved", None, first)),
    ]:
        with OUT_OF_DATA:
            getattr(numbers(), method)(*arguments)


def test_saving_does_not_stop_short(tmp_path):
    made = numbers().flat_map(stops_at(2, single))
    with OUT_OF_DATA:
        made.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


class Broken(Stage):
    """A stage of which code that nobody thought of raises."""

    def next(self, limit):
        raise StopIteration("from anywhere")

    def state(self):
        return {}

    def close(self):
        pass


def test_no_stage_ends_an_epoch_by_raising():
    iterator = iter(numbers())
    iterator._stage = Broken()
    with OUT_OF_DATA:
        next(iterator)


def test_a_task_that_raised_it_ends_no_epoch():
    promise = Promise()
    promise.fail(StopIteration())
    iterator = iter(numbers())
    iterator._stage = Broken()
    iterator._stage.next = lambda _: promise.result()
    with OUT_OF_DATA:
        next(iterator)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, SystemExit])
@pytest.mark.parametrize("calls", [None, 2])
def test_what_is_to_end_the_program_is_not_held_back(kind, calls):
    def leaves(v):
        if int(np.asarray(v)) == 2:
            raise kind
        return single(v)

    for made in (
        numbers().flat_map(leaves),
        numbers().interleave(leaves, cycle_length=2, num_parallel_calls=calls),
        numbers().map(lambda v: leaves(v) and np.asarray(v), num_parallel_calls=calls),
    ):
        iterator = iter(made)
        with pytest.raises(kind):
            list(iterator)
