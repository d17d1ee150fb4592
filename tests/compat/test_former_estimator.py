"""What model_fns of TensorFlow 1 use: its metrics, summaries, and input functions of arrays."""

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.summary.reading import events, values

tf1 = tf.compat.v1
ROWS = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)
LABELS = (ROWS.sum(1) > 0).astype(np.int32)


def input_fn():
    return tf1.data.Dataset.from_tensor_slices((ROWS, LABELS)).repeat(2).batch(8)


def model_fn(features, labels, mode):
    with tf1.variable_scope("model"):
        logits = tf1.layers.dense(features, 2)
    loss = tf1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf1.metrics.accuracy(labels=labels, predictions=tf.argmax(logits, 1), name="acc_op")
    tf1.summary.scalar("accuracy", accuracy[1])
    tf1.summary.scalar("accuracy", tf.reduce_mean(loss), family="twice")
    tf1.summary.scalar("accuracy", 2 * loss)
    tf1.summary.histogram("logits", logits)
    optimizer = tf1.train.AdagradOptimizer(0.5)
    return tf1.estimator.EstimatorSpec(
        mode,
        predictions=tf.argmax(logits, 1),
        loss=loss,
        train_op=optimizer.minimize(loss, global_step=tf1.train.get_global_step()),
        eval_metric_ops={"accuracy": accuracy},
    )


def scalars(folder):
    """Steps and numbers of each tag that is none of a histogram."""
    found = {}
    for tag, step, value in values(folder):
        if value.shape == ():
            found.setdefault(tag, []).append((step, float(value)))
    return found


def test_metrics_of_a_graph_are_evaluated(tmp_path):
    made = tf1.estimator.Estimator(model_fn, str(tmp_path)).train(input_fn)
    found = made.evaluate(input_fn)
    labels = np.array(list(made.predict(input_fn)))
    assert found["accuracy"] == pytest.approx(np.mean(labels == np.tile(LABELS, 2)))
    assert found["accuracy"] > 0.8
    assert not any("acc_op" in name for name in made.get_variable_names())


def test_more_metrics_are_added(tmp_path):
    def wrong(labels, predictions):
        return {
            "wrong": tf1.metrics.mean_absolute_error(labels=labels, predictions=predictions),
            "keras": tf.keras.metrics.Accuracy(),
        }

    made = tf1.estimator.Estimator(model_fn, str(tmp_path)).train(input_fn, steps=2)
    found = tf1.estimator.add_metrics(made, wrong).evaluate(input_fn)
    assert found["wrong"] == pytest.approx(1 - found["accuracy"])


@pytest.mark.parametrize("replicas", [1, 2])
def test_summaries_are_written_with_the_loss(replicas, tmp_path):
    strategy = tf1.distribute.MirroredStrategy([f"/cpu:{each}" for each in range(replicas)])
    config = tf1.estimator.RunConfig(save_summary_steps=2, train_distribute=strategy)
    made = tf1.estimator.Estimator(model_fn, str(tmp_path), config)
    made.train(input_fn, max_steps=4)
    made.evaluate(input_fn)
    found = scalars(tmp_path)
    assert [step for step, _ in found["loss"]] == [2, 4]
    for tag in ("accuracy", "twice/twice/accuracy", "accuracy_1"):
        assert [step for step, _ in found[tag]] == [2, 4]
    for (_, once), (_, double) in zip(
        found["twice/twice/accuracy"], found["accuracy_1"], strict=True
    ):
        assert double == pytest.approx(2 * once)
    if replicas == 1:
        assert [each for _, each in found["twice/twice/accuracy"]] == pytest.approx(
            [each for _, each in found["loss"]]
        )
    tags = {value.tag for event in events(tmp_path) for value in event.summary.value}
    assert "logits" in tags
    assert {value.tag for event in events(tmp_path / "eval") for value in event.summary.value} == {
        "accuracy",
        "loss",
    }


def test_a_metric_outside_of_a_model_fn_is_refused():
    with pytest.raises(RuntimeError, match=r"tf\.metrics\.accuracy .*tf\.keras\.metrics"):
        tf1.metrics.accuracy([1], [1])


def test_an_areas_sum_that_keras_has_not_is_refused():
    with pytest.raises(NotImplementedError, match="careful_interpolation"):
        tf1.metrics.auc([1], [1.0], curve="PR")


