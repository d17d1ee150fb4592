"""TensorFlow 2's guides and tutorials of Estimators, as they were until they were archived.

``tutorials/estimator``, ``guide/estimator`` and multi_worker_with_estimator of
``tutorials/distribute`` in tensorflow/docs. Each test is the fragments of a section in their
spelling, with fewer rows.
"""

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.snippets.iris import COLUMNS, SPECIES, iris, mirrored

# What Keras 3 says of the spelling of the time.
pytestmark = pytest.mark.filterwarnings("ignore:Do not pass an `input_shape`:UserWarning")


@pytest.mark.parametrize("kind", ["DNNClassifier", "LinearClassifier"])
def test_premade(kind, tmp_path):
    """tutorials/estimator/premade.ipynb: irises, by the classifiers that it names."""
    train, train_y = iris(90)
    test, test_y = iris(30, seed=1)
    my_feature_columns = [tf.feature_column.numeric_column(key=key) for key in train]

    def input_fn(features, labels, training=True, batch_size=256):
        dataset = tf.data.Dataset.from_tensor_slices((dict(features), labels))
        if training:
            dataset = dataset.shuffle(1000, seed=1).repeat()
        return dataset.batch(batch_size)

    options = {}
    if kind == "DNNClassifier":
        # A rate for fewer steps than the 5000 of the guide.
        options = {"hidden_units": [30, 10], "optimizer": tf.keras.optimizers.Adagrad(0.1)}
    classifier = getattr(tf.estimator, kind)(
        feature_columns=my_feature_columns, n_classes=3, model_dir=str(tmp_path), **options
    )
    classifier.train(input_fn=lambda: input_fn(train, train_y, training=True), steps=80)
    eval_result = classifier.evaluate(input_fn=lambda: input_fn(test, test_y, training=False))
    assert "\nTest set accuracy: {accuracy:0.3f}\n".format(**eval_result)
    assert eval_result["accuracy"] > 0.6

    def predict_input_fn(features, batch_size=256):
        return tf.data.Dataset.from_tensor_slices(dict(features)).batch(batch_size)

    predict_x = {
        "SepalLength": [5.1, 5.9, 6.9],
        "SepalWidth": [3.3, 3.0, 3.1],
        "PetalLength": [1.7, 4.2, 5.4],
        "PetalWidth": [0.5, 1.5, 2.1],
    }
    found = []
    for pred_dict in classifier.predict(input_fn=lambda: predict_input_fn(predict_x)):
        class_id = pred_dict["class_ids"][0]
        assert pred_dict["probabilities"][class_id] == pred_dict["probabilities"].max()
        found.append(SPECIES[class_id])
    assert found[0] == "Setosa" and len(found) == 3


@pytest.fixture(scope="module")
def titanic():
    """Columns of passengers: whoever is a woman or in the first class has survived."""
    generator = np.random.default_rng(2)
    count = 96
    columns = {
        "sex": generator.choice(["male", "female"], count),
        "class": generator.choice(["First", "Second", "Third"], count),
        "parch": generator.integers(0, 3, count),
        "age": generator.uniform(1, 80, count).astype(np.float32),
        "fare": generator.uniform(5, 100, count).astype(np.float32),
    }
    survived = ((columns["sex"] == "female") | (columns["class"] == "First")).astype(np.int64)
    return columns, survived


def make_input_fn(columns, labels, num_epochs=10, shuffle=True, batch_size=32):
    def input_function():
        ds = tf.data.Dataset.from_tensor_slices((dict(columns), labels))
        if shuffle:
            ds = ds.shuffle(1000, seed=1)
        ds = ds.batch(batch_size).repeat(num_epochs)
        return ds

    return input_function


def titanic_columns(columns):
    feature_columns = []
    for feature_name in ["sex", "parch", "class"]:
        vocabulary = np.unique(columns[feature_name])
        feature_columns.append(
            tf.feature_column.categorical_column_with_vocabulary_list(feature_name, vocabulary)
        )
    numeric_columns = [
        tf.feature_column.numeric_column(feature_name, dtype=tf.float32)
        for feature_name in ["age", "fare"]
    ]
    return feature_columns + numeric_columns


