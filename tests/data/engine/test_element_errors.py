"""Errors come in their element's place and say which element it is."""

import operator
from pathlib import Path

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, TensorSpec


def events(ds):
    iterator, found = iter(ds), []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append(error)


def fails_at(n, kind=ValueError):
    def function(v):
        if v == n:
            raise kind(f"no {n}")
        return v

    return function


@pytest.mark.parametrize("calls", [None, 3])
def test_elements_before_and_after_a_failure_are_delivered(calls):
    found = events(Dataset.range(8).map(fails_at(5), num_parallel_calls=calls))
    error = found.pop(5)
    assert [int(v) for v in found] == [0, 1, 2, 3, 4, 6, 7]
    assert isinstance(error, ValueError)
    assert str(error) == "no 5"
    assert error.element_index == 5
    assert (
        "element 5 of map(fails_at" in error.__notes__[0]
        or "element 5 of map(function" in error.__notes__[0]
    )


def test_the_users_frame_is_in_the_traceback():
    with pytest.raises(ValueError, match="no 1") as caught:
        list(Dataset.range(3).map(fails_at(1)))
    assert "fails_at" in str(caught.traceback[-1].frame.code.raw.co_qualname)


@pytest.mark.parametrize("optimize", [True, False])
def test_take_never_shows_an_error_past_its_end(optimize):
    from tests.data.plans import options

    for ds in (
        Dataset.range(10).map(fails_at(5)).take(5),
        Dataset.range(10).map(lambda v: 10 // (v - 5)).take(5),
        Dataset.range(10).map(lambda v: 10 // (v - 5)).prefetch(4).take(5),
        Dataset.range(10).map(lambda v: 10 // (v - 4)).skip(5).take(2),
    ):
        assert not [
            e for e in events(ds.with_options(options(optimize, 2))) if isinstance(e, Exception)
        ]


def test_integer_division_by_zero_in_a_compiled_map():
    found = events(Dataset.range(6).map(lambda v: 12 // (v - 3)))
    assert [int(v) for v in found if not isinstance(v, Exception)] == [-4, -6, -12, 12, 6]
    assert isinstance(found[3], ZeroDivisionError)
    assert found[3].element_index == 3
    assert "test_element_errors.py" in str(found[3])
    assert isinstance(events(Dataset.range(2).map(lambda v: 7 % v))[0], ZeroDivisionError)


@pytest.mark.parametrize("divide", [operator.floordiv, operator.mod])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_a_division_of_constants_by_zero(divide, dtype):
    """XLA's compiler evaluates it, at which the process would end."""
    rows = Dataset.from_tensor_slices(np.ones((3, 0), dtype))

    def divided(row):
        return divide(row.sum(dtype=dtype) + np.dtype(dtype).type(3), np.dtype(dtype).type(0))

    scanned = rows.scan(np.zeros((), dtype), lambda total, row: (divided(row), row))
    for ds in (rows.map(divided), scanned, rows.filter(lambda row: divided(row) > 0)):
        found = events(ds)
        assert isinstance(found[0], ZeroDivisionError), found


def test_index_out_of_bounds_in_a_compiled_map():
    table = np.arange(4.0)
    import jax.numpy as jnp

    found = events(Dataset.range(6).map(lambda v: jnp.asarray(table)[v]))
    assert [isinstance(e, IndexError) for e in found] == [False] * 4 + [True] * 2
    assert found[4].element_index == 4
    fine = events(Dataset.range(4).map(lambda v: jnp.asarray(table)[v - 4]))
    assert [float(v) for v in fine] == [0, 1, 2, 3]


def test_index_of_an_error_after_a_shuffle_and_in_batches():
    found = events(Dataset.range(6).map(lambda v: 12 // (v - 3)).batch(2))
    assert [e.tolist() if not isinstance(e, Exception) else type(e) for e in found] == [
        [-4, -6],
        ZeroDivisionError,
        [12, 6],
    ]
    shuffled = events(Dataset.range(50).map(lambda v: 12 // (v - 3)).shuffle(50, seed=1))
    (error,) = [e for e in shuffled if isinstance(e, Exception)]
    assert error.element_index == 3
    assert len(shuffled) == 50


def test_failures_in_several_operations():
    ds = Dataset.range(10).map(fails_at(2)).map(fails_at(5)).filter(lambda v: 1 // (v - 7) < 99)
    kinds = [type(e).__name__ if isinstance(e, Exception) else int(e) for e in events(ds)]
    assert kinds == [0, 1, "ValueError", 3, 4, "ValueError", 6, "ZeroDivisionError", 8, 9]


def test_failures_in_branches_that_run_stage_by_stage():
    ds = Dataset.zip(
        Dataset.range(5).map(fails_at(1)), Dataset.range(5).map(fails_at(3))
    ).enumerate()
    assert [isinstance(e, Exception) for e in events(ds)] == [False, True, False, True, False]
    ds = Dataset.range(6).map(fails_at(4)).shuffle(3, seed=0).repeat(2)
    assert sum(isinstance(e, Exception) for e in events(ds)) == 2


def test_stop_iteration_in_a_function_does_not_end_the_data():
    found = events(Dataset.range(3).map(fails_at(1, StopIteration)))
    assert isinstance(found[1], RuntimeError)
    assert len(found) == 3


def test_an_error_on_the_first_element_is_raised_by_map():
    with pytest.raises(ValueError, match="no 0"):
        Dataset.range(3).map(fails_at(0))


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda i: (i, i) if i == 2 else i, TypeError, "structure"),
        (lambda i: 1.5 if i == 2 else i, TypeError, "dtype"),
        (lambda i: np.zeros(3, np.int32) if i == 2 else i, ValueError, "shape"),
        (lambda i: "x" if i == 2 else i, TypeError, "string"),
        (lambda i: 2**40 if i == 2 else i, ValueError, "does not fit"),
    ],
    ids=["structure", "dtype", "shape", "string", "overflow"],
)
def test_elements_that_change_midway(change, kind, text):
    spec = TensorSpec((), np.int32)
    generated = Dataset.from_generator(lambda: (change(i) for i in range(5)), output_signature=spec)
    mapped = Dataset.range(5).map(lambda v: change(int(v)))
    for ds in (generated, mapped):
        found = events(ds)
        error = found.pop(2)
        assert [int(v) for v in found] == [0, 1, 3, 4]
        assert isinstance(error, kind)
        assert text in str(error)
        assert "element 2" in error.__notes__[0]


def test_batching_different_shapes_names_the_element_and_gives_up_the_batch():
    rows = [np.zeros(2), np.zeros(3), np.zeros(3), np.zeros(4), np.zeros(2), np.zeros(2)]
    ds = Dataset.from_generator(
        lambda: iter(rows), output_signature=TensorSpec((None,), np.float64)
    )
    found = events(ds.batch(3))
    assert isinstance(found[0], ValueError)
    assert "element 1" in str(found[0])
    assert "(3,)" in str(found[0])
    assert "element 4" in str(found[1])
    assert len(found) == 2
    assert [e.shape for e in events(ds.take(5).batch(3, drop_remainder=True))[1:]] == []
    failing = ds.map(lambda x: x if len(x) == 2 else np.zeros(4 - len(x)) / (1 // (4 - len(x))))
    assert [type(e) for e in events(failing.batch(4))] == [ZeroDivisionError, np.ndarray]


def test_each_uneven_element_of_an_unbatch_is_an_error_of_its_own():
    rows = [(np.zeros(2), np.zeros(3)), (np.zeros(2), np.zeros(3)), (np.ones(1), np.ones(1))]
    spec = (TensorSpec((None,), np.float64), TensorSpec((None,), np.float64))
    ds = Dataset.from_generator(lambda: iter(rows), output_signature=spec).cache()
    for _ in range(2):
        found = events(ds.unbatch())
        assert [e if isinstance(e, tuple) else str(e)[-20:] for e in found] == [
            "element 0 has [2, 3]",
            "element 1 has [2, 3]",
            (1.0, 1.0),
        ]


def test_a_shape_error_names_its_element_after_an_earlier_failed_batch():
    rows = [np.zeros(2), np.zeros(3), np.zeros(3), np.zeros(4)]
    spec = TensorSpec((None,), np.float64)
    found = events(Dataset.from_generator(lambda: iter(rows), output_signature=spec).batch(2))
    texts = [str(e) for e in found if isinstance(e, Exception)]
    assert "element 1 has shape (3,)" in texts[0]
    assert "element 3 has shape (4,)" in texts[1]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda d: d.batch(0), ValueError, "batch_size must be at least 1"),
        (lambda d: d.batch(2.5), TypeError, "integer"),
        (lambda d: d.batch(dl.data.AUTOTUNE), ValueError, "batch_size cannot be AUTOTUNE"),
        (lambda d: d.map(abs, "AUTOTUNE"), TypeError, "got 'AUTOTUNE'; give dl.data.AUTOTUNE"),
        (lambda d: d.prefetch("AUTOTUNE"), TypeError, "got 'AUTOTUNE'; give dl.data.AUTOTUNE"),
        (lambda d: TensorSpec((), "float31"), TypeError, "c: dtype .*'float31'.*mean 'float32'"),
        (lambda d: TensorSpec((), "M8[s]"), TypeError, "TensorSpec: a dataset column cannot have"),
        (lambda d: TensorSpec(3), TypeError, "TensorSpec: shape must be a sequence .*got 3"),
        (lambda d: d.shuffle(0), ValueError, "buffer_size"),
        (lambda d: d.repeat(-2), ValueError, "count"),
        (lambda d: d.unbatch(), ValueError, "no first dimension"),
        (lambda d: d.concatenate(d.batch(2)), TypeError, "same structure"),
        (lambda d: d.filter(lambda v: v), TypeError, "one bool"),
        (lambda d: d.apply(lambda x: 3), TypeError, "int"),
        (lambda d: d.map(lambda v: v, deterministic="yes"), TypeError, "deterministic"),
        (lambda d: d.map(lambda v: v, num_parallel_calls=0), ValueError, "num_parallel_calls"),
        (lambda d: Dataset.from_tensor_slices(3), ValueError, "scalar"),
        (
            lambda d: Dataset.from_tensor_slices({"a": np.zeros(3), "b": (np.zeros(4),)}),
            ValueError,
            r"\(\['a'\]: 3, \['b'\]\[0\]: 4\)",
        ),
        (
            lambda d: Dataset.from_tensor_slices({"a": [1], "b": 2}),
            ValueError,
            r": \['b'\] is a sc",
        ),
        (
            lambda d: d.map(lambda v: {"a": v, "b": object()}),
            TypeError,
            r"what map\(<lambda> \(test_element_errors.py:\d+\)\) returned, element\['b'\]: cannot",
        ),
        (lambda d: Dataset.from_sequence([object()]), TypeError, "from_sequence: item 0 of list"),
        (lambda d: Dataset.from_tensor_slices(()), ValueError, "no arrays"),
        (lambda d: Dataset.from_tensor_slices([object()]), TypeError, "object"),
        (lambda d: Dataset.zip(), ValueError, "at least one"),
        (lambda d: Dataset.zip(d, 3), TypeError, "int"),
        (lambda d: Dataset.range(300, output_type=np.int8), ValueError, "does not fit"),
        (
            lambda d: Dataset.from_generator(iter([1]), output_signature=TensorSpec(())),
            TypeError,
            "callable",
        ),
        (lambda d: Dataset.from_generator(list, output_signature=3), TypeError, "TensorSpec"),
    ],
)
def test_bad_arguments(make, kind, text):
    with pytest.raises(kind, match=text):
        make(Dataset.range(3))


@pytest.mark.parametrize(
    "function", [dl.io.read_file, lambda path: Path(path.decode()).read_text()]
)
def test_short_strings_tell_which_element_failed(function, tmp_path):
    (tmp_path / "a").write_text("a")
    names = [str(tmp_path / name) for name in "ab"]
    with pytest.raises(FileNotFoundError) as caught:
        list(Dataset.from_tensor_slices((names, [b"\0", b"x" * 201])).map(lambda p, _: function(p)))
    assert caught.value.__notes__[1:] == [f"drumline: the element is {names[1].encode()!r}"]


@pytest.mark.parametrize("rows", [[[1, 2], [3]], [["a"], ["b", "c"]], [["a", ["b"]], ["c", "d"]]])
def test_rows_of_different_lengths_are_no_array(rows):
    with pytest.raises(ValueError, match=r"from_tensor_slices: a list.*RaggedArray\.from_rows"):
        Dataset.from_tensor_slices(rows)
