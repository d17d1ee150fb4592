"""GradientTape through JAX's own transformations, and JAX's transformations over tapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from drumline.training.tape import GradientTape

X = jnp.array([0.5, -1.0, 2.0])
W = jnp.array([[0.3, -0.2, 0.5], [1.0, 0.1, -0.4], [0.2, 0.7, 0.6]])


def close(found: Any, wanted: Any, rtol: float = 2e-6) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), found, wanted)


def tape_grad(fn: Callable[..., jax.Array]) -> Callable[..., Any]:
    """As ``jax.grad`` by all arguments, with a tape."""

    def grad(*args: jax.Array) -> Any:
        with GradientTape() as tape:
            tape.watch(args)
            target = fn(*args)
        return tape.gradient(target, args)

    return grad


def jitted(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(jax.jit(lambda x, w: jnp.tanh(w @ x) * x)(x, w) ** 2)


def jitted_closure(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(jax.jit(lambda x: jnp.tanh(w @ x))(x) ** 2)


def jitted_scalar_closure(x: jax.Array, w: jax.Array) -> jax.Array:
    scale = w[0, 1] * 2
    return jnp.sum(jax.jit(lambda x: jnp.tanh(x * scale))(x) ** 2)


def scanned(x: jax.Array, w: jax.Array) -> jax.Array:
    def body(state: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = jnp.tanh(w @ state) * scale
        return state, state[0] * w[0, 1]

    state, rows = jax.lax.scan(body, x, jnp.arange(1.0, 5.0))
    return jnp.sum(state**2) + jnp.sum(rows)


def counted_loop(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(jax.lax.fori_loop(0, 3, lambda i, s: jnp.sin(w @ s) + i, x))


def mapped(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(jax.lax.map(lambda row: jnp.tanh(row @ x), w))


def conditional(x: jax.Array, w: jax.Array) -> jax.Array:
    first = jax.lax.cond(x[0] > 0, lambda x: jnp.sum(w @ x), lambda x: jnp.sum(x**2), x)
    return first * jax.lax.switch(2, [jnp.sum, jnp.max, lambda x: jnp.prod(x * w[0, 1])], x)


def checkpointed(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(jax.checkpoint(lambda x: jnp.sin(w @ jnp.sin(x)))(x))


def batched(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(jax.vmap(lambda row: jnp.tanh(row @ x) * w[0, 1])(w))


def inner_gradients(x: jax.Array, w: jax.Array) -> jax.Array:
    slope = jax.grad(lambda x: jnp.sum(jnp.sin(w @ x)))(x)
    value, tangent = jax.jvp(lambda x: jnp.cos(w @ x), (x,), (slope,))
    return jnp.sum(value * tangent) + jnp.sum(jax.hessian(lambda x: jnp.sum((w @ x) ** 3))(x))


def library(x: jax.Array, w: jax.Array) -> jax.Array:
    hidden = jax.nn.gelu(jax.nn.silu(w @ x)) + jax.nn.relu(x) + jax.nn.softmax(x)
    picked = jnp.where(hidden > 0, hidden, jnp.expm1(hidden))[jnp.array([0, 2, 2])]
    spread = jnp.sort(jnp.concatenate([picked, x])).reshape(2, 3) @ w
    return jax.nn.logsumexp(spread) + jnp.linalg.det(w) + jnp.std(w, axis=0).sum()


def updated(x: jax.Array, w: jax.Array) -> jax.Array:
    w = w.at[1, :].set(x * 2).at[:, 0].multiply(x)
    return jnp.sum(jax.lax.dynamic_slice(w, (0, 1), (2, 2)) ** 2) + jnp.linalg.norm(w)


def referenced(x: jax.Array, w: jax.Array) -> jax.Array:
    ref = jax.new_ref(jnp.zeros(3))
    ref[...] = x * 2
    ref[...] += w @ x
    return jnp.sum(ref[...] ** 2)


def printed(x: jax.Array, w: jax.Array) -> jax.Array:
    jax.debug.callback(lambda value: None, x * 2)
    return jnp.sum(w @ x)


@jax.custom_jvp
def odd_sine(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


odd_sine.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 7.0 * primals[0] * tangents[0]))


@jax.custom_vjp
def reversed_gradient(x: jax.Array) -> jax.Array:
    return x


reversed_gradient.defvjp(lambda x: (x, x), lambda x, ct: (-3.0 * x * ct,))


@jax.custom_jvp
def cubed(x: jax.Array) -> jax.Array:
    return x**3


cubed.defjvp(lambda primals, tangents: (cubed(*primals), 3 * primals[0] ** 2 * tangents[0]))


@jax.custom_vjp
def squared(x: jax.Array) -> jax.Array:
    return x**2


squared.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * ct,))


def custom_rules(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.sum(odd_sine(w @ x) * reversed_gradient(x) + x**2)


FUNCTIONS = [
    jitted,
    jitted_closure,
    jitted_scalar_closure,
    scanned,
    counted_loop,
    mapped,
    conditional,
    checkpointed,
    batched,
    inner_gradients,
    library,
    updated,
    printed,
    custom_rules,
]
every_function = pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)


@every_function
def test_eager(fn: Callable[..., jax.Array]) -> None:
    close(tape_grad(fn)(X, W), jax.grad(fn, (0, 1))(X, W))


def test_mutable_references() -> None:
    wanted = jax.jit(jax.grad(referenced, (0, 1)))(X, W)
    close(tape_grad(referenced)(X, W), wanted)
    close(jax.jit(tape_grad(referenced))(X, W), wanted)


@every_function
def test_in_a_compiled_function(fn: Callable[..., jax.Array]) -> None:
    close(jax.jit(tape_grad(fn))(X, W), jax.grad(fn, (0, 1))(X, W))


@pytest.mark.thorough
@every_function
def test_second_derivatives_in_a_compiled_function(fn: Callable[..., jax.Array]) -> None:
    def of_gradient(grad: Callable[..., Any]) -> Callable[..., jax.Array]:
        return lambda x, w: sum(jnp.sum(jnp.sin(each)) for each in grad(x, w))

    wanted = jax.grad(of_gradient(jax.grad(fn, (0, 1))), (0, 1))(X, W)
    close(jax.jit(tape_grad(of_gradient(tape_grad(fn))))(X, W), wanted, rtol=2e-4)
    close(jax.jit(jax.grad(of_gradient(tape_grad(fn)), (0, 1)))(X, W), wanted, rtol=2e-4)
    close(jax.jit(tape_grad(of_gradient(jax.grad(fn, (0, 1)))))(X, W), wanted, rtol=2e-4)


@pytest.mark.parametrize("fn", [custom_rules, scanned, batched], ids=lambda fn: fn.__name__)
def test_second_derivatives_eagerly(fn: Callable[..., jax.Array]) -> None:
    def of_gradient(grad: Callable[..., Any]) -> Callable[..., jax.Array]:
        return lambda x, w: sum(jnp.sum(jnp.sin(each)) for each in grad(x, w))

    wanted = jax.grad(of_gradient(jax.grad(fn, (0, 1))), (0, 1))(X, W)
    close(tape_grad(of_gradient(tape_grad(fn)))(X, W), wanted, rtol=2e-4)
    close(jax.grad(of_gradient(tape_grad(fn)), (0, 1))(X, W), wanted, rtol=2e-4)
    close(tape_grad(of_gradient(jax.grad(fn, (0, 1))))(X, W), wanted, rtol=2e-4)


def test_one_tape_differentiates_itself_through_everything() -> None:
    def total(grads: Any) -> jax.Array:
        return sum(jnp.sum(jnp.sin(each)) for each in grads)

    def with_true_rules(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(cubed(w @ x) * jax.nn.silu(x) + squared(x) * x)

    for fn in (scanned, with_true_rules, batched, checkpointed):

        def twice(x: jax.Array, w: jax.Array, fn: Any = fn) -> Any:
            with GradientTape(persistent=True) as tape:
                tape.watch((x, w))
                first = tape.gradient(fn(x, w), (x, w))
                second = tape.gradient(total(first), (x, w))
            return second

        wanted = jax.grad(lambda x, w, fn=fn: total(jax.grad(fn, (0, 1))(x, w)), (0, 1))(X, W)
        close(jax.jit(twice)(X, W), wanted, rtol=2e-4)


@pytest.mark.thorough
@every_function
def test_vmap_over_a_tape(fn: Callable[..., jax.Array]) -> None:
    batch = jnp.stack([X, X + 1, X * 2])
    found = jax.vmap(tape_grad(fn), in_axes=(0, None))(batch, W)
    wanted = jax.vmap(jax.grad(fn, (0, 1)), in_axes=(0, None))(batch, W)
    close(found, wanted, rtol=1e-5)


def test_forward_derivatives_and_jacobians_over_a_tape() -> None:
    fn = tape_grad(custom_rules)
    wanted = jax.grad(custom_rules, (0, 1))
    close(jax.jvp(fn, (X, W), (X, W)), jax.jvp(wanted, (X, W), (X, W)), rtol=1e-5)
    close(jax.jacobian(fn)(X, W), jax.jacobian(wanted)(X, W), rtol=1e-5)
    _, pull = jax.vjp(fn, X, W)
    _, pull_wanted = jax.vjp(wanted, X, W)
    close(pull((X, W)), pull_wanted((X, W)), rtol=1e-5)


def test_a_tape_in_the_body_of_a_scan() -> None:
    def descend(grad: Callable[..., Any]) -> Any:
        def body(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            gradient = grad(x, w)[1]
            return w - 0.1 * gradient, jnp.sum(gradient)

        return jax.lax.scan(body, W, jnp.stack([X, X + 1, X * 2]))

    close(descend(tape_grad(jitted)), descend(jax.grad(jitted, (0, 1))))


def test_a_tape_in_a_branch_and_in_a_while_loop() -> None:
    def fn(grad: Callable[..., Any]) -> Any:
        def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            count, x = state
            return count + 1, x - 0.1 * grad(x, W)[0]

        branch = jax.lax.cond(X[0] > 0, lambda x: grad(x, W)[0], lambda x: x * grad(x, W)[1][0], X)
        return branch, jax.lax.while_loop(lambda state: state[0] < 3, step, (0, X))

    close(fn(tape_grad(jitted)), fn(jax.grad(jitted, (0, 1))))


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", [True, False])
def test_a_tape_in_shard_map(compiled: bool) -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("replica",))
    batch = jnp.stack([X, X + 1, X * 2, X - 3])

    def step(batch: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        with GradientTape() as tape:
            tape.watch(w)
            loss = jnp.mean(jax.vmap(lambda x: scanned(x, w))(batch))
        return jax.lax.pmean(tape.gradient(loss, w), "replica"), jax.lax.pmean(loss, "replica")

    def plain(batch: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.mean(jax.vmap(lambda x: scanned(x, w))(batch))

    sharded = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(PartitionSpec("replica"), PartitionSpec()),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    gradient, loss = (jax.jit(sharded) if compiled else sharded)(batch, W)
    close(gradient, jax.grad(plain, 1)(batch, W))
    close(loss, plain(batch, W))


def test_a_tape_in_shard_map_that_tracks_what_varies() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("replica",))

    def fn(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x) * w)

    def both(x: jax.Array, w: jax.Array) -> Any:
        with GradientTape() as tape:
            tape.watch(w)
            y = fn(x, w)
        return tape.gradient(y, w, output_gradients=jnp.array(2.0)), jax.grad(fn, 1)(x, w)

    sharded = jax.shard_map(
        both,
        mesh=mesh,
        in_specs=(PartitionSpec("replica"), PartitionSpec()),
        out_specs=PartitionSpec(),
    )
    found, wanted = jax.jit(sharded)(jnp.arange(1.0, 5.0), jnp.array([2.0, 3.0]))
    close(found, 2 * wanted)


def test_collectives_within_the_block() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("replica",))

    def grad(taken: Callable[..., Any]) -> Any:
        def step(x: jax.Array) -> jax.Array:
            return taken(lambda x: jnp.sum(jax.lax.all_gather(x, "replica") ** 3))(x)

        return jax.jit(
            jax.shard_map(
                step,
                mesh=mesh,
                in_specs=PartitionSpec("replica"),
                out_specs=PartitionSpec("replica"),
                check_vma=False,
            )
        )(jnp.arange(1.0, 5.0))

    close(grad(lambda fn: lambda x: tape_grad(fn)(x)[0]), grad(jax.grad))


def test_a_shard_map_within_the_block() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("replica",))

    def body(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sin(x @ w)

    def fn(x: jax.Array, w: jax.Array) -> jax.Array:
        sharded = jax.shard_map(
            body,
            mesh=mesh,
            in_specs=(PartitionSpec("replica"), PartitionSpec()),
            out_specs=PartitionSpec("replica"),
            check_vma=False,
        )
        return jnp.sum(sharded(x, w) ** 2)

    batch = jnp.stack([X, X + 1])
    close(jax.jit(tape_grad(fn))(batch, W), jax.grad(fn, (0, 1))(batch, W))


def test_closures_that_would_lose_a_gradient_are_refused() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("replica",))
    w = W * 1.0

    @jax.custom_vjp
    def by_w(x: jax.Array) -> jax.Array:
        return x @ w

    by_w.defvjp(lambda x: (x @ w, None), lambda _, ct: (ct @ w.T,))

    @jax.custom_jvp
    def scaled(x: jax.Array) -> jax.Array:
        return x * w[0]

    scaled.defjvp(lambda primals, tangents: (primals[0] * w[0], tangents[0] * w[0]))
    spread = jax.shard_map(
        lambda x: x * w[0, 0],
        mesh=mesh,
        in_specs=PartitionSpec(),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    for fn in (by_w, scaled, spread):
        for watched in ((w,), (w, X)):
            with GradientTape() as tape:
                tape.watch(watched)
                with pytest.raises(NotImplementedError, match="Pass the value as an argument"):
                    fn(X)
    with GradientTape() as tape:
        tape.watch(X)
        y = by_w(X) + scaled(X)
    close(tape.gradient(y, X), jax.grad(lambda x: jnp.sum(by_w(x) + scaled(x)))(X))


def test_an_array_that_a_compiled_program_took_for_constant_is_refused() -> None:
    constant = W * 1.0

    @jax.jit
    def fn(x: jax.Array) -> Any:
        with GradientTape() as tape:
            tape.watch(constant)
            y = jax.jit(lambda x: constant[0] * x)(x)
        return tape.gradient(y, constant)

    with pytest.raises(NotImplementedError, match="Pass the value as an argument"):
        fn(X)


def test_watching_the_symbols_of_an_inner_function_is_refused() -> None:
    def fn(x: jax.Array) -> jax.Array:
        with GradientTape() as tape:
            tape.watch(x)

            def inner(x: jax.Array) -> jax.Array:
                tape.watch(x)
                return x * 2

            return jax.vmap(inner)(x)

    with pytest.raises(RuntimeError, match="Enter the tape inside that function"):
        jax.jit(fn)(X)


def test_a_rule_that_returns_its_argument_leaves_the_argument_alone() -> None:
    def fn(x: jax.Array) -> jax.Array:
        return jnp.sum(reversed_gradient(x) + 2.0 * x)

    for grad in (tape_grad(fn), jax.jit(tape_grad(fn))):
        close(grad(X), (-3 * X + 2,))


def test_reverse_mode_through_a_while_loop_fails_only_when_asked_for() -> None:
    def fn(x: jax.Array, wanted: bool) -> Any:
        with GradientTape() as tape:
            tape.watch(x)
            looped = jax.lax.while_loop(lambda y: jnp.sum(y) < 100, lambda y: y * 3 + 9, x)
            y = x**2
        return tape.gradient(looped if wanted else y, x), looped

    close(jax.jit(fn, static_argnums=1)(X, False)[0], 2 * X)
    with pytest.raises(ValueError, match="does not work for lax.while_loop"):
        jax.jit(fn, static_argnums=1)(X, True)
    # Eagerly the loop is Python's.
    found, looped = fn(X, True)
    close(found, jnp.round(jnp.gradient(looped) / jnp.gradient(X)))


def test_operations_without_derivatives_fail_only_when_asked_for() -> None:
    def host(x: Any) -> Any:
        return np.asarray(x) * 2

    def fn(x: jax.Array, wanted: bool) -> Any:
        with GradientTape() as tape:
            tape.watch(x)
            called = jax.pure_callback(host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
            y = x**2 + jax.lax.stop_gradient(called)
            z = called * x
        return tape.gradient(z if wanted else y, x)

    for each in (fn, jax.jit(fn, static_argnums=1)):
        close(each(X, False), 2 * X)
        with pytest.raises(NotImplementedError, match=r"pure_callback.*stop_gradient"):
            each(X, True)


def test_two_tapes_use_one_compiled_function() -> None:
    @jax.jit
    def shared(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * x

    def fn(x: jax.Array) -> Any:
        found = []
        for factor in (1.0, 2.0):
            with GradientTape() as tape:
                tape.watch(x)
                y = shared(x) * factor
            found.append(tape.gradient(y, x))
        return found

    wanted = jnp.sin(X) + X * jnp.cos(X)
    for found in (fn(X), jax.jit(fn)(X)):
        close(found, [wanted, 2 * wanted])


def test_random_numbers_are_those_without_a_tape() -> None:
    key = jax.random.key(3)

    def noise() -> jax.Array:
        return jax.random.normal(key, (3,)) + jax.random.bernoulli(key, 0.4, (3,))

    with GradientTape() as tape:
        tape.watch(X)
        y = X * noise()
    close(tape.gradient(y, X), noise())
