"""GradientTape: its methods, eagerly and in jax.jit, against jax.grad and known derivatives."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

from drumline.training.tape import GradientTape, UnconnectedGradients

X = jnp.array([0.5, -1.0, 2.0])


def close(found: Any, wanted: Any, rtol: float = 1e-6) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), found, wanted)


def both(fn: Callable[..., Any], *args: Any) -> list[Any]:
    """`fn` of the arguments eagerly, and as a compiled program."""
    return [fn(*args), jax.jit(fn)(*args)]


def test_gradient_of_a_watched_array() -> None:
    def fn(x: jax.Array) -> Any:
        with GradientTape() as tape:
            tape.watch(x)
            y = jnp.sum(jnp.sin(x) * x)
        return tape.gradient(y, x)

    for found in both(fn, X):
        close(found, jnp.sin(X) + X * jnp.cos(X))


def test_an_unwatched_array_has_no_gradient() -> None:
    with GradientTape() as tape:
        y = jnp.sum(X * X)
    assert tape.gradient(y, X) is None


def test_values_can_be_branched_on_and_printed_in_an_eager_block() -> None:
    with GradientTape() as tape:
        tape.watch(X)
        y = X * 3 if float(X[0]) > 0 else X * 5
        assert str(y) == "[ 1.5 -3.   6. ]"
        z = sum(float(each) for each in y) * jnp.sum(y)
    close(tape.gradient(z, X), jnp.full(3, 4.5 * 3))


def test_targets_are_summed_and_sources_keep_their_structure() -> None:
    def fn(x: jax.Array, y: jax.Array) -> Any:
        with GradientTape() as tape:
            tape.watch({"x": x, "y": [y]})
            targets = {"a": x * y, "b": (x**2, jnp.sum(y))}
        return tape.gradient(targets, {"first": x, "rest": (y, [x])})

    for found in both(fn, X, X + 1):
        close(
            found,
            {"first": X + 1 + 2 * X, "rest": (X + 1, [X + 1 + 2 * X])},
        )


def test_intermediate_values_as_sources_and_targets() -> None:
    def fn(x: jax.Array) -> Any:
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
            z = jnp.sum(y * y * x)
        return tape.gradient(z, [x, y]), tape.gradient([z, y], y), tape.gradient(y, y)

    for found in both(fn, X):
        close(found, ([5 * X**4, 2 * X**3], 2 * X**3 + 1, jnp.ones(3)))


def test_a_value_watched_after_it_was_computed() -> None:
    with GradientTape() as tape:
        y = X * 2
        tape.watch(y)
        z = jnp.sum(y**2)
    found = tape.gradient(z, [X, y])
    assert found[0] is None
    close(found[1], 4 * X)


def test_output_gradients_weigh_the_targets() -> None:
    weights = jnp.array([1.0, 10.0, -2.0])

    def fn(x: jax.Array) -> Any:
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**3
        return tape.gradient(y, x, weights), tape.gradient([y, y], x, [None, weights])

    for found in both(fn, X):
        close(found, (3 * X**2 * weights, 3 * X**2 * (1 + weights)))


def test_output_gradients_must_fit() -> None:
    with GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = X * 2
    with pytest.raises(ValueError, match=r"shape \(2,\) was given for a target of shape \(3,\)"):
        tape.gradient(y, X, jnp.ones(2))
    with pytest.raises(ValueError, match="must have the structure of the target"):
        tape.gradient(y, X, [jnp.ones(3), jnp.ones(3)])


@pytest.mark.parametrize("zero", ["zero", UnconnectedGradients.ZERO])
def test_unconnected_gradients(zero: Any) -> None:
    other = jnp.ones((2, 2))
    with GradientTape(persistent=True) as tape:
        tape.watch([X, other])
        y = jnp.sum(X)
    assert tape.gradient(y, [X, other])[1] is None
    assert tape.gradient(y, other) is None
    found = tape.gradient(y, [X, other], unconnected_gradients=zero)
    close(found, [jnp.ones(3), jnp.zeros((2, 2))])
    close(tape.jacobian(X * 1.0, X, unconnected_gradients=zero), jnp.zeros((3, 3)))
    with pytest.raises(ValueError, match="'none' or 'zero', not 'nothing'"):
        tape.gradient(y, X, unconnected_gradients="nothing")


def test_the_same_array_under_two_names_is_one_source() -> None:
    alias = X
    with GradientTape() as tape:
        tape.watch(X)
        y = X * alias
    close(tape.gradient(y, alias), 2 * X)


def test_values_made_outside_are_constant() -> None:
    with GradientTape() as outer:
        outer.watch(X)
        y = X * X
        with GradientTape() as inner:
            inner.watch(X)
            z = X * y
    close(inner.gradient(z, X), X * X)
    close(outer.gradient(z, X), 3 * X**2)


def test_second_and_third_derivatives_by_nested_tapes() -> None:
    def fn(x: jax.Array) -> Any:
        with GradientTape() as third:
            third.watch(x)
            with GradientTape() as second:
                second.watch(x)
                with GradientTape() as first:
                    first.watch(x)
                    y = x**4 * jnp.sin(x)
                dy = first.gradient(y, x)
            ddy = second.gradient(dy, x)
        return dy, ddy, third.gradient(ddy, x)

    def scalar(x: jax.Array) -> jax.Array:
        return x**4 * jnp.sin(x)

    wanted = [scalar]
    for _ in range(3):
        wanted.append(jax.grad(wanted[-1]))
    for x in (X, X[2]):
        expected = tuple(jnp.vectorize(derivative)(x) for derivative in wanted[1:])
        for found in both(fn, x):
            close(found, expected, rtol=1e-5)


def test_a_persistent_tape_differentiates_its_own_gradients() -> None:
    @jax.custom_jvp
    def cube(x: jax.Array) -> jax.Array:
        return x**3

    cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))

    def fn(x: jax.Array) -> Any:
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            middle = jnp.sin(x)
            y = cube(middle) * x
            dy = tape.gradient(y, x)
            ddy = tape.gradient(dy, x)
            by_middle = tape.gradient(y, middle)
            by_both = tape.gradient(by_middle, [x, middle])
        further = tape.gradient(ddy, x), tape.gradient(dy, middle)
        return dy, ddy, *further, by_middle, by_both

    def scalar(x: jax.Array) -> jax.Array:
        return jnp.sin(x) ** 3 * x

    one, two = jax.grad(scalar), jax.grad(jax.grad(scalar))
    s, c = jnp.sin(X), jnp.cos(X)
    wanted = (
        *(jax.vmap(each)(X) for each in (one, two, jax.grad(two))),
        # dy = s**3 + 3 s**2 c x with c held: the path by cos(x) starts at x.
        3 * s**2 + 6 * s * c * X,
        3 * s**2 * X,
        [6 * s * c * X + 3 * s**2, 6 * s * X],
    )
    for found in both(fn, X):
        close(found, wanted, rtol=2e-5)


def test_a_persistent_tape_gives_several_gradients() -> None:
    with GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = X**2
        z = y * X
    close(tape.gradient(y, X), 2 * X)
    close(tape.gradient(z, X), 3 * X**2)
    close(tape.gradient(z, y), X)


def test_a_persistent_tape_goes_on_when_entered_again() -> None:
    tape = GradientTape(persistent=True)
    with tape:
        tape.watch(X)
        y = X**2
    unseen = y * 5
    with tape:
        z = y * X
    close(tape.gradient(z, X), 3 * X**2)
    assert tape.gradient(unseen, X) is None


def test_a_tape_that_is_not_persistent_can_be_used_once() -> None:
    with GradientTape() as tape:
        tape.watch(X)
        y = X**2
    tape.gradient(y, X)
    for again in (tape.gradient, tape.jacobian, tape.batch_jacobian):
        with pytest.raises(RuntimeError, match=r"one set of gradients.*persistent=True"):
            again(y, X)
    with tape:
        tape.watch(X)
        y = X * 3
    close(tape.gradient(y, X), jnp.full(3, 3.0))


def test_a_gradient_within_the_block_ends_a_recording_that_is_not_persistent() -> None:
    with GradientTape() as tape:
        tape.watch(X)
        y = X**2
        close(tape.gradient(y, X), 2 * X)
        with pytest.raises(RuntimeError, match="not recording"):
            tape.watch(X)


def test_a_tape_that_was_never_entered() -> None:
    with pytest.raises(RuntimeError, match="has recorded nothing"):
        GradientTape().gradient(X, X)
    with pytest.raises(RuntimeError, match="not recording"):
        GradientTape().watch(X)


def test_stop_recording() -> None:
    def fn(x: jax.Array) -> Any:
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**2
            with tape.stop_recording():
                z = y * x
                dy = tape.gradient(y, x)
            w = y * z
        return dy, tape.gradient(w, x), tape.gradient(z, x, unconnected_gradients="zero")

    for found in both(fn, X):
        close(found, (2 * X, 2 * X * X**3, jnp.zeros(3)))


def test_reset_forgets() -> None:
    with GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = X**2
        tape.reset()
        z = X * 3
        tape.watch(X)
        w = X * 4
    assert tape.gradient(y, X) is None
    assert tape.gradient(z, X) is None
    close(tape.gradient(w, X), jnp.full(3, 4.0))
    with pytest.raises(RuntimeError, match="not recording"):
        tape.reset()


def test_jacobian() -> None:
    matrix = jnp.arange(6.0).reshape(2, 3)

    def fn(x: jax.Array, pfor: bool) -> Any:
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = matrix @ x**2
        return tape.jacobian(y, {"x": x, "none": matrix}, experimental_use_pfor=pfor)

    for pfor in (True, False):
        for found in (fn(X, pfor), jax.jit(fn, static_argnums=1)(X, pfor)):
            close(found["x"], matrix * 2 * X)
            assert found["none"] is None


def test_jacobian_shapes() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    with GradientTape() as tape:
        tape.watch(x)
        y = jnp.outer(jnp.sum(x, axis=1), jnp.sum(x, axis=0)).reshape(3, 2, 1)
    found = tape.jacobian(y, x)
    wanted = jax.jacobian(
        lambda x: jnp.outer(jnp.sum(x, axis=1), jnp.sum(x, axis=0)).reshape(3, 2, 1)
    )(x)
    assert found.shape == (3, 2, 1, 2, 3)
    close(found, wanted)


@pytest.mark.parametrize("pfor", [True, False])
def test_batch_jacobian(pfor: bool) -> None:
    x = jnp.arange(12.0).reshape(2, 2, 3)
    matrix = jnp.arange(12.0).reshape(3, 4)

    def one(x: jax.Array) -> jax.Array:
        return (x**2) @ matrix

    def fn(x: jax.Array) -> Any:
        with GradientTape() as tape:
            tape.watch(x)
            y = jax.vmap(one)(x)
        return tape.batch_jacobian(y, x, experimental_use_pfor=pfor)

    for found in both(fn, x):
        assert found.shape == (2, 2, 4, 2, 3)
        close(found, jax.vmap(jax.jacobian(one))(x))


def test_batch_jacobian_of_what_does_not_depend() -> None:
    x, y = jnp.ones((2, 3)), jnp.ones((2, 4))
    with GradientTape(persistent=True) as tape:
        tape.watch([x, y])
    assert tape.batch_jacobian(y, x) is None
    close(tape.batch_jacobian(y, x, "zero"), jnp.zeros((2, 4, 3)))
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(3,\)"):
        tape.batch_jacobian(x, X)


def test_integers_have_no_gradient() -> None:
    whole = jnp.arange(3)
    with GradientTape(persistent=True) as tape:
        with pytest.warns(UserWarning, match="floating, but one is of dtype int32") as caught:
            tape.watch([X, whole])
        assert caught[0].filename == __file__
        y = X * whole
        rounded = jnp.round(X).astype(int)
    with pytest.warns(UserWarning, match="source of a GradientTape") as caught:
        found = tape.gradient(y, [X, whole])
    assert caught[0].filename == __file__
    close(found[0], jnp.arange(3.0))
    assert found[1] is None
    with pytest.warns(UserWarning, match="target of a GradientTape"):
        assert tape.gradient(rounded, X) is None


def test_only_arrays_and_variables_can_be_watched() -> None:
    with GradientTape() as tape:
        with pytest.raises(TypeError, match=r"not ndarray; convert it with jax.numpy.asarray"):
            tape.watch(np.ones(3))
        with pytest.raises(TypeError, match="not float"):
            tape.watch([X, 3.0])
    with pytest.raises(TypeError, match="sources of a GradientTape .* not float"):
        tape.gradient(X, 3.0)


def test_half_precision_keeps_its_dtype() -> None:
    x = X.astype(jnp.bfloat16)
    with GradientTape() as tape:
        tape.watch(x)
        y = jnp.sum((x.astype(jnp.float32)) ** 2)
    found = tape.gradient(y, x)
    assert found.dtype == jnp.bfloat16
    close(found.astype(jnp.float32), 2 * X)


def test_a_complex_gradient_is_that_of_jax() -> None:
    z = jnp.array([1 + 2j, 3 - 1j])
    with GradientTape() as tape:
        tape.watch(z)
        y = jnp.sum(jnp.abs(z) ** 2)
    close(tape.gradient(y, z), jax.grad(lambda z: jnp.sum(jnp.abs(z) ** 2))(z))


def test_stop_gradient() -> None:
    def fn(x: jax.Array) -> Any:
        with GradientTape() as tape:
            tape.watch(x)
            y = x * jax.lax.stop_gradient(x) + keras.ops.stop_gradient(x) ** 2
        return tape.gradient(y, x)

    for found in both(fn, X):
        close(found, X)


def test_nested_tapes_must_be_left_in_order() -> None:
    before = jax.config.jax_disable_jit
    outer, inner = GradientTape(), GradientTape()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="reverse order"):
        outer.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="reverse order"):
        inner.__exit__(None, None, None)
    assert jax.config.jax_disable_jit == before
    with GradientTape() as tape:
        tape.watch(X)
        y = X * 2
    close(tape.gradient(y, X), jnp.full(3, 2.0))


def test_a_tape_cannot_be_entered_twice() -> None:
    with GradientTape() as tape, pytest.raises(RuntimeError, match="still recording"):
        tape.__enter__()


def test_an_exception_in_the_block_ends_it() -> None:
    tape = GradientTape(persistent=True)
    found = []

    def failing() -> None:
        with tape:
            tape.watch(X)
            found.append(X * 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    close(tape.gradient(found[0], X), jnp.full(3, 2.0))
    assert tape.gradient(X * X, X) is None


@pytest.mark.parametrize("persistent", [True, False])
def test_what_was_recorded_is_freed_with_the_tape(persistent: bool) -> None:
    def run() -> list[Any]:
        with GradientTape(persistent=persistent) as tape:
            tape.watch(X)
            y = jax.nn.relu(jnp.sin(X) * X)
            z = jnp.sum(y)
        tape.gradient(z, X)
        return [weakref.ref(value) for value in (y, z)]

    gc.collect()
    gc.disable()
    try:
        assert [each() for each in run()] == [None, None]
    finally:
        gc.enable()


def test_a_used_tape_keeps_nothing() -> None:
    with GradientTape() as tape:
        tape.watch(X)
        y = jnp.sin(X) * X
    tape.gradient(y, X)
    seen = weakref.ref(y)
    del y
    assert seen() is None


def test_no_symbol_leaks_from_a_compiled_function() -> None:
    def fn(x: jax.Array) -> Any:
        with GradientTape() as tape:
            tape.watch(x)
            y = jnp.sum(jnp.sin(x) * x)
        return tape.gradient(y, x)

    with jax.checking_leaks():
        close(jax.jit(fn)(X), jnp.sin(X) + X * jnp.cos(X))
