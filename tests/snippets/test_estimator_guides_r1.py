"""TensorFlow 1's guides of Estimators (``r1/guide`` of tensorflow/docs), by their sections.

Each test is a fragment in the spelling of that time, with the import changed and with fewer rows.
"""

import json

import numpy as np
import pytest

import drumline.compat.tf as tf2
from tests.snippets.iris import COLUMNS, SPECIES, iris, mirrored

tf = tf2.compat.v1
# What Keras 3 says of the spelling of the time.
pytestmark = pytest.mark.filterwarnings("ignore:Do not pass an `input_shape`:UserWarning")


def train_input_fn(features, labels, batch_size):
    dataset = tf.data.Dataset.from_tensor_slices((dict(features), labels))
    return dataset.shuffle(1000, seed=1).repeat().batch(batch_size)


def eval_input_fn(features, labels, batch_size):
    features = dict(features)
    inputs = features if labels is None else (features, labels)
    return tf.data.Dataset.from_tensor_slices(inputs).batch(batch_size)


def numeric_columns(train_x):
    return [tf.feature_column.numeric_column(key=key) for key in train_x]


def check_predictions(classifier):
    """What the premade and the custom guide end with: a class and its probability for each row."""
    expected = ["Setosa", "Versicolor", "Virginica"]
    predict_x = {
        "SepalLength": [5.1, 5.9, 6.9],
        "SepalWidth": [3.3, 3.0, 3.1],
        "PetalLength": [1.7, 4.2, 5.4],
        "PetalWidth": [0.5, 1.5, 2.1],
    }
    predictions = classifier.predict(input_fn=lambda: eval_input_fn(predict_x, None, batch_size=2))
    template = 'Prediction is "{}" ({:.1f}%), expected "{}"'
    lines = []
    for pred_dict, expec in zip(predictions, expected, strict=True):
        class_id = pred_dict["class_ids"][0]
        probability = pred_dict["probabilities"][class_id]
        assert probability == max(pred_dict["probabilities"])
        lines.append(template.format(SPECIES[class_id], 100 * probability, expec))
    assert lines[0].startswith('Prediction is "Setosa"')
    assert lines[2].startswith('Prediction is "Virginica"')


def test_premade_estimators_input_function():
    """r1/guide/premade_estimators.md, "Create input functions": values, without a dataset."""

    def input_evaluation_set():
        features = {
            "SepalLength": np.array([6.4, 5.0]),
            "SepalWidth": np.array([2.8, 2.3]),
            "PetalLength": np.array([5.6, 3.3]),
            "PetalWidth": np.array([2.2, 1.0]),
        }
        labels = np.array([2, 1])
        return features, labels

    features, labels = input_evaluation_set()
    assert set(features) == set(COLUMNS[:-1]) and labels.shape == (2,)
    batch = next(iter(eval_input_fn(features, labels, 2)))
    np.testing.assert_array_equal(batch[1], labels)


def test_premade_estimators(tmp_path):
    """r1/guide/premade_estimators.md: a DNNClassifier of irises, from columns to predictions."""
    train_x, train_y = iris(90)
    test_x, test_y = iris(30, seed=1)
    classifier = tf.estimator.DNNClassifier(
        feature_columns=numeric_columns(train_x),
        hidden_units=[10, 10],
        n_classes=3,
        model_dir=str(tmp_path),
        config=tf.estimator.RunConfig(tf_random_seed=3),
    )
    classifier.train(input_fn=lambda: train_input_fn(train_x, train_y, 30), steps=100)
    eval_result = classifier.evaluate(input_fn=lambda: eval_input_fn(test_x, test_y, 30))
    assert "accuracy: {accuracy:0.3f}".format(**eval_result).split(".")[0][-1] in "01"
    assert eval_result["accuracy"] > 0.8 and eval_result["global_step"] == 100
    check_predictions(classifier)


def my_model_fn(features, labels, mode, params):
    """The model of custom_estimators.md."""
    net = tf.feature_column.input_layer(features, params["feature_columns"])
    for units in params["hidden_units"]:
        net = tf.layers.dense(net, units=units, activation=tf.nn.relu)
    logits = tf.layers.dense(net, params["n_classes"], activation=None)
    predicted_classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {
            "class_ids": predicted_classes[:, tf.newaxis],
            "probabilities": tf.nn.softmax(logits),
            "logits": logits,
        }
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf.metrics.accuracy(labels=labels, predictions=predicted_classes, name="acc_op")
    metrics = {"accuracy": accuracy}
    tf.summary.scalar("accuracy", accuracy[1])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    assert mode == tf.estimator.ModeKeys.TRAIN
    optimizer = tf.train.AdagradOptimizer(learning_rate=0.1)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_custom_estimators(tmp_path):
    """r1/guide/custom_estimators.md: its model_fn trains, evaluates and predicts."""
    train_x, train_y = iris(90)
    test_x, test_y = iris(30, seed=1)
    classifier = tf.estimator.Estimator(
        model_fn=my_model_fn,
        model_dir=str(tmp_path),
        params={
            "feature_columns": numeric_columns(train_x),
            "hidden_units": [10, 10],
            "n_classes": 3,
        },
        config=tf.estimator.RunConfig(tf_random_seed=3),
    )
    classifier.train(input_fn=lambda: train_input_fn(train_x, train_y, 30), steps=200)
    eval_result = classifier.evaluate(input_fn=lambda: eval_input_fn(test_x, test_y, 30))
    assert eval_result["accuracy"] > 0.8
    check_predictions(classifier)


