"""A task of a cluster that trains premade Estimators: ``premade_task.py FOLDER STRATEGY``."""

import sys

import numpy as np

import drumline.compat.tf as tf

GENERATOR = np.random.default_rng(5)
COUNT, BATCH = 64, 8
NUMBERS = GENERATOR.uniform(-1, 1, (COUNT, 2)).astype(np.float32)
COLORS = GENERATOR.choice(["red", "green", "blue"], COUNT)
# What a linear model of the columns fits, and the sign of it.
SUMS = (
    NUMBERS @ np.float32([1, -0.5])
    + np.float32([0.5, -0.25, 0])[np.searchsorted(["blue", "green", "red"], COLORS)]
)
KINDS = ("LinearRegressor", "DNNClassifier")


def input_fn(mode, params, input_context=None):
    """Batches for each replica: of all, or every second one of two processes."""
    labels = (SUMS > 0).astype(np.float32) if params["classes"] else SUMS
    features = {"numbers": NUMBERS, "color": COLORS}
    batches = tf.data.Dataset.from_tensor_slices((features, labels[:, None])).batch(BATCH)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return batches
    if input_context is not None and input_context.num_input_pipelines > 1:
        batches = batches.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return batches.repeat()


def input_of(kind):
    """`input_fn` of a kind's labels; premade Estimators have no params."""

    def of_kind(mode, input_context=None):
        return input_fn(mode, {"classes": kind.endswith("Classifier")}, input_context)

    return of_kind


def premade(kind, folder, strategy=None):
    """A premade Estimator of a dense column, and of strings as indicators or weights."""
    number = tf.feature_column.numeric_column("numbers", shape=2)
    color = tf.feature_column.categorical_column_with_vocabulary_list(
        "color", ["red", "green", "blue"]
    )
    config = tf.estimator.RunConfig(
        f"{folder}/{kind}", tf_random_seed=1, save_checkpoints_steps=20, train_distribute=strategy
    )
    if kind == "LinearRegressor":
        # Small enough for gradients that are some steps old when a parameter server applies them.
        optimizer = tf.keras.optimizers.SGD(0.1)
        return tf.estimator.LinearRegressor([number, color], optimizer=optimizer, config=config)
    columns = [number, tf.feature_column.indicator_column(color)]
    optimizer = tf.keras.optimizers.Adagrad(0.1)
    return tf.estimator.DNNClassifier([8], columns, optimizer=optimizer, config=config)


def train(kind, folder, steps, strategy=None):
    """Train and evaluate as the task says, or alone; the Estimator."""
    made = premade(kind, folder, strategy)
    tf.estimator.train_and_evaluate(
        made,
        tf.estimator.TrainSpec(input_of(kind), steps),
        tf.estimator.EvalSpec(input_of(kind), start_delay_secs=0, throttle_secs=0),
    )
    return made


if __name__ == "__main__":
    folder, name, steps, *kinds = sys.argv[1:]
    config = tf.estimator.RunConfig()
    alone = name == "none" or config.task_type == "evaluator"
    strategy = None if alone else getattr(tf.distribute, name)()
    for kind in kinds:
        train(kind, folder, int(steps), strategy)
    print("ended", config.task_type, config.task_id)
