"""A Dataset as input of fit, evaluate and predict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec
from drumline.distribute import MirroredStrategy
from drumline.keras.data_adapter import DatasetAdapter


def batched(images: Any, size: int = 12) -> Dataset:
    return Dataset.from_tensor_slices(images).batch(size)


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_dataset_gives_what_arrays_give(
    replicas: int, perceptron: Any, images: Any, train: Any
) -> None:
    def build() -> keras.Model:
        return perceptron(metrics=["accuracy"])

    options = {"batch_size": None, "shuffle": None}
    dataset = batched(images)
    from_dataset = train(build, replicas, dataset, validation_data=dataset, **options)
    from_dataset.assert_same(train(build, 0, *images, validation_data=images))
    model = from_dataset.model
    assert model.evaluate(dataset, verbose=0) == pytest.approx(
        model.evaluate(*images, batch_size=12, verbose=0), rel=1e-6
    )


@pytest.mark.parametrize("replicas", [0, 2, 4])
def test_predict_gives_each_row_once_and_in_order(
    replicas: int, perceptron: Any, images: Any, train: Any
) -> None:
    x, y = images
    model = train(perceptron, replicas, x[:12], y[:12], epochs=1).model
    outputs = model.predict(Dataset.from_tensor_slices(x).batch(10), verbose=0)
    assert outputs.shape == (39, 5)
    np.testing.assert_allclose(outputs, np.asarray(model(x)), atol=1e-5)


def test_dicts_weights_and_unknown_cardinality(images: Any, train: Any) -> None:
    x, y = images
    weights = np.linspace(0, 1, len(x), dtype=np.float32)

    def generate() -> Iterator[Any]:
        yield from zip(({"image": image} for image in x), y, weights, strict=True)

    signature = (
        {"image": TensorSpec((8, 8, 1), np.float32)},
        TensorSpec((), np.int64),
        TensorSpec((), np.float32),
    )
    dataset = Dataset.from_generator(generate, output_signature=signature).batch(12)

    def build() -> keras.Model:
        keras.utils.set_random_seed(0)
        inputs = keras.Input((8, 8, 1), name="image")
        outputs = keras.layers.Dense(5)(keras.layers.Flatten()(inputs))
        model = keras.Model({"image": inputs}, outputs)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    one = train(build, 0, {"image": x}, y, sample_weight=weights)
    train(build, 2, dataset, batch_size=None, shuffle=None).assert_same(one)


@pytest.mark.parametrize("weights", [{0: 2.0, 3: 0.25}, {1: 0.0}])
def test_class_weights(weights: Any, perceptron: Any, images: Any, train: Any) -> None:
    options = {"class_weight": weights}
    one = train(perceptron, 0, *images, **options)
    dataset = batched(images)
    train(perceptron, 2, dataset, batch_size=None, shuffle=None, **options).assert_same(one)


def test_every_epoch_is_a_new_iteration_and_none_is_skipped(images: Any) -> None:
    seen: list[float] = []

    def generate() -> Iterator[Any]:
        seen.append(0)
        for row in zip(*images, strict=True):
            seen[-1] += 1
            yield row

    signature = (TensorSpec((8, 8, 1), np.float32), TensorSpec((), np.int64))
    dataset = Dataset.from_generator(generate, output_signature=signature).batch(13)
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(5)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(dataset, epochs=3, verbose=0)
    assert seen == [39, 39, 39]


def test_the_first_epochs_order_does_not_depend_on_the_model_being_built(images: Any) -> None:
    def losses(build_first: bool) -> list[float]:
        keras.utils.set_random_seed(0)
        dataset = Dataset.from_tensor_slices(images).shuffle(39, seed=1).batch(12)
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(5)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        if build_first:
            model.build((None, 8, 8, 1))
        return model.fit(dataset, epochs=2, verbose=0).history["loss"]

    assert losses(True) == losses(False)


def test_steps_per_epoch_goes_on_where_the_last_epoch_stopped(perceptron: Any, images: Any) -> None:
    model = perceptron()
    endless = batched(images, 13).repeat()
    history = model.fit(endless, steps_per_epoch=2, epochs=3, verbose=0)
    assert len(history.history["loss"]) == 3
    assert int(model.optimizer.iterations.value) == 6


def test_too_few_batches_for_the_steps_asked_for_are_reported(perceptron: Any, images: Any) -> None:
    with pytest.warns(UserWarning, match="ran out of data"):
        perceptron().fit(batched(images, 13), steps_per_epoch=5, verbose=0)


def test_a_batch_goes_to_the_step_without_a_copy(images: Any) -> None:
    dataset = batched(images)
    batches = iter(DatasetAdapter(dataset).get_jax_iterator())
    x, _ = next(batches)
    assert isinstance(x, np.ndarray)
    assert not x.flags.writeable


def test_a_distributed_dataset_under_its_strategy(perceptron: Any, images: Any, train: Any) -> None:
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        model = perceptron()
    distributed = strategy.experimental_distribute_dataset(batched(images))
    history = model.fit(distributed, epochs=3, verbose=0).history["loss"]
    one = train(perceptron, 0, *images)
    np.testing.assert_allclose(history, one.history["loss"], rtol=1e-5)
    with pytest.raises(ValueError, match="distributed by"):
        one.model.fit(distributed, verbose=0)
