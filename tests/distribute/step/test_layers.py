"""Keras's layers and metrics inside a step."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from tests.distribute.step.loops import mirrored


def test_dropout_differs_by_replica_and_repeats() -> None:
    def masks() -> list[list[list[float]]]:
        strategy = mirrored(2)
        with strategy.scope():
            layer = keras.layers.Dropout(0.5, seed=7)
        x = np.ones((2, 64), np.float32)
        (batch,) = strategy.experimental_distribute_dataset([x])
        step = lambda x: layer(x, training=True)  # noqa: E731
        return [
            [np.asarray(v).tolist() for v in strategy.run(step, args=(batch,)).values] for _ in "ab"
        ]

    first, second = masks()
    assert first[0] != first[1] and first != second
    assert masks() == [first, second]


@pytest.mark.parametrize("rows", [8, 5])
def test_batch_normalization_sees_its_share_and_no_padding(rows: int) -> None:
    strategy = mirrored(2)
    with strategy.scope():
        layer = keras.layers.BatchNormalization(momentum=0.0)
        layer.build((None, 3))
    x = np.random.default_rng(0).normal(5, 2, (rows, 3)).astype(np.float32)
    (batch,) = strategy.experimental_distribute_dataset([x])
    out = strategy.run(lambda x: layer(x, training=True), args=(batch,))
    shares = [np.asarray(share) for share in batch.values]
    for share, normal in zip(shares, out.values, strict=True):
        np.testing.assert_allclose(
            np.asarray(normal), (share - share.mean(0)) / np.sqrt(share.var(0) + 1e-3), atol=1e-4
        )
    mean = np.mean([share.mean(0) for share in shares], 0)
    np.testing.assert_allclose(np.asarray(layer.moving_mean.value), mean, rtol=1e-5)


def test_metrics_count_everything_once() -> None:
    strategy = mirrored(4)
    with strategy.scope():
        mean, seen = keras.metrics.Mean(), keras.metrics.Sum()
    values = np.arange(23.0, dtype=np.float32)
    distributed = strategy.experimental_distribute_dataset(
        dl.data.Dataset.from_tensor_slices(values).batch(8)
    )

    def step(x: Any) -> None:
        mean.update_state(x)
        seen.update_state(jnp.ones_like(x))

    for _ in range(2):
        for batch in distributed:
            strategy.run(step, args=(batch,))
        assert float(mean.result()) == values.mean() and float(seen.result()) == 23
        mean.reset_state()
        seen.reset_state()


def test_gradients_are_left_to_the_user_if_asked() -> None:
    strategy = mirrored(2)
    with strategy.scope():
        v = dl.Variable(0.0)
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.build([v])

    def summed() -> None:
        optimizer.apply_gradients([(jnp.float32(1), v)])

    def own() -> None:
        gradient = dl.distribute.get_replica_context().all_reduce("MEAN", jnp.float32(1))
        optimizer.apply_gradients([(gradient, v)], experimental_aggregate_gradients=False)

    strategy.run(summed)
    assert float(v.value) == -2.0
    strategy.run(own)
    assert float(v.value) == -3.0


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rows", [4, 3])
def test_losses_of_a_regularized_model_that_was_built_before(rows: int, compiled: bool) -> None:
    strategy = mirrored(2)
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((1,)), keras.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(3))]
        )
        model.layers[0].kernel.assign([[1.0, 2.0]])

    def step(x: Any) -> Any:
        before = dl.nn.scale_regularization_loss(model.losses)
        model.layers[0].kernel.assign([[2.0, 2.0]])
        return before, dl.nn.scale_regularization_loss(model.losses), model(x).sum()

    def run(x: Any) -> Any:
        return strategy.run(step, args=(x,))

    (x,) = strategy.experimental_distribute_dataset([np.ones((rows, 1), np.float32)])
    before, after, _ = (dl.function(run) if compiled else run)(x)
    assert float(strategy.reduce("SUM", before)) == 15
    assert float(strategy.reduce("SUM", after)) == 24


@pytest.mark.parametrize("rows", [16, 15])
def test_float8_takes_its_scales_from_all_replicas(rows: int) -> None:
    """The first replica's rows are the small ones: its own largest values would be others."""
    x = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    x[rows // 2 :] *= 8

    def trained(strategy: dl.distribute.Strategy) -> tuple[list[float], dict[str, Any]]:
        with strategy.scope():
            draw = keras.initializers.GlorotUniform(seed=3)
            dense = [
                keras.layers.Dense(
                    units,
                    kernel_initializer=draw,
                    dtype="float8_from_float32",
                    name=f"dense{units}",
                )
                for units in (8, 2)
            ]
            model = keras.Sequential([keras.Input((4,)), *dense])
            optimizer = keras.optimizers.SGD(0.001)
            optimizer.build(model.trainable_variables)

        def step(x: Any) -> Any:
            with dl.GradientTape() as tape:
                loss = dl.nn.compute_average_loss(
                    jnp.sum((model(x, training=True) - 1) ** 2, -1), global_batch_size=rows
                )
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
            return loss

        (batch,) = strategy.experimental_distribute_dataset([x])
        losses = [float(strategy.reduce("SUM", strategy.run(step, args=(batch,)))) for _ in "abc"]
        values = {v.path.partition("/")[2]: np.asarray(v.value) for v in model.variables}
        return losses, values

    expected_losses, expected = trained(dl.distribute.OneDeviceStrategy("cpu:0"))
    losses, found = trained(mirrored(2))
    assert expected_losses[-1] < expected_losses[0]
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-3)
    scales = [path for path in found if "amax_history" in path or "scale" in path]
    assert len(scales) == 12
    for path in scales:  # a sum of the replicas' would be off by a half
        np.testing.assert_allclose(found[path], expected[path], rtol=1e-2, err_msg=path)
