"""What the sections of the DLC tutorial on MirroredStrategy and MultiWorkerMirroredStrategy train.

Their Keras scripts, in the spelling of their time, on a few images made here.
"""

import json
import os

import numpy as np

import drumline.compat.tf as tf


def mnist(count=256):
    """Images whose class is the row that is bright."""
    labels = np.arange(count, dtype=np.int64) % 10
    images = np.random.RandomState(0).randint(0, 40, (count, 28, 28, 1)).astype(np.uint8)
    images[np.arange(count), 2 * labels + 4] = 255
    return images, labels


def scale(image, label):
    image = tf.cast(image, tf.float32)
    image /= 255
    return image, label


def build_and_compile_cnn_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        loss=tf.keras.losses.sparse_categorical_crossentropy,
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.05),
        metrics=["accuracy"],
    )
    return model


def is_chief(task_type, task_id):
    return task_type is None or task_type == "chief" or (task_type == "worker" and task_id == 0)


def write_path(path, task_type, task_id):
    """The chief's path; other workers save as well, to a directory that nobody reads."""
    folder, name = os.path.split(path)
    if not is_chief(task_type, task_id):
        folder = os.path.join(folder, f"workertemp_{task_id}")
        tf.io.gfile.makedirs(folder)
    return os.path.join(folder, name)


def worker(folder):
    """The script of each worker; the platform has set TF_CONFIG."""
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    tf_config = json.loads(os.environ["TF_CONFIG"])
    num_workers = len(tf_config["cluster"]["worker"])
    BATCH_SIZE_PER_WORKER = 64
    GLOBAL_BATCH_SIZE = BATCH_SIZE_PER_WORKER * num_workers

    dataset = tf.data.Dataset.from_tensor_slices(mnist())
    train_datasets = dataset.map(scale).cache().shuffle(10000, seed=1).batch(GLOBAL_BATCH_SIZE)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    train_datasets = train_datasets.with_options(options)

    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        multi_worker_model = build_and_compile_cnn_model()

    checkpoint = os.path.join(folder, "checkpoints", "ckpt_{epoch}")
    callbacks = [tf.keras.callbacks.ModelCheckpoint(checkpoint, save_weights_only=True)]
    history = multi_worker_model.fit(train_datasets, epochs=4, callbacks=callbacks, verbose=0)

    task_type = strategy.cluster_resolver.task_type
    task_id = strategy.cluster_resolver.task_id
    multi_worker_model.save(write_path(os.path.join(folder, "keras-model"), task_type, task_id))
    facts = {
        "replicas": strategy.num_replicas_in_sync,
        "losses": history.history["loss"],
        "weights": float(sum(np.abs(each).sum() for each in multi_worker_model.get_weights())),
    }
    print(json.dumps({"facts": facts}), flush=True)
