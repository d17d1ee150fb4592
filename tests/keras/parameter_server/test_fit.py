"""Training by `fit` on parameter servers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from tests.keras.parameter_server.conftest import ROWS, classifier


def test_it_learns_by_a_table_of_which_servers_keep_parts(strategy: Any, examples: Any) -> None:
    with strategy.scope():
        normalization = keras.layers.BatchNormalization(momentum=0.5)
        layers = [normalization, keras.layers.Dense(32, activation="relu")]
        model = classifier(
            *layers, keras.layers.Dropout(0.1), optimizer=keras.optimizers.Adam(0.01)
        )
    table = model.layers[1].embeddings
    assert isinstance(table, dl.distribute.ShardedVariable)
    assert [part.shape for part in table.variables] == [(25, 6), (25, 6)]
    history = model.fit(*examples, batch_size=12, epochs=30, verbose=0).history
    assert set(history) == {"loss", "accuracy"} and len(history["loss"]) == 30
    assert history["loss"][-1] < 0.5 < 0.9 < history["loss"][0]
    mean = np.asarray(normalization.moving_mean)[-4:]
    np.testing.assert_allclose(mean, examples[0]["numbers"].mean(0), atol=0.5)
    assert np.abs(mean).min() > 0


def test_an_epoch_has_every_row_once(still: Any, examples: Any) -> None:
    served, plain = still
    wanted = plain.fit(*examples, batch_size=16, epochs=2, verbose=0).history
    dataset = dl.data.Dataset.from_tensor_slices(examples).batch(16)
    for found in (
        served.fit(*examples, batch_size=16, epochs=2, verbose=0),
        served.fit(dataset, epochs=2, verbose=0),
    ):
        for name, values in wanted.items():
            np.testing.assert_allclose(found.history[name], values, rtol=1e-5)


def test_losses_with_weights_penalties_and_validation(pair: Any, examples: Any) -> None:
    def build() -> keras.Model:
        return classifier(
            keras.layers.Dense(4, kernel_regularizer=keras.regularizers.L2(0.1)),
            keras.layers.ActivityRegularization(l2=0.1),
            optimizer=keras.optimizers.SGD(0.0),
        )

    served, plain = pair(build)
    x, y = examples
    weights = np.linspace(0.1, 2, ROWS)
    for options in (
        {"sample_weight": weights, "validation_data": (x, y, weights), "validation_freq": 2},
        {"class_weight": {0: 3.0, 2: 0.5}, "validation_split": 1 / 3},
    ):
        options = {"batch_size": 12, "epochs": 2, "verbose": 0, "shuffle": False, **options}
        found = served.fit(x, y, **options).history
        wanted = plain.fit(x, y, **options).history
        assert found.keys() == wanted.keys() and "val_loss" in found
        for name, values in wanted.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-5, err_msg=name)


def test_a_dataset_without_end_is_shared_out(strategy: Any) -> None:
    seen: list[int] = []

    def note(batch: np.ndarray) -> np.ndarray:
        seen.append(int(batch[0, 0]))
        return batch

    numbers = np.arange(40, dtype=np.float32)[:, None]
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.0), "mse")
    dataset = dl.data.Dataset.from_tensor_slices((numbers, numbers)).batch(4).repeat()
    model.fit(dataset.map(lambda x, y: (note(x), y)), epochs=2, steps_per_epoch=5, verbose=0)
    assert len(set(seen[:4])) >= 2 and len(seen) >= 10


def test_workers_make_datasets_by_a_function(strategy: Any, examples: Any) -> None:
    def dataset_fn(context: dl.distribute.InputContext) -> Any:
        assert context.num_input_pipelines == 2
        dataset = dl.data.Dataset.from_tensor_slices(examples)
        share = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
        return share.shuffle(20).repeat().batch(context.get_per_replica_batch_size(12))

    creator = dl.keras.utils.experimental.DatasetCreator(dataset_fn)
    with strategy.scope():
        adam = keras.optimizers.Adam(0.01)
        model = classifier(
            keras.layers.Dense(32, activation="relu"), optimizer=adam, steps_per_execution=4
        )
    options = {"steps_per_epoch": 10, "validation_steps": 3, "verbose": 0}
    history = model.fit(creator, epochs=8, validation_data=dataset_fn, **options).history
    assert history["loss"][-1] < 0.75 * history["loss"][0]
    assert history["val_loss"][-1] < history["val_loss"][0]
    assert float(model.optimizer.learning_rate) == pytest.approx(0.01)


def test_class_weights_are_those_of_keras(still: Any, examples: Any) -> None:
    served, plain = still
    weights = {0: 3.0, 1: 0.25}
    wanted = plain.fit(*examples, batch_size=36, class_weight=weights, verbose=0).history
    found = served.fit(
        lambda context: dl.data.Dataset.from_tensor_slices(examples).batch(36).repeat(),
        steps_per_epoch=3,
        class_weight=weights,
        verbose=0,
    ).history
    np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=1e-5)


def test_a_model_is_built_from_the_workers_data(strategy: Any) -> None:
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
        model.compile("rmsprop", "mse", metrics=["mae"])
    numbers = np.ones((12, 5), np.float32), np.ones((12, 1), np.float32)
    model.fit(
        lambda context: dl.data.Dataset.from_tensor_slices(numbers).batch(4).repeat(),
        steps_per_epoch=2,
        verbose=0,
    )
    assert model.count_params() == 15


def test_what_is_refused(strategy: Any, examples: Any) -> None:
    class OwnStep(keras.Model):
        def call(self, inputs: Any) -> Any:
            return inputs

        def train_step(self, state: Any, data: Any) -> Any:
            raise AssertionError("not reached")

    with strategy.scope():
        model = classifier()
        own = OwnStep()
        own.compile("sgd", "mse")
    dataset = dl.data.Dataset.from_tensor_slices(examples).batch(8)
    for endless in (dataset.repeat(), lambda context: dataset):
        with pytest.raises(ValueError, match="`steps_per_epoch` is needed"):
            model.fit(endless, verbose=0)
    with pytest.raises(ValueError, match="`validation_steps` is needed"):
        model.fit(*examples, validation_data=dataset.repeat(), verbose=0)
    with pytest.raises(ValueError, match="`y` cannot be given"):
        model.fit(dataset.repeat(), examples[1], steps_per_epoch=1, verbose=0)
    with pytest.raises(NotImplementedError, match="has its own `train_step`"):
        own.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
    own.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(NotImplementedError, match="compiled with run_eagerly=True"):
        own.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
    with pytest.raises(NotImplementedError, match="`train_on_batch` runs one step here"):
        model.train_on_batch(*examples)
    with pytest.raises(TypeError, match="takes a function"):
        dl.keras.utils.experimental.DatasetCreator(dataset)
    with pytest.raises(TypeError, match="must return a dl.data.Dataset"):
        model.fit(lambda context: [1], steps_per_epoch=1, verbose=0)


def test_an_error_on_a_worker_reaches_fit_which_can_go_on(strategy: Any, examples: Any) -> None:
    def broken(context: dl.distribute.InputContext) -> Any:
        def elements() -> Any:
            yield np.ones((2, 1), np.float32), np.ones((2, 1), np.float32)
            raise OSError("the disk is gone")

        spec = dl.TensorSpec((2, 1), "float32")
        return dl.data.Dataset.from_generator(elements, output_signature=(spec, spec))

    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    with pytest.raises(Exception, match="the disk is gone"):
        model.fit(broken, steps_per_epoch=20, verbose=0)
    x = np.ones((8, 1), np.float32)
    assert len(model.fit(x, x, epochs=2, verbose=0).history["loss"]) == 2
