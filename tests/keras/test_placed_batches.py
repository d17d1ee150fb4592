"""Batches of JAX's arrays that already lie on devices, wherever these are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np
import pytest

from drumline.distribute import MirroredStrategy, OneDeviceStrategy, Strategy
from drumline.keras import install

install()

Place = Callable[[Strategy, np.ndarray], Any]


def _on_replicas(strategy: Strategy, x: np.ndarray) -> Any:
    return strategy._arrays.place_replicated(x)


def _cut(strategy: Strategy, x: np.ndarray) -> Any:
    even = len(x) % strategy.num_replicas_in_sync == 0
    return jax.device_put(x, strategy.batch_sharding) if even else _on_replicas(strategy, x)


def _on_another_device(strategy: Strategy, x: np.ndarray) -> Any:
    return jax.device_put(x, jax.devices()[3])


def _uncommitted(strategy: Strategy, x: np.ndarray) -> Any:
    return jax.numpy.asarray(x)


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "two": lambda: MirroredStrategy(["cpu:0", "cpu:1"]),
    "one": lambda: OneDeviceStrategy("cpu:1"),
}
PLACES: list[Place] = [_on_replicas, _cut, _on_another_device, _uncommitted]
COMPILE: list[dict[str, Any]] = [{}, {"run_eagerly": True}, {"steps_per_execution": 2}]


def _model(**options: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", weighted_metrics=["mae"], **options)
    return model


def _data(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return (
        rng.normal(size=(rows, 3)).astype(np.float32),
        rng.normal(size=(rows, 2)).astype(np.float32),
        rng.random(rows).astype(np.float32),
    )


@pytest.mark.parametrize("rows", [8, 7])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("options", COMPILE, ids=str)
@pytest.mark.parametrize("kind", STRATEGIES)
def test_steps_take_placed_batches(
    kind: str, options: dict[str, Any], place: Place, rows: int
) -> None:
    strategy = STRATEGIES[kind]()
    plain = _model(**options)
    with strategy.scope():
        model = _model(**options)
    x, y, weights = _data(rows)
    placed = [place(strategy, part) for part in (x, y, weights)]

    for mine, theirs in (
        (model.train_on_batch(*placed), plain.train_on_batch(x, y, weights)),
        (model.test_on_batch(*placed), plain.test_on_batch(x, y, weights)),
        (model.predict_on_batch(placed[0]), plain.predict_on_batch(x)),
        (model.get_weights(), plain.get_weights()),
    ):
        for one, other in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


class Batches(keras.utils.PyDataset):
    """Three batches, the last one short."""

    def __init__(self, batches: list[Any]) -> None:
        super().__init__()
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Any:
        return self.batches[index]


def _generated(batches: list[Any]) -> Iterator[Any]:
    yield from batches


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("make", [Batches, _generated])
@pytest.mark.parametrize("options", COMPILE, ids=str)
@pytest.mark.parametrize("kind", STRATEGIES)
def test_fit_evaluate_and_predict_take_placed_batches(
    kind: str, options: dict[str, Any], make: Callable[[list[Any]], Any]
) -> None:
    strategy = STRATEGIES[kind]()
    plain = _model(**options)
    with strategy.scope():
        teacher, model = _model(), _model(**options)
    numpy_batches = [_data(rows) for rows in (8, 8, 3)]
    placed = [tuple(_on_another_device(strategy, a) for a in batch) for batch in numpy_batches]

    mine = model.fit(make(placed), validation_data=make(placed), shuffle=False, verbose=0).history
    theirs = plain.fit(
        make(numpy_batches), validation_data=make(numpy_batches), shuffle=False, verbose=0
    ).history
    for name, curve in theirs.items():
        np.testing.assert_allclose(mine[name], curve, rtol=1e-5)
    np.testing.assert_allclose(
        model.evaluate(make(placed), verbose=0),
        plain.evaluate(make(numpy_batches), verbose=0),
        rtol=1e-5,
    )
    inputs = [(batch[0],) for batch in placed]
    np.testing.assert_allclose(
        model.predict(make(inputs), verbose=0),
        plain.predict(make([(batch[0],) for batch in numpy_batches]), verbose=0),
        rtol=1e-5,
    )
    student = [(x, teacher(x)) for x, _, _ in numpy_batches]
    assert np.isfinite(model.fit(make(student), shuffle=False, verbose=0).history["loss"]).all()


def test_a_generator_and_a_discriminator_train_on_each_others_outputs() -> None:
    def build() -> tuple[keras.Model, keras.Model]:
        keras.utils.set_random_seed(2)
        generator = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        judge = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        judge.compile(keras.optimizers.SGD(0.1), "mse")
        both = keras.Sequential([keras.Input((2,)), generator, judge])
        both.compile(keras.optimizers.SGD(0.1), "mse")
        return generator, judge

    def train(generator: keras.Model, judge: keras.Model) -> list[Any]:
        seeds = keras.random.SeedGenerator(5)
        losses = []
        for _ in range(3):
            noise = keras.random.normal((8, 2), seed=seeds)
            made = generator(noise)
            rows = keras.ops.concatenate([made, keras.ops.ones((8, 3))])
            labels = keras.ops.concatenate([keras.ops.zeros((8, 1)), keras.ops.ones((8, 1))])
            losses.append(judge.train_on_batch(rows, labels))
        return [losses, judge.get_weights()]

    expected = train(*build())
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        trained = train(*build())
    for one, other in zip(jax.tree.leaves(trained), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_dictionary_of_placed_inputs_and_class_weights() -> None:
    def build() -> keras.Model:
        keras.utils.set_random_seed(2)
        a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
        both = keras.layers.Concatenate()([a, b])
        model = keras.Model({"a": a, "b": b}, keras.layers.Dense(2)(both))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    x = _data(8)[0]
    labels = np.arange(8) % 2
    expected = build().train_on_batch({"a": x, "b": x}, labels, class_weight={0: 1.0, 1: 3.0})
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        model = build()
    inputs = {"a": strategy._arrays.place_replicated(x), "b": _on_another_device(strategy, x)}
    loss = model.train_on_batch(
        inputs, strategy._arrays.place_replicated(labels), class_weight={0: 1.0, 1: 3.0}
    )
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
