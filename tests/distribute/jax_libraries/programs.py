"""Training programs as users of JAX's libraries write them, and the same on one device.

A program makes what it trains (a pytree) and has a step that takes it, a batch and a function that
sums a pytree over the replicas. Without a strategy that function gives back what it gets, and the
batch is the whole one: that is JAX alone, and the reference.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl

BATCH = 8
FEATURES, CLASSES = 5, 3

Sum = Callable[[Any], Any]


@dataclass(frozen=True)
class Program:
    """A training.

    Attributes:
        start: makes what is trained: parameters and the optimizer's state.
        step: ``step(state, x, y, sum)`` returns the new state and the batch's loss.
        requires: what has to be installed.
    """

    start: Callable[[], Any]
    step: Callable[[Any, Any, Any, Sum], tuple[Any, Any]]
    requires: tuple[str, ...]


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(count, FEATURES)).astype(np.float32)
    return x, rng.integers(0, CLASSES, count).astype(np.int32)


def alone(program: Program, count: int, epochs: int) -> tuple[Any, list[float]]:
    """The training by JAX alone: what is trained, and the loss of every step."""
    x, y = rows(count)
    state, losses = program.start(), []
    step = jax.jit(lambda state, x, y: program.step(state, x, y, lambda tree: tree))
    for _ in range(epochs):
        for at in range(0, count, BATCH):
            state, loss = step(state, x[at : at + BATCH], y[at : at + BATCH])
            losses.append(float(loss))
    return state, losses


def distributed(
    program: Program, strategy: dl.distribute.Strategy, count: int, epochs: int, *, compiled: bool
) -> tuple[Any, list[float]]:
    """The same by `strategy.run`, an epoch in a `dl.function` if `compiled`."""

    def step(state: Any, x: Any, y: Any) -> Any:
        context = dl.distribute.get_replica_context()
        assert context is not None
        return program.step(state, x, y, lambda tree: context.all_reduce("SUM", tree))

    def epoch(state: Any, losses: Any, number: Any, data: Any) -> Any:
        for x, y in data:
            state, loss = strategy.run(step, args=(state, x, y))
            losses = losses.at[number].set(strategy.reduce("MEAN", loss))
            number = number + 1
        return state, losses, number

    if compiled:
        epoch = dl.function(epoch)
    data = strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensor_slices(rows(count)).batch(BATCH)
    )
    state, number = program.start(), jnp.zeros((), jnp.int32)
    losses = jnp.zeros(epochs * -(-count // BATCH))
    for _ in range(epochs):
        state, losses, number = epoch(state, losses, number, data)
    return strategy.experimental_local_results(state), np.asarray(losses).tolist()


def assert_equal_to_one_device(
    name: str, replicas: int, count: int, epochs: int, *, compiled: bool
) -> None:
    """Train under a strategy and alone, and compare all that is trained, and every loss."""
    program = PROGRAMS[name]
    for module in program.requires:
        pytest.importorskip(module, reason=f"{module} is not installed", exc_type=ImportError)
    strategy = dl.distribute.MirroredStrategy([f"cpu:{index}" for index in range(replicas)])
    expected, expected_losses = alone(program, count, epochs)
    states, losses = distributed(program, strategy, count, epochs, compiled=compiled)
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-5, atol=2e-6)
    for state in states:
        for each, got in zip(jax.tree.leaves(expected), jax.tree.leaves(state), strict=True):
            _assert_close(each, got)


def _assert_close(expected: Any, got: Any) -> None:
    if jnp.issubdtype(expected.dtype, jax.dtypes.prng_key):
        expected, got = jax.random.key_data(expected), jax.random.key_data(got)
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


def cross_entropy(logits: Any, y: Any) -> Any:
    """The loss of each row."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _optimizer() -> Any:
    optax = _module("optax")
    # Adam's usual epsilon makes large steps of rounding where a gradient is nearly zero.
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.05, eps=1e-3))


def _dense(key: Any) -> Any:
    first, second = jax.random.split(key)
    return {
        "hidden": jax.random.normal(first, (FEATURES, 7)) * 0.4,
        "out": jax.random.normal(second, (7, CLASSES)) * 0.4,
        "bias": jnp.zeros(CLASSES),
    }


def _dense_logits(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["hidden"]) @ params["out"] + params["bias"]


def _updated(optimizer: Any, grads: Any, opt_state: Any, params: Any) -> tuple[Any, Any]:
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return _module("optax").apply_updates(params, updates), opt_state


def _plain_start() -> Any:
    return _dense(jax.random.PRNGKey(0))


def _plain_step(params: Any, x: Any, y: Any, total: Sum) -> Any:
    loss, grads = jax.value_and_grad(
        lambda params: cross_entropy(_dense_logits(params, x), y).sum() / BATCH
    )(params)
    loss, grads = total((loss, grads))
    return jax.tree.map(lambda p, g: p - 0.3 * g, params, grads), loss


def _optax_start() -> Any:
    params = _dense(jax.random.key(1))
    return params, _optimizer().init(params), jax.random.key(7)


