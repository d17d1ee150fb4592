"""TensorFlow's side of the workloads of parameter servers.

Variables are ``tf.Variable`` and updates are TensorFlow's own fused kernels, which run on the
server that holds the variable; rows of tables are looked up and updated there alone. Keras 3
works as well, but reads whole tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness.loops import Loop
from benchmarks.harness.workload import Scale
from benchmarks.workloads.ps_loop import scheduled_loop
from benchmarks.workloads.ps_problem import Problem, batches, initial_layers, initial_tables

Prepare = Callable[[Scale], Callable[[], Loop]]


def serve() -> None:
    """What a worker or parameter server does until it is ended."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
    ).join()


def coordinator() -> Any:
    """A coordinator of the cluster in the environment."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return tf.distribute.coordinator.ClusterCoordinator(strategy)


def training(problem: Problem, steps_per_closure: int = 1) -> Prepare:
    """A custom training loop; with several steps to a closure, as an expert writes it."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        import tensorflow as tf

        chief = coordinator()
        return lambda: _loop(tf, chief, problem, scale, steps_per_closure)

    return prepare


def with_keras(problem: Problem) -> Prepare:
    """A custom training loop with a Keras model and optimizer."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        import os

        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras
        import tensorflow as tf

        from benchmarks.workloads.ps_keras import keras_loop

        chief = coordinator()
        return lambda: keras_loop(tf, keras, chief, problem, scale)

    return prepare


def _loop(tf: Any, chief: Any, problem: Problem, scale: Scale, steps_per_closure: int) -> Loop:
    strategy = chief.strategy
    with strategy.scope():
        tables = [tf.Variable(value) for value in initial_tables(problem)]
        layers = [tf.Variable(value) for value in initial_layers(problem)]
        variables = [*tables, *layers]
        update = _updates(tf, problem, variables)

    def predict(x: Any) -> Any:
        if tables:
            parts = tf.split(x, len(tables), axis=1)
            rows = [tf.nn.embedding_lookup(t, p) for t, p in zip(tables, parts, strict=True)]
            x = tf.concat([tf.reshape(r, (problem.batch, -1)) for r in rows], axis=1)
        for index in range(0, len(layers), 2):
            x = x @ layers[index] + layers[index + 1]
            if index + 2 < len(layers):
                x = tf.nn.relu(x)
        return x

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((predict(x) - y) ** 2)
        for index, gradient in enumerate(tape.gradient(loss, variables)):
            update(index, gradient)
        return loss

    @tf.function
    def step(iterator: Any) -> Any:
        loss = 0.0
        for _ in tf.range(steps_per_closure) if steps_per_closure > 1 else range(1):
            loss = strategy.run(replica_step, args=next(iterator))
        return loss

    def dataset(context: Any) -> Any:
        arrays = batches(problem, context.input_pipeline_id)
        return tf.data.Dataset.from_tensor_slices(arrays).repeat().prefetch(tf.data.AUTOTUNE)

    data = chief.create_per_worker_dataset(
        lambda: strategy.distribute_datasets_from_function(dataset)
    )
    return scheduled_loop(
        chief, step, iter(data), lambda: [v.numpy() for v in variables], scale, steps_per_closure
    )


def _updates(tf: Any, problem: Problem, variables: list[Any]) -> Callable[[int, Any], None]:
    rate = problem.learning_rate
    if problem.optimizer == "adagrad":
        slots = [tf.Variable(tf.fill(variable.shape, 0.1)) for variable in variables]

    def sgd(index: int, gradient: Any) -> None:
        handle = variables[index].handle
        if isinstance(gradient, tf.IndexedSlices):
            tf.raw_ops.ResourceScatterSub(
                resource=handle, indices=gradient.indices, updates=rate * gradient.values
            )
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=handle, alpha=rate, delta=gradient)

    def adagrad(index: int, gradient: Any) -> None:
        given = {
            "var": variables[index].handle,
            "accum": slots[index].handle,
            "lr": rate,
            "epsilon": 1e-7,
        }
        if isinstance(gradient, tf.IndexedSlices):
            ids, places = tf.unique(gradient.indices)
            summed = tf.math.unsorted_segment_sum(gradient.values, places, tf.shape(ids)[0])
            tf.raw_ops.ResourceSparseApplyAdagradV2(**given, grad=summed, indices=ids)
        else:
            tf.raw_ops.ResourceApplyAdagradV2(**given, grad=gradient)

    return {"sgd": sgd, "adagrad": adagrad}[problem.optimizer]