def test_linear_columns(titanic):
    """tutorials/estimator/linear.ipynb, "Base feature columns": a batch, and columns of it."""
    columns, labels = titanic
    feature_columns = titanic_columns(columns)
    ds = make_input_fn(columns, labels, batch_size=10, shuffle=False)()
    for feature_batch, label_batch in ds.take(1):
        assert list(feature_batch.keys()) == list(columns)
        assert feature_batch["class"].numpy()[0] == columns["class"][0].encode()
        np.testing.assert_array_equal(label_batch.numpy(), labels[:10])
    age_column = feature_columns[3]
    ages = tf.keras.layers.DenseFeatures([age_column])(feature_batch).numpy()
    np.testing.assert_array_equal(ages[:, 0], columns["age"][:10])
    gender_column = feature_columns[0]
    layer = tf.keras.layers.DenseFeatures([tf.feature_column.indicator_column(gender_column)])
    found = layer(feature_batch).numpy()
    np.testing.assert_array_equal(found[:, 0], columns["sex"][:10] == "female")


def test_linear(titanic, tmp_path):
    """tutorials/estimator/linear.ipynb: a linear model, another one of crossed columns, an ROC."""
    columns, labels = titanic
    feature_columns = titanic_columns(columns)
    train_input_fn = make_input_fn(columns, labels)
    eval_input_fn = make_input_fn(columns, labels, num_epochs=1, shuffle=False)
    linear_est = tf.estimator.LinearClassifier(
        feature_columns=feature_columns, model_dir=str(tmp_path / "base")
    )
    linear_est.train(train_input_fn)
    result = linear_est.evaluate(eval_input_fn)
    assert result["accuracy"] > 0.7 and result["global_step"] == 30
    age_x_gender = tf.feature_column.crossed_column(["age", "sex"], hash_bucket_size=100)
    linear_est = tf.estimator.LinearClassifier(
        feature_columns=[*feature_columns, age_x_gender], model_dir=str(tmp_path / "crossed")
    )
    linear_est.train(train_input_fn)
    result = linear_est.evaluate(eval_input_fn)
    pred_dicts = list(linear_est.predict(eval_input_fn))
    probs = np.array([pred["probabilities"][1] for pred in pred_dicts])
    # What sklearn's roc_curve and auc give of them.
    above = probs[labels == 1][:, None] > probs[labels == 0]
    assert np.mean(above) == pytest.approx(result["auc"], abs=0.01)


def test_keras_model_to_estimator(tmp_path):
    """tutorials/estimator/keras_model_to_estimator.ipynb: a Keras model as an Estimator."""
    model = tf.keras.models.Sequential(
        [
            tf.keras.layers.Dense(16, activation="relu", input_shape=(4,)),
            tf.keras.layers.Dropout(0.2),
            tf.keras.layers.Dense(3),
        ]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), optimizer="adam"
    )
    features, labels = iris(96)
    rows = np.stack([features[name] for name in COLUMNS[:-1]], 1)

    def input_fn():
        dataset = tf.data.Dataset.from_tensor_slices((rows, labels))
        dataset = dataset.map(lambda features, labels: ({"dense_input": features}, labels))
        return dataset.batch(32).repeat()

    for features_batch, labels_batch in input_fn().take(1):
        assert features_batch["dense_input"].shape == (32, 4) and labels_batch.shape == (32,)
    keras_estimator = tf.keras.estimator.model_to_estimator(
        keras_model=model, model_dir=str(tmp_path)
    )
    keras_estimator.train(input_fn=input_fn, steps=1)
    before = keras_estimator.evaluate(input_fn=input_fn, steps=3)
    keras_estimator.train(input_fn=input_fn, max_steps=60)
    eval_result = keras_estimator.evaluate(input_fn=input_fn, steps=3)
    assert eval_result["loss"] < before["loss"] and eval_result["global_step"] == 60


