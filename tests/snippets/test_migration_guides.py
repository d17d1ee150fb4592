"""TensorFlow's guides of migration, ``guide/migrate`` of tensorflow/docs: their Estimators.

Each test is what a guide has in TensorFlow 1, in its spelling, with fewer rows; what it puts in
the place of an Estimator is Keras's, which the tutorials' tests run.
"""

import json
import math
import time

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.snippets.iris import mirrored
from tests.summary.reading import numbers

tf1 = tf.compat.v1

FEATURES = [[1.0, 1.5], [2.0, 2.5], [3.0, 3.5]]
LABELS = [[0.3], [0.5], [0.7]]
EVAL_FEATURES = [[4.0, 4.5], [5.0, 5.5], [6.0, 6.5]]
EVAL_LABELS = [[0.8], [0.9], [1.0]]


def _input_fn():
    return tf1.data.Dataset.from_tensor_slices((FEATURES, LABELS)).batch(1)


def _eval_input_fn():
    return tf1.data.Dataset.from_tensor_slices((EVAL_FEATURES, EVAL_LABELS)).batch(1)


def _model_fn(features, labels, mode):
    logits = tf1.layers.Dense(1)(features)
    loss = tf1.losses.mean_squared_error(labels=labels, predictions=logits)
    optimizer = tf1.train.AdagradOptimizer(0.05)
    train_op = optimizer.minimize(loss, global_step=tf1.train.get_global_step())
    return tf1.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture
def digits():
    """Rows as those of MNIST, of which the brightest row says the digit."""
    labels = np.arange(100) % 10
    images = np.random.default_rng(0).uniform(0, 0.2, (100, 28, 28))
    images[np.arange(100), labels] += 0.7
    return images, labels


def digits_classifier(path, **config):
    """The classifier of evaluator, checkpoint_saver, fault_tolerance and tensorboard."""
    feature_columns = [tf1.feature_column.numeric_column("x", shape=[28, 28])]
    return tf1.estimator.DNNClassifier(
        feature_columns=feature_columns,
        hidden_units=[16, 8],
        optimizer=tf1.train.AdamOptimizer(0.001),
        n_classes=10,
        dropout=0.2,
        model_dir=str(path),
        config=tf1.estimator.RunConfig(**config),
    )


def digits_input_fn(digits, **options):
    x_train, y_train = digits
    return tf1.estimator.inputs.numpy_input_fn(
        x={"x": x_train}, y=y_train.astype(np.int32), num_epochs=10, **options
    )


def test_migrating_estimator(tmp_path):
    """guide/migrate/migrating_estimator.ipynb: train and evaluate."""
    estimator = tf1.estimator.Estimator(model_fn=_model_fn, model_dir=str(tmp_path))
    estimator.train(_input_fn)
    found = estimator.evaluate(_eval_input_fn)
    assert found.keys() == {"loss", "global_step"} and found["global_step"] == 3


@pytest.mark.parametrize("kind", ["LinearEstimator", "DNNEstimator", "DNNLinearCombinedEstimator"])
def test_canned_estimators(kind, tmp_path):
    """guide/migrate/canned_estimators.ipynb: the three whose optimizer follows a schedule."""
    generator = np.random.default_rng(1)
    x_train = {name: generator.normal(size=64) for name in ["age", "fare", "sex", "alone"]}
    y_train = (x_train["sex"] > 0).astype(np.int64)

    def _input_fn():
        return tf1.data.Dataset.from_tensor_slices((dict(x_train), y_train)).batch(32)

    feature_columns = [tf1.feature_column.numeric_column(fn, dtype=tf.float32) for fn in x_train]

    def optimizer():
        return tf.keras.optimizers.legacy.Ftrl(
            l1_regularization_strength=0.001,
            learning_rate=tf1.train.exponential_decay(
                learning_rate=0.1,
                global_step=tf1.train.get_global_step(),
                decay_steps=10000,
                decay_rate=0.9,
            ),
        )

    linear = {"feature_columns": feature_columns, "optimizer": optimizer}
    deep = {**linear, "hidden_units": [16], "activation_fn": tf.nn.relu}
    combined = {
        "linear_feature_columns": feature_columns,
        "linear_optimizer": optimizer,
        "dnn_feature_columns": feature_columns,
        "dnn_hidden_units": [16],
        "dnn_optimizer": optimizer,
    }
    options = {"LinearEstimator": linear, "DNNEstimator": deep}.get(kind, combined)
    estimator = getattr(tf.estimator, kind)(
        head=tf.estimator.BinaryClassHead(), model_dir=str(tmp_path), **options
    )
    estimator.train(input_fn=lambda: _input_fn().repeat(5), steps=100)
    found = estimator.evaluate(input_fn=_input_fn, steps=10)
    assert found["global_step"] == 10 and 0 < found["loss"] < 1
    if kind == "LinearEstimator":
        assert found["accuracy"] > 0.7


