"""When functions are traced, and which of them run as Python."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drumline.data import Dataset


def how(ds):
    return "python" if "runs as Python" in ds.explain() else "compiled"


def test_a_function_is_what_it_was_when_map_was_called():
    ds = Dataset.range(3)
    for s in (2, 3):
        ds = ds.map(lambda v: v * s)
    assert [int(v) for v in ds] == [0, 6, 12]


def test_also_for_shapes_met_later():
    ds = Dataset.range(5).batch(2)
    for s in (2, 3):
        ds = ds.map(lambda v: v * s)
    assert [b.tolist() for b in ds] == [[0, 6], [12, 18], [24]]


def test_numbers_are_compiled():
    ds = Dataset.range(3).map(lambda v: jnp.where(v > 1, v, -v))
    assert how(ds) == "compiled"
    assert [int(v) for v in ds] == [0, -1, 2]


@pytest.mark.parametrize(
    "value",
    [lambda: "two words", lambda: np.array(["a", "two words"], object), lambda: np.array(b"ab")],
    ids=["str", "objects", "numpy's bytes"],
)
def test_strings_that_are_equal_each_time_are_constants(value):
    """Each call makes other objects of the same text."""
    ds = Dataset.range(3).map(lambda v: (v * 2, value()))
    assert how(ds) == "compiled"
    assert int(ds.index(2)[0]) == 4
    texts = np.array([np.asarray(text) for _, text in ds], object).reshape(3, -1)
    assert (texts == np.array(value()).astype("S").astype(object).reshape(1, -1)).all()


counter = iter(range(10**6))


@pytest.mark.parametrize(
    "function",
    [
        lambda v: v + np.random.randint(10**9),
        lambda v: v + random.random(),
        lambda v: v + next(counter),
        lambda v: v if v > 1 else -v,
        lambda v: np.asarray(v) + 1,
        lambda v: int(v) * 2,
        lambda v: (v, f"number {next(counter)}"),
    ],
    ids=["numpy random", "random", "iterator", "branch", "numpy", "int", "text"],
)
def test_what_depends_on_outside_state_or_values_runs_as_python(function):
    assert how(Dataset.range(4).map(function)) == "python"


def test_impure_functions_draw_for_each_element():
    ds = Dataset.range(50).map(lambda v: v * 0 + np.random.randint(10**9))
    assert len({int(v) for v in ds}) > 40


def test_effects_run_once_per_element():
    seen = []
    ds = Dataset.range(5).map(
        lambda v: (jax.debug.callback(lambda x: seen.append(int(x)), v), v)[1]
    )
    assert [int(v) for v in ds] == list(range(5))
    jax.effects_barrier()
    assert sorted(seen)[-5:] == [0, 1, 2, 3, 4] or sorted(set(seen)) == list(range(5))


def test_tracing_leaves_the_global_random_states_alone():
    np.random.seed(3)
    random.seed(3)
    expected = np.random.rand(), random.random()
    np.random.seed(3)
    random.seed(3)
    Dataset.range(3).map(lambda v: v + np.random.rand() + random.random())
    assert (np.random.rand(), random.random()) == expected


def test_an_impure_function_keeps_the_dtype_a_trace_gives():
    ds = Dataset.from_tensor_slices(np.arange(3, dtype=np.uint8))
    assert ds.map(lambda v: v / 255.0 + np.random.rand()).element_spec.dtype == np.float32


def test_untouched_leaves_do_not_enter_xla():
    ds = Dataset.from_tensor_slices(np.arange(5)).map(lambda v: v)
    assert "no computation" in ds.explain()


def test_a_function_that_returns_nothing_is_refused():
    with pytest.raises(ValueError, match="returned nothing"):
        Dataset.range(3).map(lambda v: None)


def test_a_tuple_is_spread_and_nothing_else():
    Pair = __import__("collections").namedtuple("Pair", "a b")
    ds = Dataset.from_tensor_slices(Pair(np.arange(2), np.arange(2)))
    assert [int(v) for v in ds.map(lambda p: p.a + p.b)] == [0, 2]
    ds = Dataset.from_tensor_slices({"a": np.arange(2)})
    assert [int(v) for v in ds.map(lambda d: d["a"])] == [0, 1]


def test_block_length_follows_from_the_element_spec():
    def length(ds):
        return ds.explain().split("compiled for blocks of ")[1].split(" ")[0]

    image = np.zeros((10, 28, 28, 1), np.float32)
    lengths = {
        length(make(Dataset.from_tensor_slices(image)).map(jnp.tanh))
        for make in (
            lambda ds: ds,
            lambda ds: ds.take(1),
            lambda ds: ds.repeat(100),
            lambda ds: ds.shuffle(3),
            lambda ds: ds.batch(2).unbatch(),
        )
    }
    assert lengths == {"512"}
    assert length(Dataset.range(3).map(lambda v: v * v)) == "16384"


def test_loops_get_short_blocks():
    ds = Dataset.range(3).map(lambda v: jax.lax.fori_loop(0, 1000, lambda i, s: s + i, v))
    assert "blocks of 8 " in ds.explain()


def test_one_compilation_for_all_blocks_and_epochs():
    ds = Dataset.from_tensor_slices(np.arange(5000, dtype=np.float32)).map(lambda v: jnp.sin(v) * 3)
    with jax.log_compiles(False):
        list(ds.batch(7))
    compiled = []
    from drumline.data.functions import compiled as module

    original = module.guarded
    try:
        module.guarded = lambda *a: compiled.append(1) or original(*a)
        ds = Dataset.from_tensor_slices(np.arange(40_000, dtype=np.float32)).map(lambda v: v * 3)
        for _ in range(3):
            list(ds.batch(7))
    finally:
        module.guarded = original
    assert len(compiled) == 1


seen: list[float] = []


def noted(value):
    seen.append(float(value))
    return np.float32(value) * 2


def called_back(value):
    spec = jax.ShapeDtypeStruct((), np.float32)
    return jax.pure_callback(noted, spec, value, vmap_method="sequential")


def summed(state, value):
    return state + called_back(value)


def scanned(state, value):
    made = called_back(value)
    return state + made, made


def test_python_that_a_program_calls_for_each_row_runs_for_no_other_row():
    values = np.arange(1, 6, dtype=np.float32)
    ds = Dataset.from_tensor_slices(values)
    for computed in (
        lambda: list(ds.map(called_back)),
        lambda: list(ds.map(called_back, num_parallel_calls=2).batch(2).unbatch()),
        lambda: list(ds.scan(np.float32(0), scanned)),
    ):
        seen.clear()
        assert computed() == [2, 4, 6, 8, 10]
        assert sorted(seen) == [1, 2, 3, 4, 5]
    assert "runs as Python" not in ds.map(called_back).explain()
    seen.clear()
    assert ds.reduce(np.float32(0), summed) == 30
    assert seen == [1, 2, 3, 4, 5]
