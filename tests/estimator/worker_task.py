"""A task of a cluster that trains and evaluates an Estimator: ``worker_task.py FOLDER STRATEGY``.

The strategy is one of dl.distribute's, or ``none``: that of a cluster with parameter servers.
"""

import os
import sys
import threading
from pathlib import Path

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


def noting(folder):
    """`input_fn`, which notes the task that calls it to train; no other task can be sent it."""
    lock = threading.Lock()

    def noted(mode, config, input_context=None):
        with lock:
            if mode == MODES.TRAIN:
                task = f"{config.task_type} {config.task_id}"
                pipeline = input_context and input_context.input_pipeline_id
                (Path(folder) / f"{task} of {os.getpid()}: {pipeline}").touch()
            return input_fn(mode, input_context)

    return noted


def train(folder, strategy=None, input_fn=input_fn):
    """Train and evaluate in `folder` as the task says, or alone; the Estimator."""
    made = estimator(folder, train_distribute=strategy, save_checkpoints_steps=2)
    dl.estimator.train_and_evaluate(
        made,
        dl.estimator.TrainSpec(input_fn, STEPS),
        dl.estimator.EvalSpec(input_fn, start_delay_secs=0, throttle_secs=0),
    )
    return made


if __name__ == "__main__":
    folder, name = sys.argv[1:]
    config = dl.estimator.RunConfig()
    alone = name == "none" or (config.task_type == "evaluator" and name.startswith("Multi"))
    strategy = None if alone else getattr(dl.distribute, name)()
    made = train(folder, strategy, input_fn if name.startswith("Multi") else noting(folder))
    names = made.get_variable_names()
    total = sum(float(np.abs(made.get_variable_value(name)).sum()) for name in names)
    print("ended", config.task_type, config.task_id, config.is_chief, total)
