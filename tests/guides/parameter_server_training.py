"""TensorFlow's tutorial "Parameter server training with ParameterServerStrategy", line by line.

What differs: names of operations on arrays, Keras 3's names (``reset_state``, ``"ckpt.keras"``,
no Reduction class), and that no model has strings as its input: the lookup layers, which are
drumline's, are called themselves. A sharded variable is one variable, with its parts in it.
"""

# ruff: noqa: B905, UP031

import multiprocessing
import os
import random
import socket
import sys

import drumline as dl

# isort: split
import keras
import numpy as np

random.seed(3)


def pick_unused_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def create_in_process_cluster(num_workers, num_ps):
    """Creates and starts local servers and returns the cluster_resolver."""
    worker_ports = [pick_unused_port() for _ in range(num_workers)]
    ps_ports = [pick_unused_port() for _ in range(num_ps)]

    cluster_dict = {}
    cluster_dict["worker"] = ["localhost:%s" % port for port in worker_ports]
    if num_ps > 0:
        cluster_dict["ps"] = ["localhost:%s" % port for port in ps_ports]

    cluster_spec = dl.train.ClusterSpec(cluster_dict)

    # Workers need some inter_ops threads to work properly.
    worker_config = {}
    if multiprocessing.cpu_count() < num_workers + 1:
        worker_config["inter_op_parallelism_threads"] = num_workers + 1

    for i in range(num_workers):
        dl.distribute.Server(
            cluster_spec, job_name="worker", task_index=i, config=worker_config, protocol="grpc"
        )

    for i in range(num_ps):
        dl.distribute.Server(cluster_spec, job_name="ps", task_index=i, protocol="grpc")

    cluster_resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(
        cluster_spec, rpc_layer="grpc"
    )
    return cluster_resolver


# Set the environment variable to allow reporting worker and ps failure to the
# coordinator. This is a workaround and won't be necessary in the future.
os.environ["GRPC_FAIL_FAST"] = "use_caller"

NUM_WORKERS = 3
NUM_PS = 2
cluster_resolver = create_in_process_cluster(NUM_WORKERS, NUM_PS)

# Instantiate a ParameterServerStrategy
variable_partitioner = dl.distribute.experimental.partitioners.MinSizePartitioner(
    min_shard_bytes=(256 << 10), max_shards=NUM_PS
)

strategy = dl.distribute.ParameterServerStrategy(
    cluster_resolver, variable_partitioner=variable_partitioner
)


# Training with Model.fit: input data
def dataset_fn(input_context):
    global_batch_size = 64
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)

    x = np.random.uniform(size=(10, 10)).astype("float32")
    y = np.random.uniform(size=(10, 1)).astype("float32")

    dataset = dl.data.Dataset.from_tensor_slices((x, y)).shuffle(10).repeat()
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    dataset = dataset.batch(batch_size)
    dataset = dataset.prefetch(2)

    return dataset


dc = dl.keras.utils.experimental.DatasetCreator(dataset_fn)

# Model construction and compiling
with strategy.scope():
    model = keras.models.Sequential([keras.layers.Dense(10)])

    model.compile(keras.optimizers.SGD(), loss="mse", steps_per_execution=10)

# Callbacks and training
working_dir = sys.argv[1]
log_dir = os.path.join(working_dir, "log")
ckpt_filepath = os.path.join(working_dir, "ckpt.keras")
backup_dir = os.path.join(working_dir, "backup")

callbacks = [
    keras.callbacks.TensorBoard(log_dir=log_dir),
    keras.callbacks.ModelCheckpoint(filepath=ckpt_filepath),
    keras.callbacks.BackupAndRestore(backup_dir=backup_dir),
]

model.fit(dc, epochs=5, steps_per_epoch=20, callbacks=callbacks)
print("losses", *model.history.history["loss"])
print("saved", keras.models.load_model(ckpt_filepath).count_params(), os.listdir(log_dir))

# Training with a custom training loop: set up the data
feature_vocab = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]
label_vocab = ["yes", "no"]

with strategy.scope():
    feature_lookup_layer = dl.keras.layers.StringLookup(vocabulary=feature_vocab, mask_token=None)
    label_lookup_layer = dl.keras.layers.StringLookup(
        vocabulary=label_vocab, num_oov_indices=0, mask_token=None
    )

    feature_preprocess_stage = feature_lookup_layer
    label_preprocess_stage = label_lookup_layer


# Generate toy examples in a dataset
def feature_and_label_gen(num_examples=200):
    examples = {"features": [], "label": []}
    for _ in range(num_examples):
        features = random.sample(feature_vocab, 3)
        label = ["yes"] if "avenger" in features else ["no"]
        examples["features"].append(features)
        examples["label"].append(label)
    return examples


examples = feature_and_label_gen()


