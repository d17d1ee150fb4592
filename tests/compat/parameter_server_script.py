"""A script for parameter servers as TensorFlow's guide has it, with the import changed."""

import json

import numpy as np

import drumline.compat.tf as tf

ROWS, BATCH, STEPS = 32, 8, 8


def serve(resolver):
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()


def dataset_fn(context):
    draw = np.random.default_rng(context.input_pipeline_id)
    x = draw.normal(size=(ROWS, 4)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True)))
    return data.shuffle(ROWS).repeat().map(lambda x, y: (x, y * 2.0)).batch(BATCH)


def coordinate(resolver):
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
        min_shard_bytes=8, max_shards=2
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
        optimizer = tf.keras.optimizers.SGD(0.05)
        rows = tf.Variable(0.0)
        loss_metric = tf.keras.metrics.Mean()

    @tf.function
    def step_fn(iterator):
        def replica_fn(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            rows.assign_add(tf.cast(tf.shape(x)[0], tf.float32))
            loss_metric.update_state(loss)
            return loss

        x, y = next(iterator)
        losses = strategy.run(replica_fn, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    @tf.function
    def per_worker_dataset_fn():
        return strategy.distribute_datasets_from_function(dataset_fn)

    iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset_fn))
    means = []
    for _ in range(4):
        for _ in range(STEPS):
            coordinator.schedule(step_fn, args=(iterator,))
        coordinator.join()
        means.append(float(loss_metric.result()))
        loss_metric.reset_state()
    last = float(coordinator.schedule(step_fn, args=(iterator,)).fetch())
    facts = {"rows": float(rows.numpy()), "means": means, "last": last}
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster_resolver.task_type in ("worker", "ps"):
        serve(cluster_resolver)
    else:
        coordinate(cluster_resolver)
