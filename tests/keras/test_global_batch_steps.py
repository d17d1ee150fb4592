"""Models whose layers need the whole batch, and what Keras says of a model changed since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from drumline.distribute import MirroredStrategy, get_replica_context
from drumline.keras import install

install()


def _recurrent(layer: Any) -> keras.Model:
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input(batch_shape=(8, 5, 3)), layer(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras.layers.LSTM(4, stateful=True),
        lambda: keras.layers.Bidirectional(keras.layers.GRU(4, stateful=True)),
    ],
)
def test_stateful_layers_equal_one_device(layer: Any) -> None:
    x = np.random.default_rng(0).normal(size=(16, 5, 3)).astype(np.float32)
    y = x[:, 0, :1]

    def train(model: keras.Model) -> list[Any]:
        losses = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
        return [losses, model.predict(x, batch_size=8, verbose=0), *model.get_weights()]

    expected = train(_recurrent(layer))
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        model = _recurrent(layer)
    for one, other in zip(train(model), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_in_a_step_of_ones_own_the_reason_is_said() -> None:
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        model = _recurrent(lambda: keras.layers.LSTM(4, stateful=True))
    x = strategy.experimental_distribute_values_from_function(
        lambda _: np.zeros((4, 5, 3), np.float32)
    )
    with pytest.raises(ValueError, match=r"Expected batch size: 8[\s\S]*each of 2 replicas"):
        strategy.run(model, args=(x,))


@pytest.mark.parametrize("replicas", [0, 2])
def test_freezing_without_compiling_is_refused_by_keras(replicas: int) -> None:
    def build() -> keras.Model:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        return model

    x, y = np.ones((8, 3), np.float32), np.ones((8, 1), np.float32)
    if replicas:
        with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
            model = build()
    else:
        model = build()
    model.fit(x, y, verbose=0)
    model.layers[0].trainable = False
    with pytest.raises(ValueError, match=r"corresponding 1:1 to the trainable variables list"):
        model.fit(x, y, verbose=0)


def test_too_few_gradients_are_refused_by_keras() -> None:
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        variables = [keras.Variable(1.0), keras.Variable(2.0)]
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(variables)
    with pytest.raises(ValueError, match="gradients"):
        optimizer.apply([np.float32(1.0)])


ROWS = 8


class Towers(keras.Model):
    """Two projections of each row, and what `outputs` makes of them."""

    def __init__(self, outputs: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.queries, self.keys = keras.layers.Dense(ROWS), keras.layers.Dense(ROWS)
        self.drop = keras.layers.Dropout(0.5)
        self.outputs_of = outputs

    def call(self, x: Any, training: bool = False) -> Any:
        return self.outputs_of(
            self.queries(x), self.keys(x) + 0 * self.drop(x, training=training)[:, :1]
        )


def _scores(queries: Any, keys: Any) -> Any:
    return ops.matmul(queries, ops.transpose(keys))


def _gathered_scores(queries: Any, keys: Any) -> Any:
    return _scores(queries, get_replica_context().all_gather(keys))


CLASS_OF_ROW = np.arange(ROWS)
ONE_HOT = np.eye(ROWS, dtype=np.float32)


def _cross_entropy() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _fit_towers(outputs: Any, loss: Any, y: Any, replicas: int) -> tuple[list[Any], Any]:
    """Losses of three epochs, of `train_on_batch` and of `evaluate`, and the strategy's seeds."""
    x = np.random.default_rng(4).normal(size=(ROWS, 3)).astype(np.float32)

    def train() -> tuple[list[Any], Any]:
        keras.utils.set_random_seed(2)
        model = Towers(outputs)
        model.compile(keras.optimizers.SGD(0.01), loss)
        losses = model.fit(x, y, batch_size=ROWS, epochs=3, shuffle=False, verbose=0).history
        seeds = np.asarray(model.drop.seed_generator.state.value)
        after = [model.train_on_batch(x, y), np.ravel(model.evaluate(x, y, verbose=0))[0]]
        return [losses["loss"], *after, *model.get_weights()[:4]], seeds

    if replicas < 2:
        return train()
    with MirroredStrategy([f"cpu:{i}" for i in range(replicas)]).scope():
        return train()


def _assert_equal_one_device(outputs: Any, loss: Any, y: Any, replicas: int = 2) -> None:
    results, seeds = _fit_towers(outputs, loss, y, replicas)
    expected, expected_seeds = _fit_towers(outputs, loss, y, 1)
    np.testing.assert_array_equal(seeds, expected_seeds)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def _reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records if record.name == "drumline"]
    return [message for message in said if "partitioned over the replicas" in message]


@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize(
    ("loss", "y"),
    [(_cross_entropy, CLASS_OF_ROW), (lambda: "mse", ONE_HOT)],
    ids=["classes", "one hot"],
)
def test_scores_within_the_batch_equal_one_device(
    loss: Any, y: Any, replicas: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "drumline")
    _assert_equal_one_device(_scores, loss(), y, replicas)
    share = ROWS // replicas
    (reason,) = _reasons(caplog)
    assert f"(8, 8) for the whole batch and ({share}, {share}) for the share" in reason


@pytest.mark.parametrize(
    ("outputs", "loss", "y", "name"),
    [
        (
            lambda q, k: (q, _scores(q, k)),
            ["mse", _cross_entropy()],
            (ONE_HOT, CLASS_OF_ROW),
            "output[1]",
        ),
        (
            lambda q, k: {"rows": q, "scores": _scores(q, k)},
            {"rows": "mse", "scores": _cross_entropy()},
            {"rows": ONE_HOT, "scores": CLASS_OF_ROW},
            "output['scores']",
        ),
        (lambda q, k: ops.mean(q, 0, keepdims=True) + 0 * k[:1], "mse", ONE_HOT, "output"),
    ],
    ids=["several", "dict", "mean"],
)
def test_any_output_that_is_not_row_by_row_is_noticed(
    outputs: Any, loss: Any, y: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "drumline")
    _assert_equal_one_device(outputs, loss, y)
    (reason,) = _reasons(caplog)
    assert name in reason


@pytest.mark.parametrize(
    ("outputs", "loss", "y"),
    [
        (lambda q, k: q + k, "mse", ONE_HOT),
        (lambda q, k: (q + k)[:, :4], _cross_entropy(), CLASS_OF_ROW % 4),
        (
            lambda q, k: q[:, :, None] * k[:, None],
            "mse",
            np.ones((ROWS, ROWS, ROWS), np.float32),
        ),
        (lambda q, k: {"a": q, "b": k}, {"a": "mse", "b": "mse"}, {"a": ONE_HOT, "b": ONE_HOT}),
        (_gathered_scores, _cross_entropy(), CLASS_OF_ROW),
    ],
    ids=["rows of 8", "rows of 4", "rank 3", "dict", "gathered in the layer"],
)
def test_rows_as_wide_as_the_batch_or_a_share_are_computed_on_each_replica(
    outputs: Any, loss: Any, y: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "drumline")
    _assert_equal_one_device(outputs, loss, y)
    assert not _reasons(caplog)


def test_a_model_that_takes_only_a_share_trains_on_each_replica() -> None:
    class OnlyShares(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x: Any, training: bool = False) -> Any:
            if training and x.shape[0] != ROWS // 2:
                raise ValueError("a share has 4 rows")
            return self.dense(x)

    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        model = OnlyShares()
        model.compile("sgd", "mse")
    x, y = np.ones((ROWS, 3), np.float32), np.ones((ROWS, 1), np.float32)
    model(x)
    assert np.isfinite(model.train_on_batch(x, y))