# Then, create the training dataset wrapped in a dataset_fn
def dataset_fn(_):
    raw_dataset = dl.data.Dataset.from_tensor_slices(examples)

    train_dataset = (
        raw_dataset.map(
            lambda x: (
                {"features": feature_preprocess_stage(x["features"])},
                label_preprocess_stage(x["label"]),
            )
        )
        .shuffle(200)
        .batch(32)
        .repeat()
    )
    return train_dataset


# Build the model
# These variables created under the `Strategy.scope` will be placed on parameter
# servers in a round-robin fashion.
with strategy.scope():
    # Create the model. The input needs to be compatible with Keras processing layers.
    model_input = keras.layers.Input(shape=(3,), dtype="int32", name="features")

    emb_layer = keras.layers.Embedding(
        input_dim=len(feature_lookup_layer.get_vocabulary()), output_dim=16384
    )
    emb_output = keras.ops.mean(emb_layer(model_input), axis=1)
    dense_output = keras.layers.Dense(units=1, activation="sigmoid")(emb_output)
    model = keras.Model({"features": model_input}, dense_output)

    optimizer = keras.optimizers.RMSprop(learning_rate=0.1)
    accuracy = keras.metrics.Accuracy()

shards = emb_layer.weights[0].variables
assert len(shards) == 2
assert shards[0].shape == (4, 16384)
assert shards[1].shape == (4, 16384)
assert shards[0].device == "/job:ps/replica:0/task:0/device:CPU:0", shards
assert shards[1].device == "/job:ps/replica:0/task:1/device:CPU:0", shards


# Define the training step
@dl.function
def step_fn(iterator):

    def replica_fn(batch_data, labels):
        with dl.GradientTape() as tape:
            pred = model(batch_data, training=True)
            per_example_loss = keras.losses.BinaryCrossentropy(reduction=None)(labels, pred)
            loss = dl.nn.compute_average_loss(per_example_loss)
            gradients = tape.gradient(loss, model.trainable_variables)

        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        actual_pred = keras.ops.cast(keras.ops.greater(pred, 0.5), "int32")
        accuracy.update_state(labels, actual_pred)
        return loss

    batch_data, labels = next(iterator)
    losses = strategy.run(replica_fn, args=(batch_data, labels))
    return strategy.reduce(dl.distribute.ReduceOp.SUM, losses, axis=None)


# Dispatch training steps to remote workers
coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)


@dl.function
def per_worker_dataset_fn():
    return strategy.distribute_datasets_from_function(dataset_fn)


per_worker_dataset = coordinator.create_per_worker_dataset(per_worker_dataset_fn)
per_worker_iterator = iter(per_worker_dataset)

num_epochs = 4
steps_per_epoch = 5
for i in range(num_epochs):
    accuracy.reset_state()
    for _ in range(steps_per_epoch):
        coordinator.schedule(step_fn, args=(per_worker_iterator,))
    # Wait at epoch boundaries.
    coordinator.join()
    print("Finished epoch %d, accuracy is %f." % (i, accuracy.result()))

loss = coordinator.schedule(step_fn, args=(per_worker_iterator,))
print("Final loss is %f" % loss.fetch())

# Direct evaluation
eval_dataset = (
    dl.data.Dataset.from_tensor_slices(feature_and_label_gen(num_examples=16))
    .map(
        lambda x: (
            {"features": feature_preprocess_stage(x["features"])},
            label_preprocess_stage(x["label"]),
        )
    )
    .batch(8)
)

eval_accuracy = keras.metrics.Accuracy()

for batch_data, labels in eval_dataset:
    pred = model(batch_data, training=False)
    actual_pred = keras.ops.cast(keras.ops.greater(pred, 0.5), "int32")
    eval_accuracy.update_state(labels, actual_pred)

print("Evaluation accuracy: %f" % eval_accuracy.result())

# Distributed evaluation
with strategy.scope():
    # Define the eval metric on parameter servers.
    eval_accuracy = keras.metrics.Accuracy()


@dl.function
def eval_step(iterator):
    def replica_fn(batch_data, labels):
        pred = model(batch_data, training=False)
        actual_pred = keras.ops.cast(keras.ops.greater(pred, 0.5), "int32")
        eval_accuracy.update_state(labels, actual_pred)

    batch_data, labels = next(iterator)
    strategy.run(replica_fn, args=(batch_data, labels))


def eval_dataset_fn():
    return (
        dl.data.Dataset.from_tensor_slices(feature_and_label_gen(num_examples=16))
        .map(
            lambda x: (
                {"features": feature_preprocess_stage(x["features"])},
                label_preprocess_stage(x["label"]),
            )
        )
        .shuffle(16)
        .repeat()
        .batch(8)
    )


per_worker_eval_dataset = coordinator.create_per_worker_dataset(eval_dataset_fn)
per_worker_eval_iterator = iter(per_worker_eval_dataset)

eval_steps_per_epoch = 2
for _ in range(eval_steps_per_epoch):
    coordinator.schedule(eval_step, args=(per_worker_eval_iterator,))
coordinator.join()
print("Evaluation accuracy: %f" % eval_accuracy.result())