def test_datasets_for_estimators_slices():
    """r1/guide/datasets_for_estimators.md, "Basic input": slices, their form, and batches."""
    features, labels = iris(6)
    mnist_ds = tf.data.Dataset.from_tensor_slices(np.zeros((5, 28, 28), np.uint8))
    assert mnist_ds.element_spec == tf2.TensorSpec([28, 28], tf.uint8)
    assert mnist_ds.batch(100).element_spec == tf2.TensorSpec([None, 28, 28], tf.uint8)
    dataset = tf.data.Dataset.from_tensor_slices((dict(features), labels))
    spec = dataset.shuffle(1000).repeat().batch(3).element_spec
    assert spec[0]["PetalWidth"].shape.as_list() == [None] and spec[1].dtype == tf.int64


def test_datasets_for_estimators_csv_lines(tmp_path):
    """r1/guide/datasets_for_estimators.md, "Reading a CSV File": lines are decoded in a map."""
    features, labels = iris(60)
    rows = zip(*(features[name] for name in COLUMNS[:-1]), labels, strict=True)
    lines = [",".join(str(each) for each in row) for row in rows]
    train_path = tmp_path / "iris_training.csv"
    train_path.write_text("\n".join(["120,4,setosa,versicolor,virginica", *lines]))
    columns = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth", "label"]
    field_defaults = [[0.0], [0.0], [0.0], [0.0], [0]]

    def _parse_line(line):
        fields = tf.decode_csv(line, field_defaults)
        features = dict(zip(columns, fields, strict=True))
        label = features.pop("label")
        return features, label

    def csv_input_fn(csv_path, batch_size):
        dataset = tf.data.TextLineDataset(csv_path).skip(1)
        dataset = dataset.map(_parse_line)
        return dataset.shuffle(1000, seed=1).repeat().batch(batch_size)

    found, label = next(iter(tf.data.TextLineDataset(str(train_path)).skip(1).map(_parse_line)))
    assert found["SepalWidth"].dtype == tf.float32 and label.dtype == tf.int32
    feature_columns = [tf.feature_column.numeric_column(name) for name in COLUMNS[:-1]]
    est = tf.estimator.LinearClassifier(feature_columns, n_classes=3, model_dir=str(tmp_path / "m"))
    est.train(steps=60, input_fn=lambda: csv_input_fn(str(train_path), 20))
    assert est.evaluate(lambda: csv_input_fn(str(train_path), 20), steps=3)["accuracy"] > 0.6


def test_estimators_of_keras_models(tmp_path):
    """r1/guide/estimators.md, "Creating Estimators from Keras models", of a smaller model."""
    keras_model = tf2.keras.Sequential(
        [tf2.keras.Input((4,), name="input_1"), tf2.keras.layers.Dense(3, "softmax")]
    )
    keras_model.compile(
        optimizer=tf2.keras.optimizers.SGD(0.1, momentum=0.9),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
    )
    est_model = tf.keras.estimator.model_to_estimator(
        keras_model=keras_model, model_dir=str(tmp_path)
    )
    features, labels = iris(30)
    train_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"input_1": np.stack([features[name] for name in COLUMNS[:-1]], 1).astype(np.float32)},
        y=np.eye(3, dtype=np.float32)[labels],
        batch_size=10,
        num_epochs=1,
        shuffle=False,
    )
    est_model.train(input_fn=train_input_fn, steps=2000)
    assert est_model.evaluate(train_input_fn)["global_step"] == 3


def layer(columns, features):
    return np.asarray(tf.feature_column.input_layer(features, columns))


