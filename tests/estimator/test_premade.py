"""Premade Estimators: step by step what TensorFlow 2.15's give (see ``premade_cases``)."""

import json
import operator

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.compat import tf
from tests.estimator import premade_cases

REFERENCE = json.loads(premade_cases.REFERENCE.read_text())


@pytest.fixture
def chosen_weights(monkeypatch):
    monkeypatch.setattr(
        keras.initializers.GlorotUniform,
        "__call__",
        lambda self, shape, dtype=None: keras.ops.convert_to_tensor(premade_cases.spread(shape)),
    )


@pytest.mark.parametrize("name", premade_cases.names(tf))
def test_it_is_as_in_tensorflow(name, chosen_weights):
    found, expected = premade_cases.results(tf, name), REFERENCE[name]
    assert found.keys() == expected.keys()
    assert found["variables"].keys() == expected["variables"].keys()
    for key, value in expected["variables"].items():
        np.testing.assert_allclose(
            found["variables"][key], value, rtol=2e-4, atol=2e-5, err_msg=key
        )
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-4)
    assert found["metrics"].keys() == expected["metrics"].keys()
    for key, value in expected["metrics"].items():
        if name.startswith("former") and key.startswith("auc"):
            continue  # TensorFlow 1's metric approximates areas in another way than Keras's
        np.testing.assert_allclose(found["metrics"][key], value, rtol=2e-4, atol=2e-5, err_msg=key)
    assert found["predictions"].keys() == expected["predictions"].keys()
    for key, value in expected["predictions"].items():
        given = found["predictions"][key]
        if isinstance(value[0], str):
            assert given == value, key
        else:
            np.testing.assert_allclose(given, value, rtol=2e-4, atol=2e-5, err_msg=key)


def numbers(tf_or_dl, labels=premade_cases.BINARY, batch=4, times=1):
    given = ({name: premade_cases.FEATURES[name] for name in ("age", "color")}, labels)
    return lambda: tf_or_dl.data.Dataset.from_tensor_slices(given).batch(batch).repeat(times)


def columns():
    make = tf.feature_column
    color = make.categorical_column_with_vocabulary_list("color", ["red", "green", "blue"])
    return [make.numeric_column("age"), make.indicator_column(color)]


def values(estimator, start):
    names = [name for name in estimator.get_variable_names() if name.startswith(start)]
    return {name: estimator.get_variable_value(name) for name in names}


def test_two_replicas_share_a_batch_as_one_takes_it_whole(tmp_path, chosen_weights):
    def trained(folder, strategy, batch):
        config = tf.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy)
        made = tf.estimator.DNNClassifier([4], columns(), folder, optimizer="SGD", config=config)
        return made.train(numbers(tf, batch=batch, times=2))

    one = trained(tmp_path / "one", None, 6)
    two = trained(tmp_path / "two", tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]), 3)
    assert two.latest_checkpoint().endswith("-4")
    for name, value in values(one, "dnn").items():
        found = two.get_variable_value(name)
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6, err_msg=name)
    metrics, expected = two.evaluate(numbers(tf, batch=3)), one.evaluate(numbers(tf, batch=6))
    for key, value in expected.items():
        np.testing.assert_allclose(metrics[key], value, rtol=1e-5, err_msg=key)


def test_training_goes_on_with_the_optimizers_values(tmp_path):
    optimizer = tf.keras.optimizers.Adam(0.01)
    kind = tf.estimator.LinearClassifier
    whole = kind(columns(), tmp_path / "whole", optimizer=optimizer).train(numbers(tf, times=2))
    parts = kind(columns(), tmp_path / "parts", optimizer=lambda: tf.keras.optimizers.Adam(0.01))
    for _ in range(2):
        parts.train(numbers(tf))
    found = values(parts, "")
    for name, value in values(whole, "").items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_those_of_arrays_train_as_those_of_tensors(tmp_path):
    colors = ["red", "green", "blue", "pink"]
    number = dl.keras.layers.StringLookup(vocabulary=colors, num_oov_indices=0)
    color = dl.estimator.CategoryColumn("color", number, size=4)
    ours = dl.estimator.LinearClassifier([color, "age"], tmp_path / "dl").train(numbers(dl))
    make = tf.feature_column
    words = make.categorical_column_with_vocabulary_list("color", colors)
    theirs = tf.estimator.LinearClassifier([make.numeric_column("age"), words], tmp_path / "tf")
    theirs.train(numbers(tf))
    expected = values(theirs, "linear")
    found = values(ours, "linear")
    assert found.keys() == expected.keys() and len(found) == 3
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    metrics, wanted = ours.evaluate(numbers(dl)), theirs.evaluate(numbers(tf))
    assert {**metrics} == pytest.approx({**wanted}, rel=1e-5)
    first = next(iter(ours.predict(numbers(dl))))
    assert first["classes"] == next(iter(theirs.predict(numbers(tf))))["classes"]
    table = dl.estimator.CategoryColumn("color", number, size=4, dimension=2)
    deep = dl.estimator.DNNClassifier([3], [table, "age"], tmp_path / "dnn", n_classes=3)
    trained = values(deep.train(numbers(dl)), "dnn")
    prefix = "dnn/input_from_feature_columns/input_layer"
    assert trained[f"{prefix}/color_embedding/embedding_weights"].shape == (4, 2)
    assert trained["dnn/hiddenlayer_0/kernel"].shape == (3, 3)


def test_metrics_are_added_and_labels_are_checked(tmp_path):
    def metric_fn(labels, predictions):
        metric = tf.keras.metrics.MeanAbsoluteError()
        metric.update_state(labels, predictions["logistic"][:, 0])
        return {"mae": metric}

    made = tf.estimator.LinearClassifier(columns(), tmp_path).train(numbers(tf))
    found = tf.estimator.add_metrics(made, metric_fn).evaluate(numbers(tf))
    shares = [row["logistic"][0] for row in made.predict(numbers(tf))]
    assert found["mae"] == pytest.approx(np.abs(premade_cases.BINARY - shares).mean(), rel=1e-5)
    assert found["accuracy"] == made.evaluate(numbers(tf))["accuracy"]
    with pytest.raises(ValueError, match="not expected args"):
        tf.estimator.add_metrics(made, lambda other: {})
    with pytest.raises(ValueError, match=r">= 0 and <= 2 - 1"):
        made.train(numbers(tf, labels=premade_cases.BINARY + 1))
    late = np.array([0, 1, 0, 1, 0, 2] * 2)
    with pytest.raises(tf.estimator.NanLossDuringTrainingError):
        made.train(numbers(tf, labels=late))


def test_what_is_not_made_is_refused_by_name():
    for name in ("BoostedTreesClassifier", "experimental.LinearSDCA", "experimental.RNNClassifier"):
        with pytest.raises(AttributeError, match=r"up to 2.15, is not in the look-alike: \w+"):
            operator.attrgetter(name)(tf.compat.v1.estimator)
    with pytest.raises(ValueError, match="Supported names are"):
        tf.estimator.LinearClassifier(columns(), optimizer="Lion")
    with pytest.raises(TypeError, match="CategoryColumn, not NumericColumn"):
        dl.estimator.LinearClassifier(columns())
    with pytest.raises(NotImplementedError, match="partitioner"):
        tf.compat.v1.estimator.DNNClassifier([2], columns(), input_layer_partitioner=object())
