"""``tf.estimator``: a model_fn is trained from checkpoint to checkpoint."""

import json
import subprocess
import sys

import numpy as np
import pytest

import drumline.compat.tf as tf

ROWS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
LABELS = (ROWS.sum(axis=1) > 0).astype(np.int64)
MODES = tf.estimator.ModeKeys


def input_fn(mode):
    data = tf.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(8)
    return data.repeat(2) if mode == MODES.TRAIN else data


def model_fn(features, labels, mode, params):
    training = mode == MODES.TRAIN
    net = tf.keras.Sequential(
        [
            tf.keras.Input((4,)),
            tf.keras.layers.Dense(8, activation="relu"),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.Dense(2),
        ]
    )
    logits = net(features, training=training)
    if mode == MODES.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"class": tf.argmax(logits, 1), "logits": logits})
    each = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    loss = tf.reduce_mean(each(labels, logits))
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
    accuracy.update_state(labels, logits)
    optimizer = tf.compat.v1.train.AdamOptimizer(params["rate"])
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        # Of all modes, as many scripts have it: only training updates variables.
        train_op=tf.group(optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())),
        eval_metric_ops={"accuracy": accuracy},
    )


def estimator(folder, model=model_fn, **config):
    run = tf.estimator.RunConfig(tf_random_seed=1, **config)
    return tf.estimator.Estimator(model, folder, run, params={"rate": 0.05})


def test_it_learns_saves_and_evaluates(tmp_path):
    made = estimator(tmp_path, save_checkpoints_steps=5, keep_checkpoint_max=3)
    metrics, exports = tf.estimator.train_and_evaluate(
        made, tf.estimator.TrainSpec(input_fn), tf.estimator.EvalSpec(input_fn, throttle_secs=0)
    )
    assert exports == [] and metrics["global_step"] == 16
    assert metrics["accuracy"] > 0.8 and metrics["loss"].dtype == np.float32
    assert made.latest_checkpoint() == str(tmp_path / "model.ckpt-16")
    names = sorted(path.name for path in tmp_path.glob("model.ckpt-*"))
    assert [name.split(".")[1] for name in names] == ["ckpt-10", "ckpt-15", "ckpt-16"]
    assert made.evaluate(input_fn) == metrics
    first = next(made.predict(input_fn))
    assert first["class"].dtype == np.int64 and first["logits"].shape == (2,)
    rows = list(made.predict(input_fn, predict_keys="class"))
    found = np.array([row["class"] for row in rows])
    assert np.mean(found == LABELS) == pytest.approx(metrics["accuracy"])
    assert "sequential/dense/kernel" in made.get_variable_names()
    assert not any("accuracy" in name for name in made.get_variable_names())


def test_training_goes_on_exactly_from_the_checkpoint(tmp_path):
    def data():
        return tf.data.Dataset.from_tensors((ROWS, LABELS)).repeat()

    whole = estimator(tmp_path / "whole").train(data, max_steps=6)
    estimator(tmp_path / "parts").train(data, steps=2)
    parts = estimator(tmp_path / "parts").train(data, max_steps=6)
    assert parts.train(data, max_steps=6) is parts, "nothing to do"
    assert parts.get_variable_value("global_step") == 6
    for name in whole.get_variable_names():
        np.testing.assert_array_equal(
            whole.get_variable_value(name), parts.get_variable_value(name), err_msg=name
        )


def test_the_first_call_of_model_fn_changes_no_variable(tmp_path):
    made = estimator(tmp_path).train(input_fn, steps=1)
    (tmp_path / "checkpoint").write_text('{"checkpoints": ["model.ckpt-0"]}')
    mean = made.get_variable_value("sequential/batch_normalization/moving_mean")
    np.testing.assert_array_equal(mean, np.zeros(8))
    assert made.get_variable_value("global_step") == 0


@pytest.mark.parametrize("devices", [["/cpu:0"], ["/cpu:0", "/cpu:1"]])
def test_replicas_train_on_batches_of_their_own(tmp_path, devices):
    contexts = []

    def sharded(input_context):
        contexts.append(input_context)
        return tf.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(8)

    def linear(features, labels, mode):
        weight = tf.Variable(tf.zeros([4]), name="weight")
        loss = tf.reduce_mean((tf.linalg.matvec(features, weight) - 1.0) ** 2)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        step = tf.compat.v1.train.get_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, step))

    strategy = tf.distribute.MirroredStrategy(devices)
    config = tf.estimator.RunConfig(train_distribute=strategy)
    made = tf.estimator.Estimator(linear, tmp_path, config).train(sharded)
    assert contexts[0].num_replicas_in_sync == len(devices)
    assert made.get_variable_value("global_step") == 8 // len(devices)
    weight = np.zeros(4, np.float32)
    for start in range(0, 64, 8 * len(devices)):
        rows = ROWS[start : start + 8 * len(devices)]
        weight -= 0.1 * 2 * ((rows @ weight - 1)[:, None] * rows).mean(axis=0)
    np.testing.assert_allclose(made.get_variable_value("weight"), weight, rtol=1e-5)