def test_feature_columns_of_numbers():
    """r1/guide/feature_columns.md, "Numeric column" and "Bucketized column"."""
    numeric_feature_column = tf.feature_column.numeric_column(key="SepalLength")
    assert numeric_feature_column.dtype == tf.float32
    numeric_feature_column = tf.feature_column.numeric_column(key="SepalLength", dtype=tf.float64)
    assert numeric_feature_column.dtype == tf.float64
    vector_feature_column = tf.feature_column.numeric_column(key="Bowling", shape=10)
    matrix_feature_column = tf.feature_column.numeric_column(key="MyMatrix", shape=[10, 5])
    made = layer(
        [vector_feature_column, matrix_feature_column],
        {"Bowling": np.ones((2, 10)), "MyMatrix": np.ones((2, 10, 5))},
    )
    assert made.shape == (2, 60)
    numeric_feature_column = tf.feature_column.numeric_column("Year")
    bucketized_feature_column = tf.feature_column.bucketized_column(
        source_column=numeric_feature_column, boundaries=[1960, 1980, 2000]
    )
    made = layer([bucketized_feature_column], {"Year": np.float32([1959, 1960, 1980, 2000])})
    np.testing.assert_array_equal(made, np.eye(4))


def test_feature_columns_of_categories(tmp_path):
    """r1/guide/feature_columns.md: identity, vocabulary and hashed columns, as indicators."""
    indicator = tf.feature_column.indicator_column
    identity_feature_column = tf.feature_column.categorical_column_with_identity(
        key="my_feature_b", num_buckets=4
    )
    made = layer([indicator(identity_feature_column)], {"my_feature_b": [3, 1, 2, 2]})
    np.testing.assert_array_equal(made, np.eye(4)[[3, 1, 2, 2]])
    by_list = tf.feature_column.categorical_column_with_vocabulary_list(
        key="kind", vocabulary_list=["kitchenware", "electronics", "sports"]
    )
    path = tmp_path / "product_class.txt"
    path.write_text("kitchenware\nelectronics\nsports\n")
    by_file = tf.feature_column.categorical_column_with_vocabulary_file(
        key="kind", vocabulary_file=str(path), vocabulary_size=3
    )
    kinds = {"kind": ["sports", "kitchenware", "none"]}
    for column in (by_list, by_file):
        made = layer([indicator(column)], kinds)
        np.testing.assert_array_equal(made, [[0, 0, 1], [1, 0, 0], [0, 0, 0]])
    hashed_feature_column = tf.feature_column.categorical_column_with_hash_bucket(
        key="some_feature", hash_bucket_size=100
    )
    made = layer([indicator(hashed_feature_column)], {"some_feature": ["a", "b"]})
    assert made.shape == (2, 100) and made.sum() == 2


def test_feature_columns_crossed(tmp_path):
    """r1/guide/feature_columns.md, "Crossed column": a LinearRegressor of a grid of places."""
    generator = np.random.default_rng(0)
    latitude, longitude = generator.uniform(33, 34, (8, 8)), generator.uniform(-85, -84, (8, 8))
    labels = np.where(latitude > 33.5, 1.0, -1.0) * np.where(longitude > -84.5, 1.0, -1.0)

    def make_dataset(latitude, longitude, labels):
        assert latitude.shape == longitude.shape == labels.shape
        features = {"latitude": latitude.flatten(), "longitude": longitude.flatten()}
        labels = labels.flatten()
        return tf.data.Dataset.from_tensor_slices((features, labels))

    latitude_bucket_fc = tf.feature_column.bucketized_column(
        tf.feature_column.numeric_column("latitude"), list(np.linspace(33, 34, 5))
    )
    longitude_bucket_fc = tf.feature_column.bucketized_column(
        tf.feature_column.numeric_column("longitude"), list(np.linspace(-85, -84, 5))
    )
    crossed_lat_lon_fc = tf.feature_column.crossed_column(
        [latitude_bucket_fc, longitude_bucket_fc], 5000
    )
    losses = []
    for name, fc in (
        ("crossed", [latitude_bucket_fc, longitude_bucket_fc, crossed_lat_lon_fc]),
        ("plain", [latitude_bucket_fc, longitude_bucket_fc]),
    ):
        est = tf.estimator.LinearRegressor(fc, model_dir=str(tmp_path / name))
        data = make_dataset(latitude, longitude, labels)
        est.train(lambda data=data: data.repeat(60).batch(64))
        losses.append(est.evaluate(lambda data=data: data.batch(64))["average_loss"])
    assert losses[0] < 0.5 * losses[1]


def test_feature_columns_indicator_and_embedding():
    """r1/guide/feature_columns.md, "Indicator and embedding columns"."""
    categorical_column = tf.feature_column.categorical_column_with_identity("word", 81)
    indicator_column = tf.feature_column.indicator_column(categorical_column)
    number_of_categories = 81
    embedding_dimensions = number_of_categories**0.25
    embedding_column = tf.feature_column.embedding_column(
        categorical_column=categorical_column, dimension=int(embedding_dimensions)
    )
    assert layer([indicator_column], {"word": [1, 2]}).shape == (2, 81)
    assert layer([embedding_column], {"word": [1, 2]}).shape == (2, 3)


