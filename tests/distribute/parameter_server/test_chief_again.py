"""A chief that starts again, and programs with several strategies or optimizers."""

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.parameter_server import strategy as strategies
from tests.distribute.parameter_server.clusters import in_process


@pytest.fixture(scope="module")
def first():
    with in_process(workers=1, ps=1) as strategy:
        yield strategy


def trained(strategy, *optimizers, steps=2):
    """Values after some steps with a gradient of ones, each by its own optimizer."""
    with strategy.scope():
        values = [dl.Variable(np.full(2, 5.0, "float32"), name="value") for _ in optimizers]

    def step():
        with dl.GradientTape() as tape:
            loss = sum(keras.ops.sum(value) for value in values)
        for value, gradient, optimizer in zip(
            values, tape.gradient(loss, values), optimizers, strict=True
        ):
            optimizer.apply_gradients([(gradient, value)])

    coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
    for _ in range(steps):
        coordinator.schedule(step)
    coordinator.join()
    return [float(value.numpy()[0]) for value in values]


def test_optimizers_of_one_kind_have_learning_rates_of_their_own(first):
    rates = keras.optimizers.SGD(0.5), keras.optimizers.SGD(0.25)
    assert trained(first, *rates) == [4.0, 4.5]


def test_another_strategy_of_the_program_has_other_variables(first, monkeypatch):
    resolver = first.cluster_resolver
    second = dl.distribute.ParameterServerStrategy(resolver)
    assert trained(second, keras.optimizers.SGD(1.0)) == [3.0]
    monkeypatch.setattr(strategies, "_strategies", strategies.collections.Counter())
    trained(dl.distribute.ParameterServerStrategy(resolver), keras.optimizers.SGD(1.0))
    again = dl.distribute.ParameterServerStrategy(resolver)
    assert trained(again, keras.optimizers.SGD(1.0)) == [1.0]


def test_a_chief_may_start_again_with_another_optimizer(first, monkeypatch):
    monkeypatch.setattr(strategies, "_strategies", strategies.collections.Counter())
    resolver = first.cluster_resolver
    before = trained(dl.distribute.ParameterServerStrategy(resolver), keras.optimizers.SGD(0.5))
    strategies._strategies.clear()
    anew = dl.distribute.ParameterServerStrategy(resolver)
    (after,) = trained(anew, keras.optimizers.Adam(0.5))
    np.testing.assert_allclose(after, before[0] - 1.0, atol=1e-4)