def test_hooks_see_steps_and_end_the_training(tmp_path):
    seen = []

    class Hook(tf.estimator.SessionRunHook):
        def begin(self):
            self.step = tf.compat.v1.train.get_global_step()

        def before_run(self, run_context):
            return tf.estimator.SessionRunArgs({"step": self.step})

        def after_run(self, run_context, run_values):
            seen.append(int(run_values.results["step"]))

        def end(self, session):
            seen.append("end")

    class Listener(tf.estimator.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            seen.append(f"saved {global_step_value}")

    stop = tf.estimator.StopAtStepHook(num_steps=3)
    estimator(tmp_path).train(input_fn, hooks=[Hook(), stop], saving_listeners=[Listener()])
    assert seen == ["saved 0", 1, 2, 3, "saved 3", "end"]
    with pytest.raises(TypeError, match="All hooks must be"):
        estimator(tmp_path).train(input_fn, hooks=[object()])


def test_what_a_model_fn_lacks_is_named(tmp_path):
    for mode, message in [
        ("train", "Missing train_op"),
        ("eval", "Missing loss"),
        ("infer", "Missing pred"),
    ]:
        with pytest.raises(ValueError, match=message):
            tf.estimator.EstimatorSpec(mode)
    calls = []

    def changing(features, labels, mode):
        calls.append(tf.Variable(0.0, name=f"weight_{len(calls)}"))
        loss = tf.reduce_sum(features) * calls[-1]
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    with pytest.raises(ValueError, match="makes the variable 'weight_1', which its first call"):
        tf.estimator.Estimator(changing, tmp_path / "a").train(input_fn)
    with pytest.raises(ValueError, match="not NoneType: .*'train', and has to give a loss and a"):
        tf.estimator.Estimator(lambda features, labels: None, tmp_path / "b").train(input_fn)
    with pytest.raises(ValueError, match="gives no batch"):
        estimator(tmp_path / "c").train(lambda: tf.data.Dataset.from_tensor_slices(ROWS).take(0))
    with pytest.raises(ValueError, match="Could not find trained model"):
        estimator(tmp_path / "d").evaluate(input_fn)

    def without_mode(features, labels):
        return model_fn(features, labels, MODES.TRAIN, {"rate": 0.1})

    fixed = tf.estimator.Estimator(without_mode, tmp_path / "e").train(input_fn, steps=1)
    with pytest.raises(ValueError, match="let it take the argument `mode`, and pass it on"):
        fixed.evaluate(input_fn)

    def learns_only(features, labels, mode):
        return without_mode(features, labels) if mode == MODES.TRAIN else None

    trained = tf.estimator.Estimator(learns_only, tmp_path / "f").train(input_fn, steps=1)
    with pytest.raises(ValueError, match="called for the mode 'infer', and has to give predictio"):
        next(trained.predict(input_fn))


def test_a_loss_that_is_not_a_number_ends_the_training(tmp_path):
    def broken(features, labels, mode):
        weight = tf.Variable(1.0)
        loss = weight * float("nan")
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    with pytest.raises(tf.estimator.NanLossDuringTrainingError, match="NaN loss"):
        tf.estimator.Estimator(broken, tmp_path).train(input_fn)


_TASK = """
import sys
import drumline.compat.tf as tf
from tests.compat.test_estimator import estimator, input_fn
made = estimator(sys.argv[1])
spec = tf.estimator.EvalSpec(input_fn, start_delay_secs=0, throttle_secs=0)
assert tf.estimator.train_and_evaluate(made, tf.estimator.TrainSpec(input_fn, 3), spec) is None
print("evaluated" if made.config.task_type == "evaluator" else made.evaluate(input_fn))
"""


def test_an_evaluator_ends_with_the_last_checkpoint(tmp_path, monkeypatch):
    estimator(tmp_path).train(input_fn, max_steps=3)
    cluster = {"worker": ["localhost:1"], "evaluator": ["localhost:2"]}
    task = {"type": "evaluator", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    command = [sys.executable, "-c", _TASK, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.strip() == "evaluated" and list((tmp_path / "eval").iterdir())


@pytest.mark.parametrize("reduction", ["SUM", "MEAN"])
def test_replicas_add_losses_that_are_sums(tmp_path, reduction):
    def summed(features, labels, mode):
        weight = tf.Variable(tf.zeros([4]), name="weight")
        loss = tf.compat.v1.losses.mean_squared_error(
            tf.ones_like(labels, tf.float32),
            tf.linalg.matvec(features, weight),
            reduction=getattr(tf.compat.v1.losses.Reduction, reduction),
        )
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
        step = tf.compat.v1.train.get_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, step))

    def data(batch):
        return lambda: tf.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(batch)

    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    config = tf.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy)
    two = tf.estimator.Estimator(summed, tmp_path / "two", config).train(data(8), steps=3)
    one = tf.estimator.Estimator(summed, tmp_path / "one").train(data(16), steps=3)
    expected = one.get_variable_value("weight")
    np.testing.assert_allclose(two.get_variable_value("weight"), expected, rtol=1e-5)
    # Evaluations give the mean of the replicas' losses in TensorFlow too.
    losses = [two.evaluate(data(8))["loss"], one.evaluate(data(8))["loss"]]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.filterwarnings("error::UserWarning")
def test_metrics_of_classes_do_not_warn_of_64_bits(tmp_path):
    def of_32_bits(mode):
        return input_fn(mode).map(lambda rows, labels: (rows, tf.cast(labels, tf.int32)))

    def classified(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        same = tf.keras.metrics.Accuracy()
        same.update_state(labels, tf.argmax(tf.keras.layers.Identity()(features), 1))
        metrics = {"same": same}
        return tf.estimator.EstimatorSpec(
            mode, loss=spec.loss, train_op=spec.train_op, eval_metric_ops=metrics
        )

    made = estimator(tmp_path, classified)
    made.train(of_32_bits, steps=2)
    expected = np.mean(ROWS.argmax(axis=1) == LABELS)
    assert made.evaluate(of_32_bits)["same"] == pytest.approx(expected)