def test_a_summary_of_no_scalar_is_refused():
    with pytest.raises(ValueError, match=r"'many' must be a scalar, not \(2,\)"):
        tf1.summary.scalar("many", [1.0, 2.0])


def test_a_summary_outside_of_a_model_fn_goes_to_the_default_writer(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=3):
        tf1.summary.scalar("outside", 2.0)
    assert scalars(tmp_path)["outside"] == [(3, 2.0)]


def batches(function):
    return [[np.asarray(part).tolist() for part in tf.nest.flatten(each)] for each in function()]


def test_numpy_input_fn_gives_batches_over_epochs():
    rows = {"x": np.arange(3), "z": np.arange(3) * 2}
    made = tf1.estimator.inputs.numpy_input_fn(
        rows, y=np.arange(3) * 10, batch_size=2, num_epochs=2, shuffle=False
    )
    assert batches(made) == [
        [[0, 1], [0, 2], [0, 10]],
        [[2, 0], [4, 0], [20, 0]],
        [[1, 2], [2, 4], [10, 20]],
    ]
    features, labels = next(iter(made()))
    assert set(features) == {"x", "z"} and labels.shape == (2,)
    plain = tf1.estimator.inputs.numpy_input_fn(np.arange(3), batch_size=3, shuffle=False)
    assert batches(plain) == [[[0, 1, 2]]]


def test_numpy_input_fn_shuffles_each_epoch_among_all_rows():
    made = tf1.estimator.inputs.numpy_input_fn(
        np.arange(50), np.arange(50), batch_size=50, num_epochs=2, shuffle=True
    )
    first, second = batches(made)
    assert first[0] == first[1] and sorted(first[0]) == list(range(50))
    assert list(range(50)) != first[0] != second[0]
    endless = tf1.estimator.inputs.numpy_input_fn(
        np.arange(2), batch_size=1, num_epochs=None, shuffle=False
    )
    assert len(list(endless().take(9))) == 9


def test_pandas_input_fn_gives_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}, index=[7, 8])
    labels = pd.Series([0, 1], index=[7, 8])
    made = tf1.estimator.inputs.pandas_input_fn(frame, labels, 2, shuffle=False)
    ((features, found),) = list(made())
    assert features["b"].numpy().tolist() == [b"x", b"y"]
    assert features["a"].numpy().tolist() == [1.0, 2.0] and found.numpy().tolist() == [0, 1]
    several = tf1.estimator.inputs.pandas_input_fn(frame, frame[["a"]], 2, shuffle=False)
    ((_, found),) = list(several())
    assert found["a"].numpy().tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="mismatched"):
        tf1.estimator.inputs.pandas_input_fn(frame, pd.Series([0, 1]), shuffle=False)
    with pytest.raises(ValueError, match="Cannot use name a for target column"):
        tf1.estimator.inputs.pandas_input_fn(frame, labels, shuffle=False, target_column="a")


def test_input_functions_of_wrong_arguments_are_refused():
    inputs = tf1.estimator.inputs
    with pytest.raises(ValueError, match="shuffle must be provided"):
        inputs.numpy_input_fn(ROWS)
    with pytest.raises(ValueError, match=r"must have the same length, not \[31, 32\]"):
        inputs.numpy_input_fn(ROWS, LABELS[1:], shuffle=False)()
    with pytest.raises(TypeError, match="x must be a dict or array; got list"):
        inputs.numpy_input_fn([1, 2], shuffle=False)()
    with pytest.raises(ValueError, match="y cannot be empty dict"):
        inputs.numpy_input_fn(ROWS, {}, shuffle=False)()


def test_classes_out_of_bounds_are_not_passed_over(tmp_path):
    def counting(features, labels, mode):
        metrics = {
            "outside": tf.compat.v1.metrics.mean_iou(features, features, 2),
            "inside": tf.compat.v1.metrics.mean_iou(features, features, 3),
        }
        step = tf.compat.v1.train.get_or_create_global_step()
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.constant(0.0), train_op=step.assign_add(1), eval_metric_ops=metrics
        )

    made = tf.estimator.Estimator(counting, str(tmp_path))
    rows = np.array([0, 1, 2, 2])
    made.train(lambda: tf.data.Dataset.from_tensors(rows), steps=1)
    found = made.evaluate(lambda: tf.data.Dataset.from_tensors(rows))
    assert np.isnan(found["outside"]) and found["inside"] == 1