def test_canned_estimators_of_trees_are_refused_by_name():
    """guide/migrate/canned_estimators.ipynb, "Boosted trees": what to use in their place."""
    with pytest.raises(AttributeError, match="XGBoost or scikit-learn"):
        _ = tf1.estimator.BoostedTreesClassifier


def test_sessionrunhook_callback(tmp_path, capsys):
    """guide/migrate/sessionrunhook_callback.ipynb: a hook that says how fast steps are."""

    class LoggerHook(tf1.train.SessionRunHook):
        def begin(self):
            self._step = -1
            self._start_time = time.time()
            self.log_frequency = 10

        def before_run(self, run_context):
            self._step += 1

        def after_run(self, run_context, run_values):
            if self._step % self.log_frequency == 0:
                current_time = time.time()
                duration = current_time - self._start_time
                self._start_time = current_time
                examples_per_sec = self.log_frequency / duration
                print("Step #:", self._step, ", Examples per second:", examples_per_sec)

    estimator = tf1.estimator.Estimator(model_fn=_model_fn, model_dir=str(tmp_path))
    estimator.train(lambda: _input_fn().repeat(10), hooks=[LoggerHook()])
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in said] == ["0", "10", "20"]


def test_logging_stop_hook(tmp_path, caplog):
    """guide/migrate/logging_stop_hook.ipynb: weights and loss are logged, two steps are made."""

    def _model_fn(features, labels, mode):
        dense = tf1.layers.Dense(1)
        logits = dense(features)
        loss = tf1.losses.mean_squared_error(labels=labels, predictions=logits)
        optimizer = tf1.train.AdagradOptimizer(0.05)
        train_op = optimizer.minimize(loss, global_step=tf1.train.get_global_step())
        stop_hook = tf1.train.StopAtStepHook(num_steps=2)
        kernel_name = tf.identity(dense.weights[0])
        bias_name = tf.identity(dense.weights[1])
        logging_weight_hook = tf1.train.LoggingTensorHook(
            tensors=[kernel_name, bias_name], every_n_iter=1
        )
        logging_loss_hook = tf1.train.LoggingTensorHook(
            {"loss from LoggingTensorHook": loss}, every_n_secs=3
        )
        return tf1.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            training_hooks=[stop_hook, logging_weight_hook, logging_loss_hook],
        )

    estimator = tf1.estimator.Estimator(model_fn=_model_fn, model_dir=str(tmp_path))
    with caplog.at_level("INFO", "drumline"):
        estimator.train(_input_fn)
    assert estimator.get_variable_value("global_step") == 2
    texts = [record.getMessage() for record in caplog.records]
    assert sum("loss from LoggingTensorHook = " in text for text in texts) == 1


def test_early_stopping(tmp_path):
    """guide/migrate/early_stopping.ipynb: a function says when to stop."""
    estimator = tf1.estimator.Estimator(model_fn=_model_fn, model_dir=str(tmp_path))
    calls = []

    def should_stop_fn():
        calls.append(True)
        return len(calls) > 2

    early_stopping_hook = tf1.estimator.experimental.make_early_stopping_hook(
        estimator=estimator, should_stop_fn=should_stop_fn, run_every_secs=None, run_every_steps=2
    )
    train_spec = tf1.estimator.TrainSpec(
        input_fn=lambda: _input_fn().repeat(100), hooks=[early_stopping_hook]
    )
    eval_spec = tf1.estimator.EvalSpec(input_fn=_eval_input_fn)
    found, _ = tf1.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    assert len(calls) == 3 and 3 <= found["global_step"] < 20


def test_evaluator(digits, tmp_path):
    """guide/migrate/evaluator.ipynb: a premade classifier of arrays is evaluated on the way."""
    classifier = digits_classifier(tmp_path)
    train_spec = tf1.estimator.TrainSpec(
        input_fn=digits_input_fn(digits, batch_size=50, shuffle=True), max_steps=10
    )
    eval_spec = tf1.estimator.EvalSpec(
        input_fn=digits_input_fn(digits, shuffle=False), steps=10, throttle_secs=0
    )
    found, _ = tf1.estimator.train_and_evaluate(
        estimator=classifier, train_spec=train_spec, eval_spec=eval_spec
    )
    assert found["global_step"] == 10 and {"accuracy", "average_loss"} <= found.keys()


