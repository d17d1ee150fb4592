"""``tf.compat.v1.metrics`` over several batches, in an Estimator and in TensorFlow's graph."""

import numpy as np
import pytest

import drumline.compat.tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

GENERATOR = np.random.default_rng(7)
ROWS = {
    "x": GENERATOR.normal(size=24).astype(np.float32),
    "y": GENERATOR.normal(size=24).astype(np.float32),
    "scale": np.float32([0, 1, 2, 4] * 6),
    "weight": np.float32([0, 1, 0.5] * 8),
    "true": GENERATOR.integers(0, 2, 24),
    "score": GENERATOR.random(24).astype(np.float32),
    "class": GENERATOR.integers(0, 3, 24),
    "found": GENERATOR.integers(0, 3, 24),
    "scores": GENERATOR.normal(size=(24, 4)).astype(np.float32),
    "several": GENERATOR.permuted(np.tile(np.arange(4), (24, 1)), axis=1)[:, :2].copy(),
    "unit": np.float32([[1, 0, 0], [0, 1, 0], [0.6, 0.8, 0]] * 8),
    "other": np.float32([[0, 1, 0], [0.8, 0, 0.6]] * 12),
}
BATCH = 8
AT_THRESHOLDS = (
    "precision",
    "recall",
    "true_positives",
    "true_negatives",
    "false_positives",
    "false_negatives",
)


def pairs(tf, rows):
    """Every metric of one batch, weighted and not."""
    metrics = tf.compat.v1.metrics
    guess = rows["score"] > 0.5
    for suffix, weights in (("", None), ("_weighted", rows["weight"])):
        made = {
            "accuracy": metrics.accuracy(rows["class"], rows["found"], weights),
            "auc": metrics.auc(rows["true"], rows["score"], weights),
            "auc_pr": metrics.auc(
                rows["true"],
                rows["score"],
                weights,
                50,
                curve="PR",
                summation_method="careful_interpolation",
            ),
            "mean": metrics.mean(rows["x"], weights),
            "absolute": metrics.mean_absolute_error(rows["x"], rows["y"], weights),
            "relative": metrics.mean_relative_error(rows["x"], rows["y"], rows["scale"], weights),
            "squared": metrics.mean_squared_error(rows["x"], rows["y"], weights),
            "root": metrics.root_mean_squared_error(rows["x"], rows["y"], weights),
            "below": metrics.percentage_below(rows["x"], 0.25, weights),
        }
        for name in ("precision", "recall", "true_positives", "true_negatives"):
            made[name] = getattr(metrics, name)(rows["true"], guess, weights)
        for name in ("false_positives", "false_negatives"):
            made[name] = getattr(metrics, name)(rows["true"], guess, weights)
        made["iou"] = metrics.mean_iou(rows["class"], rows["found"], 4, weights)
        made["per_class"] = metrics.mean_per_class_accuracy(
            rows["class"], rows["found"], 4, weights
        )
        made["cosine"] = metrics.mean_cosine_distance(
            rows["unit"], rows["other"], 1, None if weights is None else weights[:, None]
        )
        made["recall_at_1"] = metrics.recall_at_k(rows["class"], rows["scores"], 1, None, weights)
        made["recall_at_2"] = metrics.recall_at_k(rows["several"], rows["scores"], 2, None, weights)
        made["recall_of_1"] = metrics.recall_at_k(rows["several"], rows["scores"], 3, 1, weights)
        for name in AT_THRESHOLDS:
            kind = f"{name}_at_thresholds"
            made[kind] = getattr(metrics, kind)(rows["true"], rows["score"], [0.2, 0.7], weights)
        yield from ((name + suffix, each) for name, each in made.items())


def of_tensorflow():
    with theirs.Graph().as_default(), theirs.compat.v1.Session() as session:
        fed = {
            name: theirs.compat.v1.placeholder(each.dtype, [BATCH, *each.shape[1:]])
            for name, each in ROWS.items()
        }
        made = dict(pairs(theirs, fed))
        session.run(theirs.compat.v1.local_variables_initializer())
        for start in range(0, 24, BATCH):
            batch = {fed[name]: each[start : start + BATCH] for name, each in ROWS.items()}
            session.run([update for _, update in made.values()], batch)
        return session.run({name: value for name, (value, _) in made.items()})


def of_an_estimator(folder):
    def model_fn(features, labels, mode):
        step = ours.compat.v1.train.get_or_create_global_step()
        return ours.estimator.EstimatorSpec(
            mode,
            loss=ours.constant(0.0),
            train_op=step.assign_add(1),
            eval_metric_ops=dict(pairs(ours, features)),
        )

    def input_fn():
        return ours.data.Dataset.from_tensor_slices(ROWS).batch(BATCH)

    made = ours.estimator.Estimator(model_fn, folder)
    made.train(input_fn, steps=1)
    return made.evaluate(input_fn)


def test_metrics_over_batches_are_those_of_tensorflow(tmp_path):
    expected, found = of_tensorflow(), of_an_estimator(str(tmp_path))
    assert expected.keys() == found.keys() - {"loss", "global_step"}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, err_msg=name)