def test_checkpoints(tmp_path):
    """r1/guide/checkpoints.md: where they are, when and how many, and that training continues."""
    train_x, train_y = iris(30)
    my_feature_columns = numeric_columns(train_x)
    my_checkpointing_config = tf.estimator.RunConfig(
        save_checkpoints_secs=20 * 60,
        keep_checkpoint_max=10,
    )
    classifier = tf.estimator.DNNClassifier(
        feature_columns=my_feature_columns,
        hidden_units=[10, 10],
        n_classes=3,
        model_dir=str(tmp_path / "models/iris"),
        config=my_checkpointing_config,
    )
    classifier.train(input_fn=lambda: train_input_fn(train_x, train_y, batch_size=10), steps=2)
    assert classifier.model_dir == str(tmp_path / "models/iris")
    assert {path.name.split(".")[0] for path in (tmp_path / "models/iris").iterdir()} == {
        "checkpoint",
        "events",
        "model",
    }
    classifier.train(input_fn=lambda: train_input_fn(train_x, train_y, batch_size=10), steps=2)
    assert classifier.get_variable_value("global_step") == 4
    assert tf.train.latest_checkpoint(classifier.model_dir).endswith("model.ckpt-4")


def test_checkpoints_of_another_model_are_refused(tmp_path):
    """r1/guide/checkpoints.md, "Avoiding a bad restoration": other numbers of neurons."""
    train_x, train_y = iris(30)

    def trained(hidden_units):
        classifier = tf.estimator.DNNClassifier(
            feature_columns=numeric_columns(train_x),
            hidden_units=hidden_units,
            n_classes=3,
            model_dir=str(tmp_path),
        )
        input_fn = lambda: train_input_fn(train_x, train_y, batch_size=10)  # noqa: E731
        return classifier.train(input_fn=input_fn, steps=1)

    trained([10, 10])
    with pytest.raises(ValueError, match=r"shape|\(.*20.*\)"):
        trained([20, 20])


def test_distribute_strategy(tmp_path):
    """r1/guide/distribute_strategy.ipynb, "Using tf.distribute.Strategy with Estimator"."""
    mirrored_strategy = mirrored(tf)
    config = tf.estimator.RunConfig(
        train_distribute=mirrored_strategy, eval_distribute=mirrored_strategy
    )
    regressor = tf.estimator.LinearRegressor(
        feature_columns=[tf.feature_column.numeric_column("feats")],
        optimizer="SGD",
        config=config.replace(model_dir=str(tmp_path)),
    )

    def input_fn():
        dataset = tf.data.Dataset.from_tensors(({"feats": [1.0]}, [1.0]))
        return dataset.repeat(1000).batch(10)

    regressor.train(input_fn=input_fn, steps=10)
    found = regressor.evaluate(input_fn=input_fn, steps=10)
    # The rate of this time is too high for a sum over the batch: the loss grows, as it did.
    assert found["global_step"] == 10 and np.isfinite(found["loss"])


def test_distribute_strategy_task_of_a_cluster(monkeypatch):
    """r1/guide/distribute_strategy.ipynb, "Setting up TF_CONFIG environment variable"."""
    described = {
        "cluster": {"worker": ["host1:1", "host2:1", "host3:1"], "ps": ["host4:1", "host5:1"]},
        "task": {"type": "worker", "index": 1},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(described))
    config = tf.estimator.RunConfig()
    assert (config.task_type, config.task_id, config.num_ps_replicas) == ("worker", 1, 2)
    assert config.num_worker_replicas == 3 and not config.is_chief


def test_keras_model_to_estimator(tmp_path):
    """r1/guide/keras.ipynb, "Estimators" and "Distribution": a model under two replicas."""
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(16, activation="relu", input_shape=(10,)),
            tf.keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(loss="binary_crossentropy", optimizer=tf.keras.optimizers.SGD(0.2))

    def input_fn():
        generator = np.random.default_rng(0)
        x = generator.random((64, 10)).astype(np.float32)
        y = generator.integers(0, 2, (64, 1)).astype(np.float32)
        return tf.data.Dataset.from_tensor_slices((x, y)).repeat(10).batch(16)

    config = tf.estimator.RunConfig(train_distribute=mirrored(tf))
    keras_estimator = tf.keras.estimator.model_to_estimator(
        keras_model=model, config=config, model_dir=str(tmp_path)
    )
    keras_estimator.train(input_fn=input_fn, steps=10)
    assert keras_estimator.evaluate(input_fn, steps=1)["global_step"] == 10