def test_checkpoint_saver_and_tensorboard(digits, tmp_path):
    """guide/migrate/checkpoint_saver.ipynb and tensorboard.ipynb: what a step writes."""
    classifier = digits_classifier(tmp_path, save_summary_steps=1, save_checkpoints_steps=1)
    train_spec = tf1.estimator.TrainSpec(
        input_fn=digits_input_fn(digits, batch_size=50, shuffle=True), max_steps=7
    )
    eval_spec = tf1.estimator.EvalSpec(
        input_fn=digits_input_fn(digits, shuffle=False), steps=2, throttle_secs=0
    )
    tf1.estimator.train_and_evaluate(
        estimator=classifier, train_spec=train_spec, eval_spec=eval_spec
    )
    saved = {path.name.split(".")[1] for path in tmp_path.glob("model.ckpt-*")}
    assert saved == {f"ckpt-{step}" for step in range(3, 8)}
    losses = [step for tag, step, _ in numbers(tmp_path) if tag == "loss"]
    assert losses == list(range(1, 8))
    assert (7, True) in {(step, tag == "accuracy") for tag, step, _ in numbers(tmp_path / "eval")}


def test_fault_tolerance(digits, tmp_path):
    """guide/migrate/fault_tolerance.ipynb: a training that failed goes on from its checkpoint."""

    class InterruptHook(tf1.train.SessionRunHook):
        def begin(self):
            self._step = -1

        def before_run(self, run_context):
            self._step += 1

        def after_run(self, run_context, run_values):
            if self._step == 5:
                raise RuntimeError("Interruption")

    train_input_fn = digits_input_fn(digits, batch_size=50, shuffle=True)
    classifier = digits_classifier(tmp_path, save_summary_steps=1, save_checkpoints_steps=1)
    with pytest.raises(RuntimeError, match="Interruption"):
        classifier.train(input_fn=train_input_fn, hooks=[InterruptHook()], max_steps=10)
    assert classifier.get_variable_value("global_step") == 5
    classifier = digits_classifier(tmp_path, save_summary_steps=1, save_checkpoints_steps=1)
    classifier.train(input_fn=train_input_fn, max_steps=10)
    assert classifier.get_variable_value("global_step") == 10


def test_mirrored_strategy(tmp_path):
    """guide/migrate/mirrored_strategy.ipynb: train_and_evaluate over two replicas."""
    strategy = mirrored(tf1)
    config = tf1.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy)
    estimator = tf1.estimator.Estimator(model_fn=_model_fn, model_dir=str(tmp_path), config=config)
    train_spec = tf1.estimator.TrainSpec(input_fn=lambda: _input_fn().repeat(2))
    eval_spec = tf1.estimator.EvalSpec(input_fn=lambda: _eval_input_fn().repeat(2))
    found, _ = tf1.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    assert found["global_step"] == 3


