"""Estimators as saved models, exporters, and Estimators of Keras models, as TensorFlow's guides.

They follow ``guide/estimator``, ``guide/migrate/saved_model`` and ``canned_estimators``,
``tutorials/estimator/keras_model_to_estimator`` and r1's ``guide/saved_model``.
"""

import os
from pathlib import Path

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.compat import tf
from tests.estimator import premade_cases

FEATURES = premade_cases.FEATURES
NAMES = ("age", "size", "color", "room")


def example(row):
    made = tf.train.Example()
    feature = made.features.feature
    feature["age"].float_list.value.extend([float(FEATURES["age"][row])])
    feature["size"].float_list.value.extend(FEATURES["size"][row].tolist())
    feature["color"].bytes_list.value.extend([str(FEATURES["color"][row]).encode()])
    feature["room"].int64_list.value.extend([int(FEATURES["room"][row])])
    return made.SerializeToString()


def classifier(folder):
    dense, sparse = premade_cases.columns(tf, True), premade_cases.columns(tf, False)
    made = tf.estimator.DNNLinearCombinedClassifier(
        folder, sparse, "Ftrl", dense, "Adagrad", [3], label_vocabulary=["low", "high"]
    )
    words = np.array(["low", "high"])[premade_cases.BINARY]
    made.train(premade_cases.input_fn(tf, words))
    return made, [*dense, *(each for each in sparse if "_X_" not in each.name)]


def test_examples_are_served_by_a_premade_estimators_saved_model(tmp_path):
    """``guide/estimator``: "SavedModels from Estimators"."""
    made, columns = classifier(tmp_path / "model")
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        tf.feature_column.make_parse_example_spec(columns)
    )
    path = made.export_saved_model(tmp_path / "export", receiver_fn)
    assert Path(os.fsdecode(path)).parent == tmp_path / "export"
    signatures = tf.saved_model.load(path).signatures
    assert set(signatures) == {"serving_default", "classification", "predict"}
    rows = range(len(FEATURES["age"]))
    serialized = tf.constant([example(row) for row in rows])
    found = signatures["predict"](examples=serialized)
    expected = list(made.predict(premade_cases.input_fn(tf, premade_cases.BINARY)))
    assert found.keys() == expected[0].keys()
    for key, value in found.items():
        wanted = np.stack([row[key] for row in expected])
        if wanted.dtype.kind == "O":
            np.testing.assert_array_equal(value.numpy(), wanted)
        else:
            np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-5, atol=1e-6)
    scored = signatures["serving_default"](inputs=serialized[:2])
    np.testing.assert_allclose(scored["scores"], found["probabilities"][:2], rtol=1e-6)
    assert scored["classes"].numpy().tolist() == [[b"low", b"high"]] * 2


def test_features_are_served_as_they_are(tmp_path):
    made, _ = classifier(tmp_path / "model")
    features = {name: tf.constant(FEATURES[name][:3]) for name in NAMES}
    receiver_fn = tf.estimator.export.build_raw_serving_input_receiver_fn(features)
    path = made.export_saved_model(tmp_path / "export", receiver_fn)
    signatures = tf.saved_model.load(path).signatures
    assert list(signatures) == ["predict"]  # the others take one tensor of examples
    found = signatures["predict"](**{name: tf.constant(FEATURES[name]) for name in NAMES})
    expected = list(made.predict(premade_cases.input_fn(tf, premade_cases.BINARY)))
    np.testing.assert_allclose(found["logits"], [row["logits"] for row in expected], rtol=1e-5)


def test_exporters_keep_the_last_and_the_best(tmp_path):
    """``guide/migrate/canned_estimators`` and r1's ``guide/saved_model``."""
    column = tf.feature_column.numeric_column("x")
    config = tf.estimator.RunConfig(save_checkpoints_steps=2)
    made = tf.estimator.LinearRegressor([column], tmp_path, optimizer="SGD", config=config)

    def input_fn():
        rows = np.arange(4, dtype=np.float32)
        return tf.data.Dataset.from_tensors(({"x": rows / 4}, rows)).repeat(6)

    spec = tf.feature_column.make_parse_example_spec([column])
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    exporters = [
        tf.estimator.LatestExporter("latest", receiver_fn, exports_to_keep=1),
        tf.estimator.FinalExporter("final", receiver_fn),
        tf.estimator.BestExporter("best", receiver_fn, exports_to_keep=None),
    ]
    metrics, exports = tf.estimator.train_and_evaluate(
        made,
        tf.estimator.TrainSpec(input_fn, max_steps=6),
        tf.estimator.EvalSpec(input_fn, throttle_secs=0, exporters=exporters),
    )
    assert metrics["global_step"] == 6
    kept = {each.name: list(each.iterdir()) for each in (tmp_path / "export").iterdir()}
    assert {name: len(found) for name, found in kept.items()} == {
        "latest": 1,
        "final": 1,
        "best": 3,  # each evaluation was better than those before
    }
    assert [os.fsdecode(each) for each in exports[:2]] == [
        str(kept["latest"][0]),
        str(kept["final"][0]),
    ]
    again = tf.estimator.BestExporter(
        "best", receiver_fn, compare_fn=lambda best_eval_result, current_eval_result: False
    )
    options = {"eval_result": {"loss": 9.0}, "is_the_final_export": False}
    latest = made.latest_checkpoint()
    assert again.export(made, tmp_path / "again", latest, **options)  # the first one of a run
    assert again.export(made, tmp_path / "again", latest, **options) is None


