"""A Keras model on parameter servers in a custom loop, for drumline and TensorFlow alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness.loops import Loop
from benchmarks.harness.workload import Scale
from benchmarks.workloads.ps_loop import scheduled_loop
from benchmarks.workloads.ps_problem import Problem, batches, initial_layers, initial_tables


def drumline_serve() -> None:
    """What a worker or parameter server of drumline does until it is ended."""
    import drumline as dl

    resolver = dl.distribute.cluster_resolver.TFConfigClusterResolver()
    dl.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id
    ).join()


def drumline_coordinator(**options: Any) -> Any:
    """drumline's coordinator of the cluster in the environment.

    Args:
        options: of the strategy.
    """
    import drumline as dl

    resolver = dl.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = dl.distribute.ParameterServerStrategy(resolver, **options)
    return dl.distribute.coordinator.ClusterCoordinator(strategy)


def drumline_training(problem: Problem) -> Callable[[Scale], Callable[[], Loop]]:
    """The tutorial's loop."""

    def prepare(scale: Scale) -> Callable[[], Loop]:
        import drumline as dl

        chief = drumline_coordinator()
        import keras

        return lambda: keras_loop(dl, keras, chief, problem, scale)

    return prepare


def build_model(keras: Any, problem: Problem) -> Any:
    """The model, in which every table is an ``Embedding``, without its initial weights."""
    inputs = keras.Input((problem.columns,), dtype="int32" if problem.tables else "float32")
    x = inputs
    if problem.tables:
        rows = []
        for index in range(problem.tables):
            part = inputs[:, index * problem.ids : (index + 1) * problem.ids]
            layer = keras.layers.Embedding(problem.rows, problem.width, name=f"table_{index}")
            rows.append(keras.layers.Flatten()(layer(part)))
        x = keras.layers.Concatenate()(rows) if len(rows) > 1 else rows[0]
    for width in problem.layers[1:-1]:
        x = keras.layers.Dense(width, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x))


def keras_loop(
    dl: Any,
    keras: Any,
    chief: Any,
    problem: Problem,
    scale: Scale,
    *,
    seeded: bool = True,
    data: Callable[[Problem, int], Any] = batches,
) -> Loop:
    """The tutorial's loop; `dl` is drumline or TensorFlow, which it names alike.

    Args:
        dl, keras: the modules.
        chief: the ``ClusterCoordinator``.
        problem: what to train.
        scale: its elements are steps.
        seeded: whether to start from the problem's weights, and not from those of Keras.
        data: gives the batches of a worker.
    """
    strategy = chief.strategy
    with strategy.scope():
        model = build_model(keras, problem)
        optimizer = {"sgd": keras.optimizers.SGD, "adagrad": keras.optimizers.Adagrad}[
            problem.optimizer
        ](learning_rate=problem.learning_rate)
        optimizer.build(model.trainable_variables)
    if seeded:
        values = [*initial_tables(problem), *initial_layers(problem)]
        for variable, value in zip(model.trainable_variables, values, strict=True):
            variable.assign(value)

    def replica_step(x: Any, y: Any) -> Any:
        with dl.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @dl.function
    def step(iterator: Any) -> Any:
        x, y = next(iterator)
        return strategy.run(replica_step, args=(x, y))

    def dataset(context: Any) -> Any:
        arrays = data(problem, context.input_pipeline_id)
        return dl.data.Dataset.from_tensor_slices(arrays).repeat().prefetch(dl.data.AUTOTUNE)

    per_worker = chief.create_per_worker_dataset(
        lambda: strategy.distribute_datasets_from_function(dataset)
    )
    weights = model.get_weights if seeded else list
    return scheduled_loop(chief, step, iter(per_worker), weights, scale)
