"""Keras's `fit` in one process or several, which one script starts:

    python examples/multi_worker_with_keras.py
    drumline launch --workers 2 -- python examples/multi_worker_with_keras.py

Line by line TensorFlow's tutorial "Multi-worker training with Keras", on digits. What differs: the
data, names of operations on files, and where processes wait for what the chief writes.
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
    default=os.path.join("drumline-checkpoints", "with_keras"),
    help="where models and checkpoints are written; all processes must see it, and no stranger",
)
options = parser.parse_args()

# --- mnist_setup.py of the tutorial ---------------------------------------------------------------


def digits_dataset(batch_size, split="train"):
    def scaled(image, label):
        return image / np.float32(16), label

    dataset = dl.datasets.load("digits", split=split, as_supervised=True).map(scaled).cache()
    return dataset.shuffle(60000).repeat().batch(batch_size)


def build_and_compile_cnn_model():
    model = keras.Sequential(
        [
            keras.Input(shape=(8, 8, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=0.1),
        metrics=["accuracy"],
    )
    return model


# --- main.py of the tutorial ----------------------------------------------------------------------

per_worker_batch_size = 64
tf_config = json.loads(os.environ.get("TF_CONFIG", "{}"))
num_workers = len(tf_config.get("cluster", {}).get("worker", ["this process"]))

strategy = dl.distribute.MultiWorkerMirroredStrategy()

global_batch_size = per_worker_batch_size * num_workers
multi_worker_dataset = digits_dataset(global_batch_size)

with strategy.scope():
    # Model building/compiling need to be within `strategy.scope()`.
    multi_worker_model = build_and_compile_cnn_model()

history = multi_worker_model.fit(
    multi_worker_dataset,
    epochs=options.epochs,
    steps_per_epoch=20,
    validation_data=digits_dataset(global_batch_size, "test"),
    validation_steps=4,
    verbose=0,
).history
print("trained:", *(f"{loss:.6f}" for loss in history["loss"]))
print(f"validation accuracy: {history['val_accuracy'][-1]:.4f}")

# --- Dataset sharding -----------------------------------------------------------------------------

sharding = dl.data.Options()
sharding.experimental_distribute.auto_shard_policy = dl.data.experimental.AutoShardPolicy.OFF
dataset_no_auto_shard = digits_dataset(global_batch_size).with_options(sharding)
history = multi_worker_model.fit(dataset_no_auto_shard, steps_per_epoch=5, verbose=0).history
print(f"without auto-shard: {history['loss'][0]:.6f}")

# --- Model saving and loading ---------------------------------------------------------------------

model_path = os.path.join(options.directory, "keras-model.keras")


def _is_chief(task_type, task_id):
    # With a chief in the cluster, that is the one; otherwise worker 0, or the only process.
    has_chief = "chief" in strategy.cluster_resolver.cluster_spec().jobs
    return (
        task_type is None
        or task_type == "chief"
        or (task_type == "worker" and task_id == 0 and not has_chief)
    )


def _get_temp_dir(dirpath, task_id):
    base_dirpath = "workertemp_" + str(task_id)
    temp_dir = os.path.join(dirpath, base_dirpath)
    os.makedirs(temp_dir, exist_ok=True)
    return temp_dir


def write_filepath(filepath, task_type, task_id):
    dirpath = os.path.dirname(filepath)
    base = os.path.basename(filepath)
    if not _is_chief(task_type, task_id):
        dirpath = _get_temp_dir(dirpath, task_id)
    return os.path.join(dirpath, base)


task_type, task_id = (strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id)
write_model_path = write_filepath(model_path, task_type, task_id)

os.makedirs(options.directory, exist_ok=True)
multi_worker_model.save(write_model_path)

if not _is_chief(task_type, task_id):
    shutil.rmtree(os.path.dirname(write_model_path))
strategy.barrier()  # the chief's model is written

loaded_model = keras.models.load_model(model_path)

# Now that the model is restored, and can continue with the training.
single_worker_dataset = digits_dataset(per_worker_batch_size)
history = loaded_model.fit(single_worker_dataset, epochs=2, steps_per_epoch=20, verbose=0).history
print(f"loaded without the strategy: {history['loss'][-1]:.4f}")

# --- Checkpoint saving and restoring --------------------------------------------------------------

checkpoint_dir = os.path.join(options.directory, "ckpt")

checkpoint = dl.train.Checkpoint(model=multi_worker_model)
write_checkpoint_dir = write_filepath(checkpoint_dir, task_type, task_id)
checkpoint_manager = dl.train.CheckpointManager(
    checkpoint, directory=write_checkpoint_dir, max_to_keep=1
)

checkpoint_manager.save()
if not _is_chief(task_type, task_id):
    shutil.rmtree(write_checkpoint_dir)
strategy.barrier()  # the chief's checkpoint is written

latest_checkpoint = dl.train.latest_checkpoint(checkpoint_dir)
checkpoint.restore(latest_checkpoint)
history = multi_worker_model.fit(
    multi_worker_dataset, epochs=2, steps_per_epoch=10, verbose=0
).history
print("restored:", *(f"{loss:.6f}" for loss in history["loss"]))

# --- The BackupAndRestore callback, beside ModelCheckpoint ----------------------------------------

callbacks = [
    keras.callbacks.BackupAndRestore(backup_dir=os.path.join(options.directory, "backup")),
    keras.callbacks.ModelCheckpoint(
        filepath=os.path.join(options.directory, "epoch-{epoch}.weights.h5"),
        save_weights_only=True,
    ),
]
with strategy.scope():
    multi_worker_model = build_and_compile_cnn_model()
history = multi_worker_model.fit(
    multi_worker_dataset, epochs=options.epochs, steps_per_epoch=20, callbacks=callbacks, verbose=0
).history
print("backed up:", *(f"{loss:.6f}" for loss in history["loss"]))