def test_multi_worker_cpu_gpu_training(tmp_path, monkeypatch):
    """guide/migrate/multi_worker_cpu_gpu_training.ipynb: the cluster of TF_CONFIG, and none.

    `tests/estimator/test_clusters.py` runs such a cluster.
    """
    tf_config = {
        "cluster": {
            "chief": ["localhost:11111"],
            "worker": ["localhost:12345", "localhost:23456", "localhost:21212"],
            "ps": ["localhost:12121", "localhost:13131"],
        },
        "task": {"type": "chief", "index": 0},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    config = tf1.estimator.RunConfig()
    assert config.is_chief and (config.num_ps_replicas, config.num_worker_replicas) == (2, 4)
    monkeypatch.delenv("TF_CONFIG")
    estimator = tf1.estimator.Estimator(model_fn=_model_fn, model_dir=str(tmp_path))
    train_spec = tf1.estimator.TrainSpec(input_fn=_input_fn)
    eval_spec = tf1.estimator.EvalSpec(input_fn=_eval_input_fn)
    found, _ = tf1.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    assert found["global_step"] == 3


def test_saved_model(tmp_path):
    """guide/migrate/saved_model.ipynb, "Save and export a SavedModel": by an Estimator."""

    def add_two(input):
        return input + 2

    def model_fn(features, labels, mode):
        output = add_two(features["input"])
        step = tf1.train.get_global_step()
        return tf.estimator.EstimatorSpec(
            mode,
            predictions=output,
            train_op=step.assign_add(1),
            loss=tf.constant(0.0),
            export_outputs={
                tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: (
                    tf.estimator.export.PredictOutput({"output": output})
                )
            },
        )

    est = tf.estimator.Estimator(model_fn, str(tmp_path / "estimator-checkpoints"))

    def train_fn():
        return tf.data.Dataset.from_tensors({"input": 3.0})

    est.train(train_fn, steps=1)
    serving_input_fn = tf.estimator.export.build_raw_serving_input_receiver_fn(
        {"input": tf.constant(3.0)}
    )
    path = est.export_saved_model(str(tmp_path / "exported-estimator"), serving_input_fn)
    loaded = tf.saved_model.load(path)
    serve = loaded.signatures[tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
    # As the guide says, its input must be batched.
    assert serve(input=tf.constant([5.0]))["output"].numpy().tolist() == [7]
    assert est.get_variable_value("global_step") == 1


def test_metrics_optimizers(tmp_path):
    """guide/migrate/metrics_optimizers.ipynb: metrics of TensorFlow 1, and further ones."""
    features, labels = FEATURES, [0, 0, 1]
    eval_features, eval_labels = EVAL_FEATURES, [0, 1, 1]

    def _input_fn():
        return tf1.data.Dataset.from_tensor_slices((features, labels)).batch(1)

    def _eval_input_fn():
        return tf1.data.Dataset.from_tensor_slices((eval_features, eval_labels)).batch(1)

    def _model_fn(features, labels, mode):
        logits = tf1.layers.Dense(2)(features)
        predictions = tf.math.argmax(input=logits, axis=1)
        loss = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        optimizer = tf1.train.AdagradOptimizer(0.05)
        train_op = optimizer.minimize(loss, global_step=tf1.train.get_global_step())
        accuracy = tf1.metrics.accuracy(labels=labels, predictions=predictions)
        return tf1.estimator.EstimatorSpec(
            mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops={"accuracy": accuracy},
        )

    estimator = tf1.estimator.Estimator(model_fn=_model_fn, model_dir=str(tmp_path))
    estimator.train(_input_fn)
    first = estimator.evaluate(_eval_input_fn)

    def mean_squared_error(labels, predictions):
        labels = tf.cast(labels, predictions.dtype)
        return {
            "mean_squared_error": tf1.metrics.mean_squared_error(
                labels=labels, predictions=predictions
            )
        }

    estimator = tf1.estimator.add_metrics(estimator, mean_squared_error)
    found = estimator.evaluate(_eval_input_fn)
    assert found["accuracy"] == first["accuracy"]
    # Of two classes the squared error is how often they are wrong.
    assert found["mean_squared_error"] == pytest.approx(1 - found["accuracy"])


def test_migrating_feature_columns(tmp_path):
    """guide/migrate/migrating_feature_columns.ipynb, "Complete training example"."""
    features = {
        "type": [0, 1, 1],
        "size": ["small", "small", "medium"],
        "weight": [2.7, 1.8, 1.6],
    }
    labels = [1, 1, 0]
    predict_features = {"type": [0], "size": ["foo"], "weight": [-0.7]}
    vocab = ["small", "medium", "large"]
    one_hot_dims, embedding_dims, weight_mean, weight_variance = 3, 4, 2.0, 1.0
    categorical_col = tf1.feature_column.categorical_column_with_identity(
        "type", num_buckets=one_hot_dims
    )
    indicator_col = tf1.feature_column.indicator_column(categorical_col)
    vocab_col = tf1.feature_column.categorical_column_with_vocabulary_list(
        "size", vocabulary_list=vocab, num_oov_buckets=1
    )
    embedding_col = tf1.feature_column.embedding_column(vocab_col, embedding_dims)
    normalizer_fn = lambda x: (x - weight_mean) / math.sqrt(weight_variance)  # noqa: E731
    numeric_col = tf1.feature_column.numeric_column("weight", normalizer_fn=normalizer_fn)
    estimator = tf1.estimator.DNNClassifier(
        feature_columns=[indicator_col, embedding_col, numeric_col],
        hidden_units=[1],
        model_dir=str(tmp_path),
    )

    def _input_fn():
        return tf1.data.Dataset.from_tensor_slices((features, labels)).batch(1)

    estimator.train(_input_fn)

    def _predict_fn():
        return tf1.data.Dataset.from_tensor_slices(predict_features).batch(1)

    found = next(estimator.predict(_predict_fn))
    assert found["probabilities"].sum() == pytest.approx(1)
    assert found["classes"][0] in (b"0", b"1")
