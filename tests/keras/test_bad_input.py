"""Bad input says what is wrong, and leaves the model as it was."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec
from drumline.distribute import MirroredStrategy, OneDeviceStrategy


@pytest.fixture(params=[0, 2])
def model(request: pytest.FixtureRequest, perceptron: Any) -> keras.Model:
    if not request.param:
        return perceptron()
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        return perceptron()


def still_works(model: keras.Model, images: Any) -> bool:
    x, y = images
    model.fit(x[:12], y[:12], batch_size=12, verbose=0)
    return bool(np.isfinite(model.predict(x[:3], verbose=0)).all())


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_an_empty_dataset(method: str, model: keras.Model, images: Any) -> None:
    before = model.get_weights()
    empty = Dataset.from_tensor_slices(images).filter(lambda x, y: y < 0).batch(4)
    with pytest.raises(ValueError, match="no elements"):
        getattr(model, method)(empty, verbose=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    assert still_works(model, images)


def test_an_empty_dataset_of_known_size(model: keras.Model, images: Any) -> None:
    empty = Dataset.from_tensor_slices(images).take(3).batch(4, drop_remainder=True)
    with pytest.raises(ValueError, match="no elements"):
        model.fit(empty, verbose=0)
    assert still_works(model, images)


def test_an_empty_array(model: keras.Model, images: Any) -> None:
    x, y = images
    with pytest.raises(ValueError, match="no elements"):
        model.fit(x[:0], y[:0], verbose=0)
    assert still_works(model, images)


def test_empty_validation_data(model: keras.Model, images: Any) -> None:
    x, y = images
    empty = Dataset.from_tensor_slices(images).take(0).batch(4)
    with pytest.raises(ValueError, match="no elements"):
        model.fit(x, y, validation_data=empty, verbose=0)
    assert still_works(model, images)


@pytest.mark.parametrize("after", [0, 20])
def test_input_that_fails_midway(after: int, model: keras.Model, images: Any) -> None:
    def generate() -> Iterator[Any]:
        for index, row in enumerate(zip(*images, strict=True)):
            if index == after:
                raise OSError("the disk is gone")
            yield row

    signature = (TensorSpec((8, 8, 1), np.float32), TensorSpec((), np.int64))
    dataset = Dataset.from_generator(generate, output_signature=signature).batch(4)
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit(dataset, verbose=0)
    assert still_works(model, images)


def test_targets_beside_a_dataset(model: keras.Model, images: Any) -> None:
    dataset = Dataset.from_tensor_slices(images).batch(4)
    with pytest.raises(ValueError, match="`y` should not be passed"):
        model.fit(dataset, images[1], verbose=0)
    with pytest.raises(ValueError, match="`sample_weights` should not be passed"):
        model.fit(dataset, sample_weight=np.ones(39), verbose=0)


def test_an_endless_dataset_needs_steps(model: keras.Model, images: Any) -> None:
    endless = Dataset.from_tensor_slices(images).batch(4).repeat()
    with pytest.raises(ValueError, match="steps_per_epoch"):
        model.fit(endless, verbose=0)
    with pytest.raises(ValueError, match="validation_steps"):
        model.fit(*images, validation_data=endless, verbose=0)


def test_class_weight_beside_sample_weights(model: keras.Model, images: Any) -> None:
    weighted = Dataset.from_tensor_slices((*images, np.ones(39, np.float32))).batch(4)
    with pytest.raises(ValueError, match="exclude each other"):
        model.fit(weighted, class_weight={0: 2.0}, verbose=0)


def test_the_wrong_structure(model: keras.Model, images: Any) -> None:
    x, y = images
    with pytest.raises(ValueError, match="expected to be in format"):
        model.fit(Dataset.from_tensor_slices((x, y, y, y)).batch(4), verbose=0)
    with pytest.raises(ValueError, match=r"call `.batch\(n\)`"):
        model.fit(Dataset.from_tensor_slices((x, y)), verbose=0)
    assert still_works(model, images)


def test_a_model_made_outside_is_not_trained_inside(perceptron: Any, images: Any) -> None:
    model = perceptron()
    strategy = MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope(), pytest.raises(RuntimeError, match="made outside any strategy's scope"):
        model.fit(*images, verbose=0)
    with strategy.scope(), pytest.raises(RuntimeError, match="`compile` is called in the scope"):
        model.compile("sgd", "mse")
    assert still_works(model, images)


@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch", "test_on_batch"])
def test_a_model_of_another_strategy(method: str, perceptron: Any, images: Any) -> None:
    with OneDeviceStrategy("cpu:1").scope():
        model = perceptron()
    with (
        MirroredStrategy(["cpu:0", "cpu:1"]).scope(),
        pytest.raises(RuntimeError, match=r"OneDeviceStrategy\('cpu:1'\).*MirroredStrategy"),
    ):
        getattr(model, method)(*images)
    assert still_works(model, images)


def test_a_keras_distribution_beside_a_strategy(perceptron: Any, images: Any) -> None:
    with OneDeviceStrategy("cpu:1").scope():
        model = perceptron()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0"]))
    try:
        with pytest.raises(RuntimeError, match=r"keras\.distribution"):
            model.fit(*images, verbose=0)
    finally:
        keras.distribution.set_distribution(None)


def test_batches_that_never_split_are_reported(perceptron: Any, images: Any) -> None:
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        model = perceptron()
    with pytest.warns(UserWarning, match="do not split over 2 replicas"):
        model.fit(*images, batch_size=13, verbose=0)


def test_a_last_batch_that_is_the_only_one_is_not_reported(perceptron: Any, images: Any) -> None:
    """Of several epochs, or of several calls."""
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        model = perceptron()
    few = [part[:13] for part in images]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Batches of shapes")
        model.fit(*few, batch_size=32, epochs=3, verbose=0)
        model.fit(*few, batch_size=32, verbose=0)


@pytest.mark.parametrize("rows", [8, 7])
def test_integers_that_do_not_fit_into_32_bits(rows: int) -> None:
    """They would become other numbers: 2**40 the id 0."""
    ids = np.full((rows, 1), 2**40, np.int64)
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Embedding(4, 2)])
        model.compile("sgd", "mse")
    for use in (
        lambda: model.fit(ids, np.zeros((rows, 1, 2)), batch_size=rows, verbose=0),
        lambda: model.predict(ids, batch_size=rows, verbose=0),
        lambda: model.evaluate(ids, np.zeros((rows, 1, 2)), batch_size=rows, verbose=0),
        lambda: model.fit(
            Dataset.from_tensor_slices((ids, np.zeros((rows, 1, 2)))).batch(rows), verbose=0
        ),
        lambda: model.train_on_batch(ids, np.zeros((rows, 1, 2))),
        lambda: model.test_on_batch(x=ids, y=np.zeros((rows, 1, 2))),
        lambda: model.predict_on_batch(ids),
    ):
        with pytest.raises(OverflowError, match="1099511627776"):
            use()
