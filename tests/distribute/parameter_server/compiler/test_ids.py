"""The ids of a step, in numpy or by a program."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from jax import lax
from keras import ops

from drumline.distribute.parameter_server import compiler
from drumline.distribute.parameter_server.compiler.ids_split import NotForNumpy, Translation
from drumline.distribute.parameter_server.compiler.step_program import IdsProgram

IDS = np.array([[-60, -3, 0], [7, 49, 300]], "int32")


@pytest.fixture
def table() -> Any:
    return keras.Variable(np.ones((50, 4), "float32"), name="embeddings")


def both(function: Any, *arrays: Any) -> tuple[Any, Any]:
    """What numpy and JAX make of a function."""
    traced = jax.make_jaxpr(function)(*arrays)
    translation = Translation(len(arrays))
    operands = translation.translate(traced.jaxpr, traced.consts, list(range(len(arrays))))
    steps = json.loads(json.dumps(translation.operations))
    inputs = [
        compiler.Input("argument", None, index, array.shape, array.dtype.name)
        for index, array in enumerate(arrays)
    ]
    program = IdsProgram(("t",), (0,), tuple(inputs), tuple(steps), (tuple(operands),))
    return program.evaluate(arrays)[0], np.ravel(jax.jit(function)(*arrays))


def _of_fifty(x: Any) -> Any:
    return jnp.clip(jnp.where(x < 0, x + 50, x)[:, None], 0, 49)


def _lower_bound_too(x: Any) -> Any:
    above = lax.max(x, jnp.int32(0))
    return jnp.concatenate([lax.min(above, jnp.int32(7)), above])


_N = IDS
_U = IDS.astype("uint32")
_F = np.array([[-1e12, -1.5, np.nan], [0.5, 1e12, np.inf]], "float32")
OPERATIONS = {
    "arithmetic": (lambda x: (x * 3 + 7 - x // 4) % 50 - abs(x), _N),
    "remainders towards zero": (lambda x: lax.rem(x, jnp.int32(7)) + lax.div(x, jnp.int32(-7)), _N),
    "division by zero": (lambda x: lax.div(x, x - x) + lax.rem(x, x - x), _N),
    "overflow": (lambda x: x * 123456789 + jnp.int32(2**31 - 1), _N),
    "unsigned": (lambda x: (x * jnp.uint32(2654435761)) >> 7, _U),
    "shifts": (lambda x: lax.shift_right_logical(x, jnp.int32(3)) ^ (x << 2) | (x >> 1), _N),
    "floats": (lambda x: x.astype("int32"), _F),
    "floats to unsigned": (lambda x: x.astype("uint8").astype("int32"), _F),
    "floor": (lambda x: jnp.floor(x * 0.7).astype("int32"), _N),
    "comparisons": (lambda x: jnp.where((x >= 0) & ~(x == 7) | (x < -9), x, -x), _N),
    "cases": (lambda x: lax.select_n(jnp.clip(x, 0, 2), x, x + 1, x * 2), _N),
    "bounds": (lambda x: jnp.clip(x, -5, 40) + jnp.sign(x), _N),
    "table": (_of_fifty, _N),
    "table, all within": (_of_fifty, np.array([[0, 49]], "int32")),
    "table, just outside": (_of_fifty, np.array([[0, 50]], "int32")),
    "lower bound too": (lambda x: _lower_bound_too(jnp.where(x < 0, x + 8, x)), _N),
    "shapes": (
        lambda x: jnp.concatenate([x.T[::-1], x[:, 1:].reshape(2, 2)[..., None].squeeze(-1)]),
        _N,
    ),
    "positions": (lambda x: x + jnp.arange(3) * jnp.ones((2, 1), "int32"), _N),
    "every second": (lambda x: lax.slice(x, (0, 0), (2, 3), (1, 2)), _N),
    "small": (lambda x: x.astype("int8").astype("int32") + x.astype("bool"), _N),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_numpy_computes_as_jax(name: str) -> None:
    function, array = OPERATIONS[name]
    in_numpy, compiled = both(function, array)
    assert in_numpy.dtype == compiled.dtype
    np.testing.assert_array_equal(in_numpy, compiled)


def test_what_numpy_is_not_known_to_do_alike() -> None:
    for function in (jnp.sort, lambda x: jnp.sin(x).astype("int32"), jnp.cumsum):
        with pytest.raises(NotForNumpy):
            both(function, IDS)


def test_ids_are_within_the_table_in_the_order_of_lookups(table: Any, trace: Any) -> None:
    def step(ids: Any) -> Any:
        last = table.value.at[ids[:1]].get(mode="clip")
        return ops.sum(ops.take(table, ids, axis=0)) + ops.sum(last)

    program = trace(step, IDS).program.ids
    assert program.exported is None
    (found,) = compiler.evaluate_ids(program, [IDS])
    sequences = {tuple(found[:6]), tuple(found[3:])}
    wrapped = (0, 47, 0, 7, 49, 49)
    assert wrapped in sequences and found.size == 9
    assert found.min() >= 0 and found.max() < 50


def test_a_program_where_numpy_will_not_do(table: Any, trace: Any, run: Any) -> None:
    def step(ids: Any) -> Any:
        return ops.take(table, jnp.sort(ids, axis=None)[::-1] % 50, axis=0)

    traced = trace(step, IDS)
    assert traced.program.ids.exported is not None and not traced.program.ids.operations
    (found,) = compiler.evaluate_ids(traced.program.ids, [IDS])
    np.testing.assert_array_equal(found, np.sort(IDS, axis=None)[::-1] % 50)
    assert run(traced, IDS).result.shape == (6, 4)


def test_ids_that_depend_on_a_variable(table: Any, trace: Any, run: Any) -> None:
    table.assign(np.arange(200.0).reshape(50, 4))
    offset = keras.Variable(np.int32(2), name="offset", dtype="int32")
    traced = trace(lambda ids: ops.take(table, ids + offset, axis=0), IDS[1:, :1])
    assert [each.kind for each in traced.program.ids.inputs] == ["dense", "argument"]
    np.testing.assert_array_equal(run(traced, IDS[1:, :1]).result[0, 0], [36, 37, 38, 39])
    with pytest.raises(ValueError, match=r"depend on dense 'offset'.*value_of"):
        compiler.evaluate_ids(traced.program.ids, [IDS[1:, :1]])


def test_arguments_that_do_not_fit(table: Any, trace: Any) -> None:
    program = trace(lambda ids: ops.take(table, ids, axis=0), IDS).program.ids
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        compiler.evaluate_ids(program, [IDS[0]])
    with pytest.raises(ValueError, match=r"0 array\(s\), and uses number 0"):
        compiler.evaluate_ids(program, [])
    (found,) = compiler.evaluate_ids(program, [IDS.astype("int64")])
    assert found.dtype == np.int32
