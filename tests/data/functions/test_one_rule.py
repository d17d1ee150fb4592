"""Types and division by zero are the same for functions that run as Python and compiled ones."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset

TYPES = ["uint8", "int16", "int32", "int64", "uint32", "float16", "float32", "float64", "bool"]


def as_python(function):
    """The function, which no trace can follow any more."""

    def branches(*leaves):
        bool(leaves[0].max() > 3)
        return function(*leaves)

    return branches


def columns(*types):
    made = tuple((np.arange(12).reshape(3, 4) % 2 + 1).astype(dtype) for dtype in types)
    return Dataset.from_tensor_slices(made if len(made) > 1 else made[0])


FUNCTIONS = {
    "divide": lambda a: a / 255,
    "multiply": lambda a: a * 0.5,
    "add": lambda a: a + 1,
    "mean": lambda a: a.mean(),
    "numpy mean": lambda a: np.mean(a),
    "sum": lambda a: a.sum(),
    "argmax": lambda a: a.argmax(),
    "by name": lambda a: a.astype("float64"),
    "integers by name": lambda a: a.astype(np.int64),
    "scalar by name": lambda a: a + np.float64(1),
    "constant": lambda a: np.arange(2.0),
    "Python's numbers": lambda a: (1, 1.5, True),
    "structure": lambda a: {"x": a / 2, "y": (a, a[0] // 2)},
}


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_types(name, dtype):
    function, source = FUNCTIONS[name], columns(dtype)
    compiled, python = source.map(function), source.map(as_python(function))
    assert "runs as Python" in python.explain()
    assert "runs as Python" not in compiled.explain()
    assert python.element_spec == compiled.element_spec
    if name == "structure":
        for a, b in zip(compiled, python, strict=True):
            for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
                assert x.dtype == y.dtype
                np.testing.assert_allclose(
                    x.astype("f8"), y.astype("f8"), rtol=1e-3 if dtype == "float16" else 1e-6
                )


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(TYPES[:-1]),
    st.sampled_from(TYPES[:-1]),
    st.sampled_from(["a + b", "a * b", "a / b", "a - 1", "b / 2", "(a / b).sum()", "a.sum() / 3"]),
    st.sampled_from(["b * 2", "a / 255", "b.mean()", "a // b"]),
)
def test_types_of_two_columns(one, other, first, second):
    function = eval(f"lambda a, b: ({first}, {second})")
    source = columns(one, other)
    python = source.map(as_python(function))
    compiled = source.map(function)
    if {one, other} & {"int64", "float64"} and "sum" in first + second:
        # JAX's reductions take 64-bit arrays with all else of 64 bits alone.
        assert [leaf.dtype.kind for leaf in python.element_spec] == [
            leaf.dtype.kind for leaf in compiled.element_spec
        ]
    else:
        assert python.element_spec == compiled.element_spec


def test_a_branch_changes_no_type():
    rows = np.arange(12, dtype=np.uint8).reshape(3, 4)
    branch = Dataset.from_tensor_slices(rows).map(lambda a: a / 255 if a[0] > 3 else a / 127)
    assert branch.element_spec == dl.TensorSpec((4,), np.float32)
    assert [x.dtype for x in branch] == ["float32"] * 3


def test_what_native_functions_and_draws_give():
    raw = Dataset.from_tensor_slices([bytes([1, 2]), bytes([3, 4])])

    def parsed(text):
        assert len(text) == 2
        return dl.io.decode_raw(text, "uint8") / 255, dl.random.uniform((2,)) * 2

    found = raw.map(parsed)
    assert [leaf.dtype for leaf in found.element_spec] == ["float32", "float32"]
    assert [x.dtype for x, _ in found] == ["float32"] * 2


def test_numpys_own_arrays_have_numpys_types():
    source = columns("uint8")
    for function in (
        lambda a: np.asarray(a) / 255,
        lambda a: np.linspace(0, 1, int(a.max())),
        lambda a: np.zeros(3) if int(a.max()) else None,
    ):
        assert source.map(function).element_spec.dtype == np.float64


def test_a_value_that_the_type_cannot_hold_raises():
    rows = np.array([[1, 2], [2**31 - 1, 1]], np.int32)
    found = iter(Dataset.from_tensor_slices(rows).map(as_python(lambda a: a.sum())))
    assert next(found) == np.int32(3)
    with pytest.raises(ValueError, match="does not fit int32: 2147483648"):
        next(found)


def test_states_have_the_types_of_compiled_ones():
    def step(state, a):
        return state + a.mean() / 255, (a / 255, state)

    source = columns("uint8")
    compiled = source.scan(np.float32(0), step)
    python = source.scan(np.float32(0), as_python_step(step))
    assert [leaf.dtype for leaf in jax.tree.leaves(python.element_spec)] == ["float32"] * 2
    assert [leaf.dtype for leaf in jax.tree.leaves(compiled.element_spec)] == ["float32"] * 2
    np.testing.assert_allclose([b for _, b in python], [b for _, b in compiled], rtol=1e-6)
    total = source.reduce(np.float32(0), as_python_step(lambda s, a: s + a.mean() / 255))
    assert total.dtype == np.float32


def as_python_step(function):
    def branches(state, a):
        bool(a.max() > 3)
        return function(state, a)

    return branches


def events(ds):
    iterator, found = iter(ds), []
    while True:
        try:
            found.append(np.asarray(next(iterator)).tolist())
        except StopIteration:
            return found
        except ZeroDivisionError:
            found.append(ZeroDivisionError)


def divisors(dtype="int64"):
    return Dataset.from_tensor_slices(np.array([1, 0, 2], dtype))


def branching(function):
    def called(v):
        bool(v > 3)
        return function(v)

    return called


OPERATIONS = {
    "//": lambda v: 5 // v,
    "%": lambda v: 5 % v,
    "of arrays": lambda v: np.arange(3) // v,
    "remainders of arrays": lambda v: np.arange(3) % v,
    "divmod": lambda v: divmod(np.asarray(v) * 0 + 5, v)[0],
    "fmod": lambda v: np.fmod(np.arange(3), v),
}

DATASETS = {
    "map": lambda f: divisors().map(branching(f)),
    "parallel map": lambda f: divisors().map(branching(f), num_parallel_calls=2),
    "flat_map": lambda f: divisors().flat_map(lambda v: Dataset.from_tensors(f(v))),
    "interleave": lambda f: divisors().interleave(
        lambda v: Dataset.from_tensors(f(v)), cycle_length=2, num_parallel_calls=2
    ),
    "scan": lambda f: divisors().scan(np.int64(0), lambda s, v: (s, branching(f)(v))),
    "reduce_func": lambda f: divisors().group_by_window(
        lambda v: v, lambda k, _: Dataset.from_tensors(f(k)), window_size=1
    ),
}


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_integers_divided_by_zero(operation, dataset):
    found = events(DATASETS[dataset](OPERATIONS[operation]))
    assert found.index(ZeroDivisionError) == 1
    assert len(found) == 3


def test_integers_divided_by_zero_in_other_functions():
    assert events(divisors().map(lambda v: 5 // np.asarray(v))) == [5, ZeroDivisionError, 2]
    kept = divisors().filter(branching(lambda v: 5 // v > 0))
    assert events(kept) == [1, ZeroDivisionError, 2]
    sized = divisors().group_by_window(
        lambda v: v, lambda k, _: Dataset.from_tensors(k), window_size_func=lambda k: 1 + 5 // k
    )
    assert events(sized).count(ZeroDivisionError) == 1
    with pytest.raises(ZeroDivisionError):
        divisors().reduce(np.int64(0), lambda s, v: s + branching(lambda v: 5 % v)(v))
    with pytest.raises(ZeroDivisionError, match="integer division by zero"):
        Dataset.range(3).map(lambda _: np.arange(3) // 0)


def test_integers_divided_by_zero_in_worker_processes():
    options = dl.data.Options()
    options.python_workers = "processes"
    found = divisors().map(branching(lambda v: 5 // v), num_parallel_calls=2).with_options(options)
    assert events(found) == [5, ZeroDivisionError, 2]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [lambda v: 5 / v, lambda v: 5 // v, lambda v: np.log(v)])
def test_floats_are_divided_as_numpy_does(function, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [function(v) for v in np.array([1, 0, 2], dtype)]
        mapped = list(divisors(dtype).map(branching(function)))
        flat = list(divisors(dtype).flat_map(lambda v: Dataset.from_tensors(function(v))))
    np.testing.assert_array_equal(mapped, expected)
    np.testing.assert_array_equal(flat, expected)
    assert not np.isfinite(expected[1])


def test_true_division_of_integers_gives_infinity():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        python = list(divisors().map(branching(lambda v: v / v.dtype.type(0))))
    compiled = list(divisors().map(lambda v: v / 0))
    np.testing.assert_array_equal(python, [np.inf, np.nan, np.inf])
    np.testing.assert_array_equal(compiled, python)


@pytest.mark.parametrize("setting", ["warn", "ignore", "raise", "call", "print", "log"])
def test_what_the_user_asked_numpy_for_holds_for_floats(setting, capsys):
    heard = []

    class Log:
        def write(self, text):
            heard.append(text)

        def __call__(self, kind, flag):
            heard.append(kind)

    made = divisors("float64").map(branching(lambda v: 5 / v))
    with np.errstate(divide=setting, call=Log()), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if setting == "raise":
            with pytest.raises(FloatingPointError):
                list(made)
        else:
            assert list(made) == [5, np.inf, 2.5]
    assert bool(caught) == (setting == "warn")
    assert bool(heard) == (setting in ("call", "log"))
    assert bool(capsys.readouterr().out) == (setting == "print")


def looked_at(function):
    def called(*arguments):
        str(int(np.asarray(arguments[-1])))
        return function(*arguments)

    return called


@pytest.mark.parametrize(
    "made",
    [
        lambda ds, f: ds.map(looked_at(f)),
        lambda ds, f: ds.map(looked_at(f), num_parallel_calls=2),
        lambda ds, f: ds.flat_map(lambda v: Dataset.from_tensors(f(v))),
        lambda ds, f: ds.scan(np.int64(0), looked_at(lambda s, v: (s, f(v)))),
        lambda ds, f: ds.group_by_window(
            lambda v: v, lambda k, _: Dataset.from_tensors(f(k)), window_size=1
        ),
    ],
)
def test_jax_keeps_64_bits_in_functions_that_run_as_python(made):
    big = 2**40
    found = made(Dataset.range(big, big + 2), lambda v: jnp.asarray(v) + 1)
    assert found.element_spec.dtype == np.int64
    assert [int(v) for v in found] == [big + 1, big + 2]


def test_jax_computes_in_32_bits_beside_64_bit_columns():
    images = np.full((2, 4), 51, np.uint8)
    source = Dataset.from_tensor_slices((images, np.arange(2) + 2**40))
    found = source.map(looked_at(lambda x, i: (jnp.asarray(x) / 255, jnp.asarray(i) * 2)))
    assert [leaf.dtype for leaf in found.element_spec] == ["float32", "int64"]
    assert [int(i) for _, i in found] == [2**41, 2**41 + 2]


def test_states_whose_shape_changes():
    ds = Dataset.range(3)
    deeper = ds.scan(np.float32(1), lambda s, v: (s[None] if s.ndim == 0 else s, v))
    assert list(deeper) == [0, 1, 2]
    assert ds.reduce(np.float32(1), lambda s, v: s[None]).tolist() == [[[1.0]]]

    def build():
        start = np.zeros(1, np.int64)
        return Dataset.range(2**40, 2**40 + 3).scan(
            start, lambda s, v: (jnp.concatenate([s, v[None]]), s)
        )

    assert build().element_spec == dl.TensorSpec((None,), np.int64)
    whole = [s.tolist() for s in build()]
    assert whole == [[0], [0, 2**40], [0, 2**40, 2**40 + 1]]
    iterator = iter(build())
    next(iterator)
    again = iter(build())
    again.restore(iterator.state())
    assert [s.tolist() for s in again] == whole[1:]
    with pytest.raises(TypeError, match="makes leaf 0 of the state"):
        ds.scan(np.float32(1), lambda s, v: (np.float64(1)[None], v))


def test_jax_makes_32_bit_floats_in_functions_that_return_datasets():
    ones = Dataset.range(3).flat_map(lambda i: Dataset.from_tensors(jnp.ones(3)))
    assert ones.element_spec == dl.TensorSpec((3,), np.float32)
    windows = Dataset.range(3).group_by_window(
        lambda v: v, lambda k, w: Dataset.from_tensors((jnp.ones(3), 5)), window_size=1
    )
    assert [leaf.dtype for leaf in windows.element_spec] == ["float32", "int32"]
    assert len(list(ones)) == len(list(windows)) == 3
