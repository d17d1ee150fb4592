"""An input_fn that returns what an iterator gave, and what a model_fn collects."""

import drumline.compat.tf.compat.v1 as tf
import numpy as np
import pytest

ROWS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
LABELS = (ROWS.sum(axis=1) > 0).astype(np.int64)


def dataset():
    return tf.data.Dataset.from_tensor_slices((ROWS, LABELS)).repeat(2).batch(8)


def whole():
    return dataset().map(lambda x, y: ({"x": 2.0 * x}, y))


def one_shot():
    rows, labels = dataset().make_one_shot_iterator().get_next()
    return {"x": 2.0 * rows}, labels


def initializable():
    iterator = tf.data.make_initializable_iterator(dataset())
    assert iterator.initializer is None and len(iterator.element_spec) == 2
    rows, labels = iterator.get_next()
    return {"x": tf.scalar_mul(2.0, rows)}, labels


def of_two():
    rows = tf.data.Dataset.from_tensor_slices(ROWS).repeat(2).batch(8)
    labels = tf.data.Dataset.from_tensor_slices(LABELS).repeat(2).batch(8)
    first = tf.data.make_one_shot_iterator(rows).get_next()
    second = tf.data.make_one_shot_iterator(labels).get_next()
    return {"x": first + first}, second


def model_fn(features, labels, mode):
    net = tf.layers.dense(
        features["x"], 8, tf.nn.relu, kernel_regularizer=tf.keras.regularizers.L2(0.01)
    )
    net = tf.layers.batch_normalization(net, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(net, 2)
    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    decay = tf.add_n(
        [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "batch_norm" not in v.name]
    )
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss + 1e-3 * decay, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(folder, input_fn, model=model_fn):
    made = tf.estimator.Estimator(model, folder, tf.estimator.RunConfig(tf_random_seed=1))
    made.train(input_fn)
    return {name: made.get_variable_value(name) for name in made.get_variable_names()}


def test_an_iterator_in_an_input_fn_is_a_map_over_its_dataset(tmp_path):
    expected = trained(tmp_path / "whole", whole)
    assert expected["global_step"] == 16 and "dense/kernel" in expected
    for input_fn in (one_shot, initializable, of_two):
        found = trained(tmp_path / input_fn.__name__, input_fn)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, name)


def test_a_step_takes_one_element(tmp_path):
    def twice():
        iterator = dataset().make_one_shot_iterator()
        (rows, labels), _ = iterator.get_next(), iterator.get_next()
        return {"x": rows}, labels

    with pytest.raises(NotImplementedError, match="get_next.. is called twice"):
        trained(tmp_path, twice)


def test_errors_of_an_input_fn_are_its_own(tmp_path):
    def fails():
        dataset().make_one_shot_iterator().get_next()
        raise KeyError("of the user")

    with pytest.raises(KeyError, match="of the user"):
        trained(tmp_path, fails)
    # The thread is not left in an input_fn.
    (rows, labels) = dataset().make_one_shot_iterator().get_next()
    assert rows.shape == (8, 4) and labels.dtype == tf.int64
    with pytest.raises(RuntimeError, match="make_initializable_iterator is not supported"):
        dataset().make_initializable_iterator()


def collections(seen, mode="train"):
    def model(features, labels, mode):
        x = features["x"]
        logits = tf.layers.dense(
            x, 2, kernel_regularizer=tf.keras.regularizers.L2(0.5), name="logits"
        )
        first = tf.losses.sparse_softmax_cross_entropy(labels, logits)
        second = tf.losses.mean_squared_error(logits, logits, loss_collection="others")
        tf.losses.add_loss(tf.constant(2.0))
        tf.add_to_collections(["a", "b", "a"], first)
        kernel = tf.trainable_variables("logits/kernel")
        (slope,) = tf.gradients(tf.reduce_sum(logits), kernel)
        seen.append(
            {
                "names": [v.name for v in tf.trainable_variables()],
                "all": [v.name for v in tf.global_variables()],
                "losses": len(tf.losses.get_losses()),
                "others": tf.get_collection("others")[0] is second,
                "regularization": len(tf.losses.get_regularization_losses()),
                "own": [len(tf.get_collection(key)) for key in ("a", "b", "c")],
                "updates": tf.get_collection(tf.GraphKeys.UPDATE_OPS),
                "slope": slope.shape.as_list(),
            }
        )
        parts = [first, 2.0, tf.losses.get_regularization_loss()]
        total = tf.losses.get_total_loss()
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(
            total, tf.train.get_global_step()
        )
        off = {"off": tf.keras.metrics.Mean()}
        off["off"].update_state(abs(total - tf.add_n([tf.constant(p) * 1.0 for p in parts])))
        return tf.estimator.EstimatorSpec(mode, loss=total, train_op=train_op, eval_metric_ops=off)

    return model


def test_a_model_fn_collects_variables_and_losses(tmp_path):
    seen = []
    made = tf.estimator.Estimator(collections(seen), tmp_path)
    made.train(whole, steps=2)
    assert made.evaluate(whole)["off"] < 1e-6
    for each in seen:
        assert each == {
            "names": ["logits/kernel:0", "logits/bias:0"],
            "all": each["all"],
            "losses": 2,
            "others": True,
            "regularization": 1,
            "own": [1, 1, 0],
            "updates": [],
            "slope": [4, 2],
        }
        assert {"logits/kernel:0", "logits/bias:0"} < set(each["all"])
    assert len(seen) >= 3


@pytest.mark.parametrize(
    "call",
    [
        tf.trainable_variables,
        lambda: tf.get_collection("losses"),
        lambda: tf.add_to_collection("a", 1),
        tf.losses.get_total_loss,
        lambda: tf.gradients([tf.constant(1.0)], []),
    ],
)
def test_there_are_no_collections_elsewhere(call):
    with pytest.raises(RuntimeError, match="model_fn|GradientTape"):
        call()


def test_gradients_are_of_variables(tmp_path):
    def model(features, labels, mode):
        logits = tf.layers.dense(features["x"], 2)
        tf.gradients(logits, features["x"])

    with pytest.raises(NotImplementedError, match="watch it with a tf.GradientTape"):
        trained(tmp_path, whole, model)


def test_the_verbosity_holds_for_estimators(tmp_path, caplog):
    for name in ("tensorflow", "drumline"):
        caplog.set_level(tf.logging.INFO, name)  # what they were is restored
    tf.logging.set_verbosity(tf.logging.INFO)
    trained(tmp_path / "a", whole)
    assert any("loss = " in each.getMessage() for each in caplog.records)
    caplog.clear()
    tf.logging.set_verbosity(tf.logging.ERROR)
    trained(tmp_path / "b", whole)
    assert not caplog.records