def test_guide_premade(titanic, tmp_path):
    """guide/estimator.ipynb, "Program structure with pre-made Estimators"."""
    columns, labels = titanic
    names = ["class", "age", "sex"]

    def train_input_fn():
        titanic = tf.data.Dataset.from_tensor_slices(
            ({name: columns[name] for name in names}, labels)
        ).batch(32)
        return titanic.cache().repeat().shuffle(500, seed=1).prefetch(tf.data.AUTOTUNE)

    age = tf.feature_column.numeric_column("age")
    cls = tf.feature_column.categorical_column_with_vocabulary_list(
        "class", ["First", "Second", "Third"]
    )
    sex = tf.feature_column.categorical_column_with_hash_bucket("sex", 32)
    model = tf.estimator.LinearClassifier(
        model_dir=str(tmp_path), feature_columns=[sex, cls, age], n_classes=2
    )
    model = model.train(input_fn=train_input_fn, steps=50)
    result = model.evaluate(train_input_fn, steps=10)
    assert {"accuracy", "auc", "average_loss", "label/mean", "loss", "precision"} <= result.keys()
    for pred in model.predict(train_input_fn):
        assert {"logits", "logistic", "probabilities", "class_ids", "classes"} <= pred.keys()
        break


def test_guide_keras_model(tmp_path):
    """guide/estimator.ipynb, "Create an Estimator from a Keras model", of which a part is fixed."""
    fixed = tf.keras.layers.Conv2D(4, 3)
    fixed.trainable = False
    estimator_model = tf.keras.Sequential(
        [fixed, tf.keras.layers.GlobalAveragePooling2D(), tf.keras.layers.Dense(1)]
    )
    estimator_model.build((None, 8, 8, 3))
    estimator_model.compile(
        optimizer="adam",
        loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    kernel = fixed.get_weights()[0]
    est = tf.keras.estimator.model_to_estimator(
        keras_model=estimator_model, model_dir=str(tmp_path)
    )

    def preprocess(image, label):
        image = tf.cast(image, tf.float32)
        image = (image / 127.5) - 1
        return tf.image.resize(image, (8, 8)), label

    def train_input_fn(batch_size):
        images = np.random.default_rng(0).integers(0, 256, (64, 16, 16, 3)).astype(np.uint8)
        data = tf.data.Dataset.from_tensor_slices((images, np.arange(64) % 2))
        return data.map(preprocess).shuffle(500).batch(batch_size)

    est.train(input_fn=lambda: train_input_fn(32), steps=50)
    found = est.evaluate(input_fn=lambda: train_input_fn(32), steps=10)
    assert found["global_step"] == 2 and 0 <= found["accuracy"] <= 1
    name = next(name for name in est.get_variable_names() if est.get_variable_value(name).ndim == 4)
    np.testing.assert_array_equal(est.get_variable_value(name), kernel)


def test_guide_object_based_checkpoints(tmp_path):
    """guide/estimator.ipynb, "Saving object-based checkpoints with Estimator"."""

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.l1 = tf.keras.layers.Dense(5)

        def call(self, x):
            return self.l1(x)

    def toy_dataset():
        inputs = tf.range(10.0)[:, None]
        labels = inputs * 5.0 + tf.range(5.0)[None, :]
        return tf.data.Dataset.from_tensor_slices({"x": inputs, "y": labels}).repeat().batch(2)

    def model_fn(features, labels, mode):
        net = Net()
        opt = tf.keras.optimizers.Adam(0.1)
        ckpt = tf.train.Checkpoint(
            step=tf.compat.v1.train.get_global_step(), optimizer=opt, net=net
        )
        with tf.GradientTape() as tape:
            output = net(features["x"])
            loss = tf.reduce_mean(tf.abs(output - features["y"]))
        variables = net.trainable_variables
        gradients = tape.gradient(loss, variables)
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=tf.group(
                opt.apply_gradients(zip(gradients, variables, strict=True)),
                ckpt.step.assign_add(1),
            ),
            scaffold=tf.compat.v1.train.Scaffold(saver=ckpt),
        )

    tf.keras.backend.clear_session()
    est = tf.estimator.Estimator(model_fn, str(tmp_path))
    est.train(toy_dataset, steps=10)
    opt = tf.keras.optimizers.Adam(0.1)
    net = Net()
    ckpt = tf.train.Checkpoint(step=tf.Variable(1, dtype=tf.int64), optimizer=opt, net=net)
    ckpt.restore(tf.train.latest_checkpoint(str(tmp_path))).expect_partial()
    assert ckpt.step.numpy() == 10
    batch = next(iter(toy_dataset()))
    loss = float(tf.reduce_mean(tf.abs(net(batch["x"]) - batch["y"])))
    assert loss == pytest.approx(est.evaluate(toy_dataset, steps=1)["loss"], rel=1e-5)