def test_a_model_fn_states_what_is_served(tmp_path):
    def model_fn(features, labels, mode):
        slope = tf.Variable(2.0, name="slope")
        value = slope * features["x"]
        if mode == tf.estimator.ModeKeys.PREDICT:
            outputs = {
                "double": tf.estimator.export.PredictOutput({"y": value}),
                "serving_default": tf.estimator.export.RegressionOutput(value),
            }
            return tf.estimator.EstimatorSpec(mode, {"y": value}, export_outputs=outputs)
        loss = tf.reduce_sum(value)
        step = tf.compat.v1.train.get_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))

    made = tf.estimator.Estimator(model_fn, tmp_path / "model")
    given = {"x": np.ones(2, np.float32)}
    made.train(lambda: tf.data.Dataset.from_tensors((given, np.ones(2))))
    receiver_fn = tf.estimator.export.build_raw_serving_input_receiver_fn(given)
    asset = tmp_path / "words.txt"
    asset.write_text("a\n")
    path = made.experimental_export_all_saved_models(
        tmp_path / "export",
        {tf.estimator.ModeKeys.PREDICT: receiver_fn},
        assets_extra={"words.txt": asset},
    )
    assert (Path(os.fsdecode(path)) / "assets.extra" / "words.txt").read_text() == "a\n"
    found = tf.saved_model.load(path).signatures["double"](x=tf.constant([1.0, 2.0, 3.0]))
    assert found["y"].numpy().tolist() == [2, 4, 6]
    with pytest.raises(NotImplementedError, match="not 'train'"):
        made.export_saved_model(tmp_path, receiver_fn, experimental_mode="train")
    with pytest.raises(NotImplementedError, match="drumline.compat"):
        dl.estimator.Estimator(model_fn, tmp_path).export_saved_model(tmp_path, receiver_fn)


def keras_model():
    keras.utils.set_random_seed(2)
    model = keras.Sequential(
        [
            keras.Input((4,), name="rows"),
            keras.layers.Dense(8, "relu", name="hidden"),
            keras.layers.Dense(3, name="scores"),
        ],
        name="model",
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    return model


ROWS = np.random.default_rng(5).normal(size=(32, 4)).astype(np.float32)
CLASSES = (ROWS[:, 0] > 0).astype(np.int64) + (ROWS[:, 1] > 0)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_keras_model_trains_as_an_estimator_as_by_fit(tmp_path, replicas):
    """``tutorials/estimator/keras_model_to_estimator``."""
    strategy = None
    if replicas > 1:
        strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    config = tf.estimator.RunConfig(train_distribute=strategy)
    model = keras_model()
    made = tf.keras.estimator.model_to_estimator(
        keras_model=model, model_dir=tmp_path, config=config
    )

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(({"rows": ROWS}, CLASSES)).batch(8)

    made.train(input_fn)
    found = made.evaluate(input_fn)
    other = keras_model()
    np.testing.assert_array_equal(model.layers[0].kernel, other.layers[0].kernel)
    other.fit(ROWS, CLASSES, batch_size=8 * replicas, shuffle=False, verbose=0)
    kernel = made.get_variable_value("hidden/kernel")
    np.testing.assert_allclose(kernel, other.layers[0].kernel, rtol=1e-4, atol=1e-6)
    loss, accuracy = other.evaluate(ROWS, CLASSES, verbose=0)
    assert found["accuracy"] == pytest.approx(accuracy)
    assert found["loss"] == pytest.approx(loss, rel=1e-4)
    first = next(iter(made.predict(input_fn)))
    np.testing.assert_allclose(first["scores"], other(ROWS[:1])[0], rtol=1e-3, atol=1e-5)


def test_model_to_estimator_loads_a_model_and_refuses_others(tmp_path):
    model = keras_model()
    model.save(tmp_path / "model.keras")
    made = dl.estimator.model_to_estimator(keras_model_path=tmp_path / "model.keras")
    rows = dl.data.Dataset.from_tensors((ROWS, CLASSES))
    made.train(lambda: rows)
    assert made.evaluate(lambda: rows)["global_step"] == 1
    with pytest.raises(ValueError, match="needs to be provided"):
        dl.estimator.model_to_estimator()
    with pytest.raises(ValueError, match="not been compiled"):
        dl.estimator.model_to_estimator(keras.Sequential([keras.layers.Dense(1)]))
    with pytest.raises(ValueError, match="Checkpoint format"):
        dl.estimator.model_to_estimator(model, checkpoint_format="other")
