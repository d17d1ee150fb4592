"""``dl.estimator``: Keras's models and optimizers in a model_fn, with drumline's datasets."""

import subprocess
import sys

import keras
import numpy as np
import pytest

import drumline as dl

ROWS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
LABELS = (ROWS.sum(axis=1) > 0).astype(np.int32)
MODES = dl.estimator.ModeKeys


def input_fn(mode):
    data = dl.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(8)
    return data.repeat(2) if mode == MODES.TRAIN else data


def model_fn(features, labels, mode, params):
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)]
    )
    optimizer = keras.optimizers.SGD(params["rate"], momentum=0.9)
    with dl.GradientTape() as tape:
        logits = model(features, training=mode == MODES.TRAIN)
        if mode == MODES.PREDICT:
            return dl.estimator.EstimatorSpec(mode, {"class": keras.ops.argmax(logits, 1)})
        each = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        loss = keras.ops.mean(each)
        scaled = loss / dl.distribute.get_strategy().num_replicas_in_sync
    train_op = None
    if mode == MODES.TRAIN:
        gradients = tape.gradient(scaled, model.trainable_variables)
        train_op = optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    accuracy.update_state(labels, logits)
    return dl.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy}
    )


def estimator(folder, model=model_fn, **config):
    run = dl.estimator.RunConfig(tf_random_seed=1, **config)
    return dl.estimator.Estimator(model, folder, run, params={"rate": 0.05})


def test_it_trains_evaluates_and_predicts(tmp_path):
    made = estimator(tmp_path, save_checkpoints_steps=5, keep_checkpoint_max=3)
    metrics, _ = dl.estimator.train_and_evaluate(
        made,
        dl.estimator.TrainSpec(input_fn),
        dl.estimator.EvalSpec(input_fn, throttle_secs=0),
    )
    assert metrics["global_step"] == 16 and metrics["accuracy"] > 0.8
    assert made.latest_checkpoint() == str(tmp_path / "model.ckpt-16")
    found = np.array([row["class"] for row in made.predict(input_fn)])
    assert np.mean(found == LABELS) == pytest.approx(metrics["accuracy"])


def test_its_steps_are_those_of_a_loop_of_ones_own(tmp_path):
    made = estimator(tmp_path).train(input_fn, max_steps=3)
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2)]
    )
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    for start in (0, 8, 16):
        with dl.GradientTape() as tape:
            logits = model(ROWS[start : start + 8], training=True)
            loss = keras.ops.mean(
                keras.losses.sparse_categorical_crossentropy(
                    LABELS[start : start + 8], logits, from_logits=True
                )
            )
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
    for layer in ("dense", "dense_1"):
        found = made.get_variable_value(f"sequential/{layer}/kernel")
        expected = model.layers[layer == "dense_1"].kernel.numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert made.get_variable_value("sgd/iteration") == 3


def test_training_goes_on_exactly_and_replicas_share_the_loss(tmp_path):
    def data(batch):
        return lambda: dl.data.Dataset.from_tensors((ROWS[:batch], LABELS[:batch])).repeat()

    one = estimator(tmp_path / "one").train(data(32), max_steps=4)
    estimator(tmp_path / "parts").train(data(32), steps=1)
    parts = estimator(tmp_path / "parts").train(data(32), max_steps=4)
    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    two = estimator(tmp_path / "two", train_distribute=strategy).train(data(32), max_steps=4)
    names = one.get_variable_names()
    assert names == two.get_variable_names() and "sequential/dense/kernel" in names
    for name in names:
        expected = one.get_variable_value(name)
        np.testing.assert_array_equal(parts.get_variable_value(name), expected, err_msg=name)
        np.testing.assert_allclose(two.get_variable_value(name), expected, rtol=1e-4, atol=1e-6)


def test_variables_of_drumline_are_those_of_the_first_call(tmp_path):
    def linear(features, labels, mode):
        weight = dl.Variable(np.zeros(4, np.float32), name="weight")
        rate = 0.1 / keras.ops.cast(1 + dl.estimator.get_global_step().value, "float32")
        loss = keras.ops.mean((features @ weight.value - 1.0) ** 2)
        slope = 2 * keras.ops.mean((features @ weight.value - 1.0)[:, None] * features, axis=0)
        return dl.estimator.EstimatorSpec(mode, loss=loss, train_op=weight.assign_sub(rate * slope))

    made = dl.estimator.Estimator(linear, tmp_path).train(
        lambda: dl.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(32)
    )
    weight = np.zeros(4, np.float32)
    for step, start in enumerate((0, 32)):
        rows = ROWS[start : start + 32]
        weight -= 0.1 / (1 + step) * 2 * ((rows @ weight - 1)[:, None] * rows).mean(axis=0)
    np.testing.assert_allclose(made.get_variable_value("weight"), weight, rtol=1e-5)
    with pytest.raises(RuntimeError, match="no Estimator runs here"):
        dl.estimator.get_global_step()


def test_it_does_without_the_look_alike():
    program = """
import sys, drumline as dl
dl.estimator.Estimator
print('drumline.compat' in sys.modules)
"""
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "False"
