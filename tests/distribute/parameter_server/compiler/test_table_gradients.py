"""A step with only the rows that it looks up, beside gradients of whole tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from keras import ops

import drumline as dl

LAYERS = keras.layers
ROWS = 50
_RANDOM = np.random.default_rng(0)
IDS = _RANDOM.integers(0, ROWS, (4, 6)).astype("int32")
FEW = _RANDOM.integers(0, ROWS, (4, 3)).astype("int32")
Lookup = Callable[[Any, Any], Any]


def hashed(table: Any, ids: Any) -> Any:
    mixed = (ids.astype("uint32") * np.uint32(2654435761)) ^ (ids.astype("uint32") >> 3)
    return jnp.take(table, (mixed % ROWS).astype("int32"), axis=0)


def of_two_parts(table: Any, ids: Any) -> Any:
    return ops.take(table, ops.concatenate([ids[:, :2], ids[:, :1] % 7], 1), axis=0)


def remembered(table: Any, ids: Any) -> Any:
    return jax.checkpoint(lambda whole: jnp.sin(jnp.take(whole, ids, axis=0)))(table)


LOOKUPS: dict[str, Lookup] = {
    "take": lambda t, i: ops.take(t, i, axis=0),
    "twice": lambda t, i: ops.take(t, i, axis=0) * ops.take(t, i[:, ::-1], axis=0),
    "negative ids": lambda t, i: ops.take(t, i - 20, axis=0),
    "table[ids]": lambda t, i: t[i],
    "one column": lambda t, i: t[i, 2],
    "clipped ids": lambda t, i: t.at[i * 3 - 40].get(mode="clip"),
    "NaN for ids out of bounds": lambda t, i: jnp.nan_to_num(
        jnp.take(t, i * 3 - 40, axis=0), nan=2.0
    ),
    "filled for ids out of bounds": lambda t, i: t.at[i * 3].get(mode="fill", fill_value=3.0),
    "promised to be in bounds": lambda t, i: t.at[i].get(mode="promise_in_bounds"),
    "small ids": lambda t, i: ops.take(t, ops.cast(i, "uint8"), axis=0),
    "vmap": lambda t, i: jax.vmap(lambda row: t[row])(i),
    "checkpoint": remembered,
    "jit": lambda t, i: jax.jit(lambda whole: jnp.take(whole, i, axis=0))(t),
    "scaled before": lambda t, i: ops.take(t * 2.0, i, axis=0),
    "rows of length 1": lambda t, i: ops.take(ops.normalize(t, axis=-1), i, axis=0),
    "cast before": lambda t, i: ops.take(ops.cast(t, "bfloat16"), i, axis=0),
    "hashed ids": hashed,
    "ids of two parts": of_two_parts,
    "constant ids": lambda t, i: ops.take(t, ops.arange(5), axis=0),
    "ids from floats": lambda t, i: ops.take(t, ops.cast(ops.floor(i * 0.7), "int32"), axis=0),
}


NOT_BY_ID = {"twice", "one column", "scaled before", "rows of length 1", "cast before"}
"""Their gradients are of two lookups, of a part of the row, or computed from sums."""


def table_named(name: str) -> Any:
    values = np.random.default_rng(len(name)).normal(size=(ROWS, 4)).astype("float32")
    return keras.Variable(values, name=name.replace("/", ""))


def loss_of(values: dict[str, Any], ids: Any) -> Any:
    """A sum in which every row that is looked up has a gradient of its own."""
    total = 0.0
    for name, lookup in LOOKUPS.items():
        found = ops.cast(lookup(values[name], ids), "float32")
        weights = ops.reshape(ops.arange(np.prod(found.shape), dtype="float32"), found.shape)
        total += ops.sum((found + 0.01 * weights) ** 2)
    return total


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    return {name: table_named(name) for name in LOOKUPS}


@pytest.fixture(scope="module")
def ran(tables: Any, trace: Any, run: Any) -> Any:
    optimizer = keras.optimizers.SGD(0.1)

    def step(ids: Any) -> Any:
        with dl.GradientTape() as tape:
            loss = loss_of({name: table.value for name, table in tables.items()}, ids)
        gradients = tape.gradient(loss, list(tables.values()))
        optimizer.apply(gradients, list(tables.values()))
        return loss

    return run(trace(step, IDS, tables=tuple(table.name for table in tables.values())), IDS)


@pytest.fixture(scope="module")
def whole(tables: Any) -> Any:
    values = {name: jnp.asarray(table.value) for name, table in tables.items()}
    return jax.jit(jax.value_and_grad(loss_of))(values, IDS)


@pytest.mark.parametrize("name", LOOKUPS)
def test_the_gradient_is_that_of_the_whole_table(
    name: str, ran: Any, whole: Any, tables: Any
) -> None:
    expected = np.asarray(whole[1][name])
    assert expected.any()
    np.testing.assert_allclose(ran.gradient(tables[name].path), expected, rtol=1e-5, atol=1e-5)


def test_what_is_computed_from_rows_is_the_same(ran: Any, whole: Any) -> None:
    np.testing.assert_allclose(ran.result, whole[0], rtol=1e-6)


def test_no_table_goes_in_or_out(ran: Any) -> None:
    program = ran.traced.program
    assert {each.kind for each in program.inputs} == {"rows_by_id", "rows", "inverse", "argument"}
    gradients = {"row_gradient_by_id", "row_gradient"}
    assert {each.kind for each in program.outputs} == {*gradients, "result"}
    assert program.ids.exported is None


def test_rows_come_by_id_where_their_gradient_is_only_summed(ran: Any, tables: Any) -> None:
    program = ran.traced.program
    by_id = {each.key for each in program.inputs if each.kind == "rows_by_id"}
    assert {each.key for each in program.outputs if each.kind == "row_gradient_by_id"} == by_id
    assert {each.key for each in program.inputs if each.kind == "inverse"}.isdisjoint(by_id)
    once = {name for name, table in tables.items() if table.path not in by_id}
    assert once == NOT_BY_ID


def test_equal_lookups_are_fetched_once(ran: Any, tables: Any) -> None:
    counts = dict(zip(ran.traced.program.ids.tables, ran.traced.program.ids.counts, strict=True))
    assert counts[tables["take"].path] == counts[tables["checkpoint"].path] == IDS.size
    assert counts[tables["twice"].path] == 2 * IDS.size


def head(x: Any) -> Any:
    return LAYERS.Dense(1)(LAYERS.Flatten()(x))


def models() -> dict[str, tuple[keras.Model, Any]]:
    one, two = keras.Input((6,), dtype="int32"), keras.Input((3,), dtype="int32")
    table, other = LAYERS.Embedding(ROWS, 4), LAYERS.Embedding(ROWS, 4)
    parts = [LAYERS.Flatten()(each) for each in (table(one), table(two), other(two))]
    shared = keras.Model([one, two], head(LAYERS.Concatenate()(parts)))
    masked = LAYERS.LSTM(3)(LAYERS.Embedding(ROWS, 4, mask_zero=True)(one))
    steps = keras.Input((2, 3), dtype="int32")
    by_time = LAYERS.TimeDistributed(LAYERS.Embedding(ROWS, 4))(steps)
    policy = keras.DTypePolicy("mixed_bfloat16")
    halves = LAYERS.Embedding(ROWS, 4, dtype=policy)(one)
    floats = keras.Input((6,))
    return {
        "a shared table and another": (shared, [IDS, FEW]),
        "mask and LSTM": (keras.Model(one, head(masked)), IDS),
        "time distributed": (keras.Model(steps, head(by_time)), IDS.reshape(4, 2, 3)),
        "mixed bfloat16": (keras.Model(one, head(halves)), IDS),
        "float ids": (
            keras.Model(floats, head(LAYERS.Embedding(ROWS, 4)(floats))),
            IDS.astype("float32"),
        ),
    }


def test_models_of_keras(trace: Any, run: Any) -> None:
    keras.utils.set_random_seed(0)
    built = models()
    variables = [v for model, _ in built.values() for v in model.trainable_variables]
    optimizer = keras.optimizers.SGD(0.1)
    inputs = {name: x for name, (_, x) in built.items()}

    def step(inputs: Any) -> Any:
        def loss() -> Any:
            made = (model(inputs[name], training=True) for name, (model, _) in built.items())
            return sum(ops.sum((ops.cast(each, "float32") - 1.0) ** 2) for each in made)

        value, gradients = dl.value_and_grad(loss, variables)()
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value

    split = run(trace(step, inputs), inputs)
    whole = run(trace(step, inputs, tables=()), inputs)
    np.testing.assert_allclose(split.result, whole.result, rtol=1e-6)
    assert {kind for kind, _ in whole.writes} == {"gradient"}
    kinds = [kind for kind, _ in split.writes]
    # Each row comes once where a table is looked up twice, at each time, or cast.
    assert kinds.count("row_gradient") == kinds.count("row_gradient_by_id") == 3
    for variable in variables:
        expected = whole.gradient(variable.path)
        assert expected.any(), variable.path
        np.testing.assert_allclose(
            split.gradient(variable.path), expected, rtol=1e-5, atol=1e-6, err_msg=variable.path
        )


CLIPPING = [{"clipnorm": 0.1}, {"global_clipnorm": 0.1}, {"clipvalue": 0.01}]


@pytest.mark.parametrize("clipping", CLIPPING, ids=lambda each: next(iter(each)))
def test_clipping_takes_all_gradients_into_account(clipping: Any, trace: Any, run: Any) -> None:
    variables = [table_named("a"), table_named("bb"), keras.Variable(np.ones(4, "float32"))]
    optimizer = keras.optimizers.SGD(1.0, **clipping)

    @dl.function
    def step(ids: Any) -> None:
        with dl.GradientTape() as tape:
            a, b, c = (variable.value for variable in variables)
            loss = ops.sum(ops.take(a, ids, 0) ** 2 * ops.take(b, ids, 0) + c)
        optimizer.apply(tape.gradient(loss, variables), variables)

    before = [np.asarray(variable.value) for variable in variables]
    split = run(trace(step, IDS, tables=("a", "bb")), IDS)
    step(IDS)
    for variable, old in zip(variables, before, strict=True):
        np.testing.assert_allclose(
            split.gradient(variable.path), old - variable.value, rtol=1e-4, atol=1e-6
        )


def test_a_variable_of_the_shape_of_a_table(trace: Any, run: Any) -> None:
    variables = [table_named("table"), table_named("other")]
    optimizer = keras.optimizers.SGD(1.0)

    @dl.function
    def step(ids: Any) -> None:
        with dl.GradientTape() as tape:
            loss = sum(ops.sum(ops.take(v, ids, 0) ** 2) + ops.sum(v[ids]) for v in variables)
        optimizer.apply(tape.gradient(loss, variables), variables)

    before = [np.asarray(variable.value) for variable in variables]
    ran = run(trace(step, IDS, tables=("table",)), IDS)
    assert {kind for kind, _ in ran.writes} == {"row_gradient", "gradient"}
    step(IDS)
    for variable, old in zip(variables, before, strict=True):
        np.testing.assert_allclose(
            ran.gradient(variable.path), old - variable.value, rtol=1e-4, atol=1e-5
        )


def test_a_large_batch_adds_no_constants(trace: Any) -> None:
    table = table_named("table")
    optimizer = keras.optimizers.SGD(1.0)

    def step(ids: Any) -> None:
        with dl.GradientTape() as tape:
            loss = ops.sum(ops.relu(ops.take(table, ids, 0)))
        optimizer.apply([tape.gradient(loss, table)], [table])

    program = trace(step, np.zeros((128, 512), "int32"), tables=("table",)).program
    assert program.ids.exported is None
    assert len(program.to_bytes()) < 20_000


def test_rows_of_a_huge_table_are_all_that_is_held(trace: Any) -> None:
    table = dl.Variable(np.zeros((1, 16), "float32"), name="embeddings")
    table._shape = (50_000_000, 16)
    optimizer = keras.optimizers.SGD(0.1)

    def step(ids: Any) -> Any:
        with dl.GradientTape() as tape:
            loss = ops.sum(ops.take(table, ids, axis=0) ** 2)
        optimizer.apply([tape.gradient(loss, table)], [table])
        return loss

    traced = trace(step, IDS)
    sizes = [each.shape for each in (*traced.program.inputs, *traced.program.outputs)]
    assert max(np.prod(shape) for shape in sizes) == IDS.size * 16
