import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.training.tape.compiled_operation import CompiledOperation


def values(*shape, seed=0):
    return jnp.asarray(np.random.RandomState(seed).standard_normal(shape), jnp.float32)


def composite(x, y):
    """Several operations, one of them with a derivative of its own."""
    return jax.nn.relu(x @ y) * jnp.tanh(x).sum()


def recorded(tape):
    """The names of the equations that a tape holds."""
    program, _ = tape._session.recording.program.to_jaxpr(
        list(tape._session.recording._tangents.values())
    )
    return [eqn.primitive.name for eqn in program.eqns]


def test_a_tape_records_one_equation_whose_gradient_is_that_of_jax():
    x, y = values(3, 3), values(3, 3, seed=1)
    operation = CompiledOperation(composite)
    with dl.GradientTape() as tape:
        tape.watch([x, y])
        made = operation(x, y)
        assert recorded(tape) == ["compiled_operation"]
    np.testing.assert_allclose(made, composite(x, y), rtol=1e-5)
    wanted = jax.grad(lambda x, y: composite(x, y).sum(), (0, 1))(x, y)
    for found, right in zip(tape.gradient(made, [x, y]), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5)


def test_operations_of_jax_are_recorded_so_too():
    x = values(4)
    with dl.GradientTape() as tape:
        tape.watch(x)
        made = jnp.sin(x) * x
        names = set(recorded(tape))
    assert names == {"compiled_operation"}
    np.testing.assert_allclose(tape.gradient(made, x), jnp.cos(x) * x + jnp.sin(x), rtol=1e-5)


def test_tapes_in_tapes_give_second_and_third_derivatives():
    x = values(4)
    operation = CompiledOperation(lambda x: jnp.tanh(x) * x)
    with dl.GradientTape() as outermost:
        outermost.watch(x)
        with dl.GradientTape() as outer:
            outer.watch(x)
            with dl.GradientTape() as inner:
                inner.watch(x)
                y = operation(x)
            first = inner.gradient(y, x)
        second = outer.gradient(first, x)
    third = outermost.gradient(second, x)

    def f(x):
        return jnp.tanh(x) * x

    df = jax.grad(f)
    np.testing.assert_allclose(first, jax.vmap(df)(x), rtol=1e-4)
    np.testing.assert_allclose(second, jax.vmap(jax.grad(df))(x), rtol=1e-4)
    np.testing.assert_allclose(third, jax.vmap(jax.grad(jax.grad(df)))(x), rtol=1e-3, atol=1e-5)


def test_a_persistent_tape_differentiates_its_own_gradient():
    x = values(4)
    operation = CompiledOperation(lambda x: x * x * x)
    with dl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        first = tape.gradient(operation(x), x)
    np.testing.assert_allclose(first, 3 * x * x, rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(first, x), 6 * x, rtol=1e-5)


def test_jacobians_go_through_operations():
    x = values(3)
    with dl.GradientTape() as tape:
        tape.watch(x)
        y = CompiledOperation(lambda x: jnp.outer(x, x).sum(0))(x)
    wanted = jax.jacobian(lambda x: jnp.outer(x, x).sum(0))(x)
    np.testing.assert_allclose(tape.jacobian(y, x), wanted, rtol=1e-5)


def test_outputs_of_several_kinds_keep_their_structure():
    x = values(4)
    operation = CompiledOperation(lambda x: {"top": jax.lax.top_k(x, 2), "same": x})
    with dl.GradientTape(persistent=True) as tape:
        tape.watch(x)
        made = operation(x)
    found, where = made["top"]
    assert where.dtype == jnp.int32
    one_hot = np.zeros(4, np.float32)
    one_hot[np.asarray(where)] = 1
    np.testing.assert_array_equal(tape.gradient(found, x), one_hot)
    np.testing.assert_array_equal(tape.gradient(made["same"], x), np.ones(4))
    assert tape.gradient(jnp.float32(1) * where, x) is None


def test_what_is_not_watched_is_not_recorded():
    x, y = values(4), values(4, seed=1)
    operation = CompiledOperation(jnp.multiply)
    with dl.GradientTape() as tape:
        tape.watch(x)
        operation(y, y)
        with tape.stop_recording():
            operation(x, y)
        assert recorded(tape) == []
        made = operation(x, y)
    np.testing.assert_array_equal(tape.gradient(made, x), y)


def test_arrays_of_numpy_may_change_before_the_gradient_is_taken():
    x, factor = values(4), np.full(4, 3, np.float32)
    with dl.GradientTape() as tape:
        tape.watch(x)
        made = CompiledOperation(jnp.multiply)(x, factor)
    factor[:] = 0
    np.testing.assert_array_equal(tape.gradient(made, x), np.full(4, 3, np.float32))


def test_an_operation_without_a_derivative_raises_where_one_is_asked_for():
    x = values(4)
    operation = CompiledOperation(
        lambda x: jax.lax.while_loop(lambda v: v[0] < 9, lambda v: v + 1, x)
    )
    with dl.GradientTape() as tape:
        tape.watch(x)
        made = operation(x)
    assert float(made[0]) >= 9
    with pytest.raises(Exception, match="while"):
        tape.gradient(made, x)


def test_operations_work_in_functions_that_jax_traces():
    x = values(4)
    operation = CompiledOperation(lambda x: x * x)

    def gradient(x):
        with dl.GradientTape() as tape:
            tape.watch(x)
            y = operation(x)
        return tape.gradient(y, x)

    for transformed in (jax.jit(gradient), jax.vmap(gradient)):
        np.testing.assert_allclose(transformed(x), 2 * x, rtol=1e-6)
    second = jax.grad(lambda x: gradient(x).sum())
    np.testing.assert_allclose(second(x), np.full(4, 2.0), rtol=1e-6)


def test_64_bits_stay_in_forward_and_backward():
    with jax.enable_x64(True):
        x = jnp.asarray([1.0, 1e-12, 3.0])
        with dl.GradientTape() as tape:
            tape.watch(x)
            made = CompiledOperation(lambda x: (1 + x) * x)(x)
    found = tape.gradient(made, x)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, 1 + 2 * np.asarray(x), rtol=1e-15)