def _optax_step(state: Any, x: Any, y: Any, total: Sum) -> Any:
    """Adam with clipping, and noise in the gradient that is drawn from a key in the state."""
    params, opt_state, key = state
    loss, grads = jax.value_and_grad(
        lambda params: cross_entropy(_dense_logits(params, x), y).sum() / BATCH
    )(params)
    loss, grads = total((loss, grads))
    key, used = jax.random.split(key)
    noise = jax.random.normal(used, grads["bias"].shape) * 0.01
    grads["bias"] = grads["bias"] + noise
    params, opt_state = _updated(_optimizer(), grads, opt_state, params)
    return (params, opt_state, key), loss


def _linen_model() -> Any:
    nn = _module("flax.linen")
    return nn.Sequential([nn.Dense(7), nn.tanh, nn.LayerNorm(), nn.Dense(CLASSES)])


def _linen_start() -> Any:
    train_state = _module("flax.training.train_state")
    model = _linen_model()
    params = model.init(jax.random.key(2), jnp.zeros((1, FEATURES)))["params"]
    return train_state.TrainState.create(apply_fn=model.apply, params=params, tx=_optimizer())


def _linen_step(state: Any, x: Any, y: Any, total: Sum) -> Any:
    def loss_of(params: Any) -> Any:
        return cross_entropy(state.apply_fn({"params": params}, x), y).sum() / BATCH

    loss, grads = total(jax.value_and_grad(loss_of)(state.params))
    return state.apply_gradients(grads=grads), loss


def _nnx_model(rate: float) -> Any:
    nnx = _module("flax.nnx")
    rngs = nnx.Rngs(params=3, dropout=4)
    return nnx.Sequential(
        nnx.Linear(FEATURES, 7, rngs=rngs),
        nnx.tanh,
        nnx.Dropout(rate, rngs=rngs),
        nnx.Linear(7, CLASSES, rngs=rngs),
    )


@dataclass(frozen=True)
class _Nnx:
    """An nnx module, taken apart for each step. Its Dropout has a typed key and a count.

    Args:
        rate: of the Dropout. Masks are drawn for a replica's rows, so that only a rate of 0 gives
            one device's numbers.
    """

    rate: float

    def start(self) -> Any:
        nnx = _module("flax.nnx")
        _, params, rest = nnx.split(_nnx_model(self.rate), nnx.Param, ...)
        return params, rest, _optimizer().init(params)

    def step(self, state: Any, x: Any, y: Any, total: Sum) -> Any:
        nnx = _module("flax.nnx")
        params, rest, opt_state = state
        graph = nnx.graphdef(_nnx_model(self.rate))

        def loss_of(params: Any) -> Any:
            model = nnx.merge(graph, params, rest)
            loss = cross_entropy(model(x), y).sum() / BATCH
            return loss, nnx.state(model, nnx.Not(nnx.Param))

        (loss, rest), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        loss, grads = total((loss, grads))
        params, opt_state = _updated(_optimizer(), grads, opt_state, params)
        return (params, rest, opt_state), loss


def _equinox_start() -> Any:
    eqx = _module("equinox")
    model = eqx.nn.MLP(FEATURES, CLASSES, 7, 1, activation=jnp.tanh, key=jax.random.key(5))
    arrays = eqx.filter(model, eqx.is_inexact_array)
    return arrays, _optimizer().init(arrays)


def _equinox_step(state: Any, x: Any, y: Any, total: Sum) -> Any:
    eqx = _module("equinox")
    arrays, opt_state = state
    whole = eqx.nn.MLP(FEATURES, CLASSES, 7, 1, activation=jnp.tanh, key=jax.random.key(5))
    static = eqx.filter(whole, eqx.is_inexact_array, inverse=True)

    def loss_of(arrays: Any) -> Any:
        logits = jax.vmap(eqx.combine(arrays, static))(x)
        return cross_entropy(logits, y).sum() / BATCH

    loss, grads = total(eqx.filter_value_and_grad(loss_of)(arrays))
    updates, opt_state = _optimizer().update(grads, opt_state, arrays)
    return (eqx.apply_updates(arrays, updates), opt_state), loss


def _accumulating_step(state: Any, x: Any, y: Any, total: Sum) -> Any:
    """The update every second step, by `optax.MultiSteps`."""
    params, opt_state = state
    optimizer = _module("optax").MultiSteps(_optimizer(), every_k_schedule=2)
    loss, grads = jax.value_and_grad(
        lambda params: cross_entropy(_dense_logits(params, x), y).sum() / BATCH
    )(params)
    loss, grads = total((loss, grads))
    return _updated(optimizer, grads, opt_state, params), loss


def _accumulating_start() -> Any:
    params = _dense(jax.random.key(6))
    return params, _module("optax").MultiSteps(_optimizer(), every_k_schedule=2).init(params)


PROGRAMS = {
    "jax alone": Program(_plain_start, _plain_step, ()),
    "optax": Program(_optax_start, _optax_step, ("optax",)),
    "optax, accumulating": Program(_accumulating_start, _accumulating_step, ("optax",)),
    "flax.linen": Program(_linen_start, _linen_step, ("flax", "optax")),
    "flax.nnx": Program(_Nnx(0.0).start, _Nnx(0.0).step, ("flax", "optax")),
    "equinox": Program(_equinox_start, _equinox_step, ("equinox", "optax")),
}
