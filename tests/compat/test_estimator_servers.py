"""``tf.estimator`` on parameter servers: optimizers of ``tf.compat.v1.train``, and their rates."""

import numpy as np
import pytest

import drumline as dl
import drumline.compat.tf as tf
from tests.distribute.parameter_server.clusters import TOKEN, cluster_spec

SLOPES = np.float32([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture
def strategy(monkeypatch):
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
    spec = cluster_spec(1, 1)
    servers = [dl.distribute.Server(spec, job, 0) for job in ("worker", "ps")]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec)
    strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
    yield strategy
    strategy.close()
    for server in servers:
        server.close()


def input_fn():
    return tf.data.Dataset.from_tensors((SLOPES, np.int32([0, 0]))).repeat()


def made(folder, strategy, rate):
    """An Estimator whose gradient is the same at each step: the mean of the features."""

    def model_fn(features, labels, mode):
        weight = tf.compat.v1.get_variable("weight", [2])
        count = tf.Variable(tf.zeros([], tf.int64), name="count", trainable=False)
        count.assign_add(2)
        loss = tf.reduce_sum(weight * tf.reduce_mean(features, 0))
        step = tf.compat.v1.train.get_or_create_global_step()
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(rate(step))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, step))

    config = tf.estimator.RunConfig(train_distribute=strategy, save_checkpoints_steps=3)
    return tf.estimator.Estimator(model_fn, folder, config)


def test_rates_are_numbers_or_functions_of_the_step(strategy, tmp_path):
    def decayed(step):
        return tf.compat.v1.train.piecewise_constant(step, [3], [0.5, 0.125])

    for name, rate, total in (
        ("number", lambda step: 0.25, 6 * 0.25),
        # What is scheduled up to a checkpoint has the rate of its first step.
        ("function", decayed, 3 * 0.5 + 3 * 0.5),
    ):
        estimator = made(tmp_path / name, strategy, rate).train(input_fn, steps=3)
        first = estimator.get_variable_value("weight")
        estimator.train(input_fn, max_steps=6)
        change = estimator.get_variable_value("weight") - first
        np.testing.assert_allclose(change, -total / 2 * SLOPES.mean(axis=0), rtol=1e-5)
        assert estimator.get_variable_value("global_step") == 6
        assert estimator.get_variable_value("count") == 12, "the first call's is undone"
    estimator.train(input_fn, max_steps=9)
    change = estimator.get_variable_value("weight") - first
    expected = -(3 * 0.5 + 3 * 0.125) * SLOPES.mean(axis=0)
    np.testing.assert_allclose(change, expected, rtol=1e-5)


def test_a_rate_that_the_step_computes_is_refused(strategy, tmp_path):
    estimator = made(tmp_path, strategy, lambda step: 0.1 / (1.0 + tf.cast(step, tf.float32)))
    with pytest.raises(NotImplementedError, match="GradientDescentOptimizer.*Give a number, a fun"):
        estimator.train(input_fn, steps=1)
