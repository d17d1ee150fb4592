"""TensorFlow's guide "Distributed Input", line by line.

What differs: names of operations on arrays (``a.numpy()``, ``tf.range``, ``tf.print``), shapes that
are tuples, and the lookup layer, which is drumline's.
"""

# ruff: noqa: B007, B905, PERF403, UP031

import numpy as np

import drumline as dl

print(dl.__version__)

# Simulate multiple CPUs with virtual devices
N_VIRTUAL_DEVICES = 2
physical_devices = dl.config.list_physical_devices("CPU")
dl.config.set_logical_device_configuration(
    physical_devices[0], [dl.config.LogicalDeviceConfiguration() for _ in range(N_VIRTUAL_DEVICES)]
)

print("Available devices:")
for i, device in enumerate(dl.config.list_logical_devices()):
    print("%d) %s" % (i, device))

global_batch_size = 16
# Create a dl.data.Dataset object.
dataset = dl.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(global_batch_size)


@dl.function
def train_step(inputs):
    features, labels = inputs
    return labels - 0.3 * features


# Iterate over the dataset using the for..in construct.
for inputs in dataset:
    print("plain", train_step(inputs).shape)

# experimental_distribute_dataset
global_batch_size = 16
mirrored_strategy = dl.distribute.MirroredStrategy()

dataset = dl.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(global_batch_size)
# Distribute input using the `experimental_distribute_dataset`.
dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)
# 1 global batch of data fed to the model in 1 step.
print(next(iter(dist_dataset)))

# Sharding
dataset = dl.data.Dataset.from_tensors(([1.0], [1.0])).repeat(64).batch(16)
options = dl.data.Options()
options.experimental_distribute.auto_shard_policy = dl.data.experimental.AutoShardPolicy.DATA
dataset = dataset.with_options(options)
print("policy", dataset.options().experimental_distribute.auto_shard_policy.name)

# distribute_datasets_from_function
mirrored_strategy = dl.distribute.MirroredStrategy()


def dataset_fn(input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    dataset = dl.data.Dataset.from_tensors(([1.0], [1.0])).repeat(64).batch(16)
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    dataset = dataset.batch(batch_size)
    dataset = dataset.prefetch(2)  # This prefetches 2 batches per device.
    return dataset


dist_dataset = mirrored_strategy.distribute_datasets_from_function(dataset_fn)
print("from function", [value.shape for value in next(iter(dist_dataset))[0].values])

# Use a Pythonic for loop construct
global_batch_size = 16
mirrored_strategy = dl.distribute.MirroredStrategy()

dataset = dl.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(global_batch_size)
dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)


@dl.function
def train_step(inputs):
    features, labels = inputs
    return labels - 0.3 * features


for x in dist_dataset:
    # train_step trains the model using the dataset elements
    loss = mirrored_strategy.run(train_step, args=(x,))
    print("Loss is ", loss)

# Use `iter` to create an explicit iterator
num_epochs = 2
steps_per_epoch = 5
for epoch in range(num_epochs):
    dist_iterator = iter(dist_dataset)
    for step in range(steps_per_epoch):
        # train_step trains the model using the dataset elements
        loss = mirrored_strategy.run(train_step, args=(next(dist_iterator),))
        # which is the same as
        # loss = mirrored_strategy.run(train_step, args=(dist_iterator.get_next(),))
        print("Loss is ", loss)

# You can break the loop with `get_next_as_optional` by checking if the `Optional` contains a value
global_batch_size = 4
steps_per_loop = 5
strategy = dl.distribute.MirroredStrategy()

dataset = dl.data.Dataset.range(9).batch(global_batch_size)
distributed_iterator = iter(strategy.experimental_distribute_dataset(dataset))


@dl.function
def train_fn(distributed_iterator):
    for _ in range(steps_per_loop):
        optional_data = distributed_iterator.get_next_as_optional()
        if not optional_data.has_value():
            break
        per_replica_results = strategy.run(lambda x: x, args=(optional_data.get_value(),))
        print("optional", strategy.experimental_local_results(per_replica_results))


train_fn(distributed_iterator)

# Using the `element_spec` property
global_batch_size = 16
epochs = 2
steps_per_epoch = 3
mirrored_strategy = dl.distribute.MirroredStrategy()

dataset = dl.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(global_batch_size)
dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)


@dl.function(input_signature=[dist_dataset.element_spec])
def train_step(per_replica_inputs):
    def step_fn(inputs):
        return 2 * inputs

    return mirrored_strategy.run(step_fn, args=(per_replica_inputs,))


for _ in range(epochs):
    iterator = iter(dist_dataset)
    for _ in range(steps_per_epoch):
        output = train_step(next(iterator))
        print("twice", len(output), output[0].values[0].shape)

# Preprocessing with a custom training loop
strategy = dl.distribute.MirroredStrategy()
vocab = ["a", "b", "c", "d", "f"]

with strategy.scope():
    # Create the layer(s) under scope.
    layer = dl.keras.layers.StringLookup(vocabulary=vocab)


def dataset_fn(input_context):
    # a dl.data.Dataset
    dataset = dl.data.Dataset.from_tensor_slices(["a", "c", "e"]).repeat()

    # Custom your batching, sharding, prefetching, etc.
    global_batch_size = 4
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    dataset = dataset.batch(batch_size)
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)

    # Apply the preprocessing layer(s) to the dl.data.Dataset
    def preprocess_with_kpl(input):
        return layer(input)

    processed_ds = dataset.map(preprocess_with_kpl)
    return processed_ds


distributed_dataset = strategy.distribute_datasets_from_function(dataset_fn)

# Print out a few example batches.
distributed_dataset_iterator = iter(distributed_dataset)
for _ in range(3):
    print("lookup", [value.tolist() for value in next(distributed_dataset_iterator).values])

# Order of results
mirrored_strategy = dl.distribute.MirroredStrategy()
dataset_size = 24
batch_size = 6
dataset = dl.data.Dataset.range(dataset_size).enumerate().batch(batch_size)
dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)


def predict(index, inputs):
    outputs = 2 * inputs
    return index, outputs


result = {}
for index, inputs in dist_dataset:
    output_index, outputs = mirrored_strategy.run(predict, args=(index, inputs))
    indices = list(mirrored_strategy.experimental_local_results(output_index))
    rindices = []
    for a in indices:
        rindices.extend(np.asarray(a))
    outputs = list(mirrored_strategy.experimental_local_results(outputs))
    routputs = []
    for a in outputs:
        routputs.extend(np.asarray(a))
    for i, value in zip(rindices, routputs):
        result[i] = value

print("ordered", result == {i: 2 * i for i in range(dataset_size)})

# Use experimental_distribute_values_from_function for arbitrary tensor inputs
mirrored_strategy = dl.distribute.MirroredStrategy()


def value_fn(ctx):
    return np.asarray(ctx.replica_id_in_sync_group)


distributed_values = mirrored_strategy.experimental_distribute_values_from_function(value_fn)
for _ in range(4):
    result = mirrored_strategy.run(lambda x: x, args=(distributed_values,))
    print("value", [int(value) for value in result.values])

# Use Dataset.from_generator if your input is from a generator
mirrored_strategy = dl.distribute.MirroredStrategy()


def input_gen():
    while True:
        yield np.random.rand(4)


# use Dataset.from_generator
dataset = dl.data.Dataset.from_generator(input_gen, output_types=(np.float32), output_shapes=(4,))
dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)
iterator = iter(dist_dataset)
for _ in range(4):
    result = mirrored_strategy.run(lambda x: x, args=(next(iterator),))
    print("generated", [value.shape for value in result.values], result.values[0].dtype)
