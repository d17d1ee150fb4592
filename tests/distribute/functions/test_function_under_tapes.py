"""Compiled functions under eager tapes: one operation each, with the gradient of all in them."""

import jax
import jax.numpy as jnp
import numpy as np

import drumline as dl


def weighted():
    """A function with a variable that it reads, one that it counts in, and its runs as Python."""
    weight = dl.Variable(np.array([1.0, 2.0], np.float32))
    count = dl.Variable(np.int32(0), trainable=False)
    runs = []

    @dl.function
    def loss(x):
        runs.append(1)
        count.assign_add(1)
        return (jnp.tanh(weight * x) ** 2).sum()

    return loss, weight, count, runs


def gradients_of(loss, weight, x):
    with dl.GradientTape() as tape:
        tape.watch(x)
        value = loss(x) * 3
    return value, *tape.gradient(value, [weight, x])


def test_a_compiled_function_is_not_run_as_python_again_under_a_tape():
    loss, weight, count, runs = weighted()
    x = jnp.array([0.5, -1.0])
    first = gradients_of(loss, weight, x)
    once = len(runs)
    for _ in range(3):
        again = gradients_of(loss, weight, x)
    assert len(runs) == once and count.value == 4
    expected = jax.value_and_grad(lambda w, x: 3 * (jnp.tanh(w * x) ** 2).sum(), argnums=(0, 1))(
        weight.value, x
    )
    for found in (first, again):
        for mine, reference in zip(found, jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-6)
    with jax.disable_jit():
        gradients_of(loss, weight, x)
    assert len(runs) > once


def test_a_loop_of_unknown_length_has_a_gradient_under_a_tape():
    weight = dl.Variable(np.float32(1.5))

    @dl.function
    def power(n):
        return jax.lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * weight.value), (0, jnp.float32(1))
        )[1]

    for n in (3, 5):
        with dl.GradientTape() as tape:
            value = power(jnp.asarray(n))
        np.testing.assert_allclose(tape.gradient(value, weight), n * 1.5 ** (n - 1), rtol=1e-6)


def test_what_a_function_closes_over_has_a_gradient():
    weight = dl.Variable(np.float32(2.0))
    for _ in range(2):
        with dl.GradientTape() as tape:
            squared = weight.value**2
            value = dl.function(lambda x: x * squared)(jnp.float32(3))  # noqa: B023
        assert tape.gradient(value, weight) == 12


def test_second_derivatives_and_jacobians_go_through_a_function():
    weight = dl.Variable(np.float32(0.5))

    @dl.function
    def cubed(x):
        return weight**3 * x

    x = jnp.array([1.0, 2.0])
    for _ in range(2):
        with dl.GradientTape() as outer:
            with dl.GradientTape() as inner:
                value = cubed(x).sum()
            slope = inner.gradient(value, weight)
        np.testing.assert_allclose(outer.gradient(slope, weight), 6 * 0.5 * 3)
        with dl.GradientTape() as tape:
            values = cubed(x)
        np.testing.assert_allclose(tape.jacobian(values, weight), 3 * 0.25 * x)


def test_a_variable_that_a_function_writes_carries_the_gradient_on():
    weight, total = dl.Variable(np.float32(2.0)), dl.Variable(np.float32(0.0), trainable=False)

    @dl.function
    def add(x):
        total.assign_add(weight * x)

    for _ in range(2):
        total.assign(0.0)
        with dl.GradientTape() as tape:
            add(jnp.float32(3))
            add(jnp.float32(4))
            value = total.value * 2
        assert value == 28 and tape.gradient(value, weight) == 14