def test_guide_saved_models(tmp_path):
    """guide/estimator.ipynb, "SavedModels from Estimators"."""
    input_column = tf.feature_column.numeric_column("x")
    estimator = tf.estimator.LinearClassifier(
        feature_columns=[input_column], model_dir=str(tmp_path / "model")
    )

    def input_fn():
        return (
            tf.data.Dataset.from_tensor_slices(({"x": [1.0, 2.0, 3.0, 4.0]}, [1, 1, 0, 0]))
            .repeat(200)
            .shuffle(64, seed=1)
            .batch(16)
        )

    estimator.train(input_fn)
    serving_input_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        tf.feature_column.make_parse_example_spec([input_column])
    )
    estimator_path = estimator.export_saved_model(str(tmp_path / "exported"), serving_input_fn)
    imported = tf.saved_model.load(estimator_path)

    def predict(x):
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.extend([x])
        return imported.signatures["predict"](examples=tf.constant([example.SerializeToString()]))

    low, high = predict(1.5), predict(3.5)
    assert low["class_ids"].numpy().tolist() == [[1]]
    assert high["class_ids"].numpy().tolist() == [[0]]


def test_guide_strategy(tmp_path):
    """guide/estimator.ipynb, "Using tf.distribute.Strategy with Estimator"."""
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
    assert found["global_step"] == 10 and found["loss"] < 10


def test_multi_worker_with_estimator(tmp_path, monkeypatch):
    """tutorials/distribute/multi_worker_with_estimator.ipynb, as the one worker of a cluster.

    `tests/estimator/test_clusters.py` has several, and an evaluator.
    """
    monkeypatch.delenv("TF_CONFIG", raising=False)
    batch_size, rate = 16, 1e-2
    generator = np.random.default_rng(0)
    images = {
        tf.estimator.ModeKeys.TRAIN: generator.integers(0, 256, (64, 28, 28, 1)),
        tf.estimator.ModeKeys.EVAL: generator.integers(0, 256, (32, 28, 28, 1)),
    }

    def input_fn(mode, input_context=None):
        found = images[mode].astype(np.uint8)
        mnist_dataset = tf.data.Dataset.from_tensor_slices((found, np.arange(len(found)) % 10))

        def scale(image, label):
            image = tf.cast(image, tf.float32)
            image /= 255
            return image, label

        if input_context:
            mnist_dataset = mnist_dataset.shard(
                input_context.num_input_pipelines, input_context.input_pipeline_id
            )
        return mnist_dataset.map(scale).cache().shuffle(64).batch(batch_size)

    def model_fn(features, labels, mode):
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Conv2D(4, 3, activation="relu", input_shape=(28, 28, 1)),
                tf.keras.layers.MaxPooling2D(),
                tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(10),
            ]
        )
        logits = model(features, training=False)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(learning_rate=rate)
        loss = tf.keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction=tf.keras.losses.Reduction.NONE
        )(labels, logits)
        loss = tf.reduce_sum(loss) * (1.0 / batch_size)
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        return tf.estimator.EstimatorSpec(
            mode=mode,
            loss=loss,
            train_op=optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step()),
        )

    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    config = tf.estimator.RunConfig(train_distribute=strategy)
    classifier = tf.estimator.Estimator(
        model_fn=model_fn, model_dir=str(tmp_path / "multiworker"), config=config
    )
    found, _ = tf.estimator.train_and_evaluate(
        classifier,
        train_spec=tf.estimator.TrainSpec(input_fn=input_fn),
        eval_spec=tf.estimator.EvalSpec(input_fn=input_fn),
    )
    steps = 4 // strategy.num_replicas_in_sync
    assert found["global_step"] == steps and found["loss"] < 10
