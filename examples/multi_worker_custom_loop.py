"""A training loop written by hand in one process or several, which one script starts:

    python examples/multi_worker_custom_loop.py
    drumline launch --workers 2 -- python examples/multi_worker_custom_loop.py

Line by line TensorFlow's tutorial "Custom training loop with Keras and
MultiWorkerMirroredStrategy", on digits. What differs: the data, and names of operations on arrays
and files.

A run that was interrupted resumes after its last finished epoch; one that was done trains no more.
"""

import argparse
import json
import os
import shutil

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument(
    "--directory",
    default=os.path.join("drumline-checkpoints", "custom_loop"),
    help="where checkpoints are written; all processes must see it, and no stranger",
)
options = parser.parse_args()

# --- mnist.py of the tutorial ---------------------------------------------------------------------


def digits_dataset():
    def scaled(image, label):
        return image / np.float32(16), label

    dataset = dl.datasets.load("digits", split="train", as_supervised=True).map(scaled).cache()
    return dataset.shuffle(60000, seed=1)  # so that the processes' shards do not overlap


def dataset_fn(global_batch_size, input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    dataset = digits_dataset()
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.repeat().batch(batch_size)


def build_cnn_model():
    return keras.Sequential(
        [
            keras.Input(shape=(8, 8, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


# --- main.py of the tutorial ----------------------------------------------------------------------

per_worker_batch_size = 64
tf_config = json.loads(os.environ.get("TF_CONFIG", "{}"))
num_workers = len(tf_config.get("cluster", {}).get("worker", ["this process"]))
global_batch_size = per_worker_batch_size * num_workers

num_epochs = options.epochs
num_steps_per_epoch = 20


# Checkpoint saving and restoring
def _is_chief(task_type, task_id, cluster_spec):
    return (
        task_type is None
        or task_type == "chief"
        or (task_type == "worker" and task_id == 0 and "chief" not in cluster_spec.as_dict())
    )


def _get_temp_dir(dirpath, task_id):
    base_dirpath = "workertemp_" + str(task_id)
    temp_dir = os.path.join(dirpath, base_dirpath)
    os.makedirs(temp_dir, exist_ok=True)
    return temp_dir


def write_filepath(filepath, task_type, task_id, cluster_spec):
    dirpath = os.path.dirname(filepath)
    base = os.path.basename(filepath)
    if not _is_chief(task_type, task_id, cluster_spec):
        dirpath = _get_temp_dir(dirpath, task_id)
    return os.path.join(dirpath, base)


checkpoint_dir = os.path.join(options.directory, "ckpt")

# Define Strategy
strategy = dl.distribute.MultiWorkerMirroredStrategy()

with strategy.scope():
    # Model building/compiling need to be within `strategy.scope()`.
    multi_worker_model = build_cnn_model()

    multi_worker_dataset = strategy.distribute_datasets_from_function(
        lambda input_context: dataset_fn(global_batch_size, input_context)
    )
    optimizer = keras.optimizers.RMSprop(learning_rate=0.001)
    train_accuracy = keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")


@dl.function
def train_step(iterator):
    """Training step function."""

    def step_fn(inputs):
        """Per-Replica step function."""
        x, y = inputs
        with dl.GradientTape() as tape:
            predictions = multi_worker_model(x, training=True)
            per_batch_loss = keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction=None
            )(y, predictions)
            loss = dl.nn.compute_average_loss(per_batch_loss, global_batch_size=global_batch_size)

        grads = tape.gradient(loss, multi_worker_model.trainable_variables)
        optimizer.apply_gradients(zip(grads, multi_worker_model.trainable_variables, strict=True))
        train_accuracy.update_state(y, predictions)

        return loss

    per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(dl.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


epoch = dl.Variable(initial_value=np.int64(0), name="epoch")
step_in_epoch = dl.Variable(initial_value=np.int64(0), name="step_in_epoch")

task_type, task_id, cluster_spec = (
    strategy.cluster_resolver.task_type,
    strategy.cluster_resolver.task_id,
    strategy.cluster_resolver.cluster_spec(),
)

checkpoint = dl.train.Checkpoint(model=multi_worker_model, epoch=epoch, step_in_epoch=step_in_epoch)

write_checkpoint_dir = write_filepath(checkpoint_dir, task_type, task_id, cluster_spec)
checkpoint_manager = dl.train.CheckpointManager(
    checkpoint, directory=write_checkpoint_dir, max_to_keep=1
)

# Restoring the checkpoint
latest_checkpoint = dl.train.latest_checkpoint(checkpoint_dir)
if latest_checkpoint:
    checkpoint.restore(latest_checkpoint)
    print(f"Restored {os.path.basename(latest_checkpoint)}")

# Resume our CTL training
while epoch.numpy() < num_epochs:
    iterator = iter(multi_worker_dataset)
    total_loss = 0.0
    num_batches = 0

    while step_in_epoch.numpy() < num_steps_per_epoch:
        total_loss += train_step(iterator)
        num_batches += 1
        step_in_epoch.assign_add(1)

    train_loss = total_loss / num_batches
    print(
        f"Epoch: {int(epoch.numpy())}, accuracy: {train_accuracy.result():.6f}, "
        f"train_loss: {train_loss:.6f}."
    )

    train_accuracy.reset_state()

    epoch.assign_add(1)
    step_in_epoch.assign(0)

    checkpoint_manager.save()
    if not _is_chief(task_type, task_id, cluster_spec):
        shutil.rmtree(write_checkpoint_dir)
