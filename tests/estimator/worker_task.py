"""A task of a cluster that trains and evaluates an Estimator: ``worker_task.py FOLDER``."""

import sys

import numpy as np

import drumline as dl
from tests.estimator.test_estimator import LABELS, MODES, ROWS, estimator

STEPS = 6


def input_fn(mode, input_context=None):
    """Batches of 8 for each replica: of all, or every second one of two processes."""
    batches = dl.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(8)
    if mode != MODES.TRAIN:
        return batches
    if input_context is not None and input_context.num_input_pipelines > 1:
        batches = batches.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return batches.repeat()


def train(folder, strategy=None):
    """Train and evaluate in `folder` as the task says, or alone; the Estimator."""
    made = estimator(folder, train_distribute=strategy, save_checkpoints_steps=2)
    dl.estimator.train_and_evaluate(
        made,
        dl.estimator.TrainSpec(input_fn, STEPS),
        dl.estimator.EvalSpec(input_fn, start_delay_secs=0, throttle_secs=0),
    )
    return made


if __name__ == "__main__":
    config = dl.estimator.RunConfig()
    workers = config.task_type != "evaluator"
    made = train(sys.argv[1], dl.distribute.MultiWorkerMirroredStrategy() if workers else None)
    names = made.get_variable_names()
    total = sum(float(np.abs(made.get_variable_value(name)).sum()) for name in names)
    print("ended", config.task_type, config.task_id, config.is_chief, total)
