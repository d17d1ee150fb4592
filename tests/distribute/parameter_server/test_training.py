"""Custom loops by a coordinator, beside the same training on one device."""

import threading

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.parameter_server.errors import ClosureError
from drumline.distribute.parameter_server.partitioners import FixedShardsPartitioner
from drumline.distribute.parameter_server.worker.pipeline import Pipeline
from drumline.distribute.parameter_server.worker.step import Functions
from tests.distribute.parameter_server.clusters import in_process

ROWS, FIELDS, WIDTH = 40, 3, 4


def data(count=96, seed=0):
    random = np.random.default_rng(seed)
    ids = random.integers(0, ROWS, (count, FIELDS)).astype("int32")
    return ids, (ids.sum(1, keepdims=True) % 5).astype("float32")


def model():
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((FIELDS,), dtype="int32"),
            keras.layers.Embedding(ROWS, WIDTH),
            keras.layers.Flatten(),
            keras.layers.Dense(6, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )


def step_of(model, optimizer, metric=None):
    def step(batches):
        ids, targets = next(batches) if hasattr(batches, "__next__") else batches
        with dl.GradientTape() as tape:
            outputs = model(ids, training=True)
            loss = keras.ops.mean((outputs - targets) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if metric is not None:
            metric.update_state(targets, outputs)
        return loss

    return step


def batches_of(batch, drop=True):
    return dl.data.Dataset.from_tensor_slices(data()).repeat().batch(batch, drop_remainder=drop)


def on_one_device(optimizer, batch, steps):
    own = model()
    step, batches = step_of(own, optimizer), iter(batches_of(batch))
    losses = [float(step(next(batches))) for _ in range(steps)]
    return losses, [variable.numpy() for variable in own.trainable_variables]


OPTIMIZERS = [
    lambda: keras.optimizers.SGD(0.1),
    lambda: keras.optimizers.Adagrad(0.1),
    lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.2, 3, 0.5), global_clipnorm=0.5
    ),
]


@pytest.mark.parametrize("make", OPTIMIZERS, ids=["SGD", "Adagrad", "decay and clipping"])
def test_without_staleness_it_is_one_device(make):
    expected, weights = on_one_device(make(), 8, 12)
    with in_process(ps=2, max_staleness=0, variable_partitioner=FixedShardsPartitioner(2)) as many:
        with many.scope():
            own, optimizer = model(), make()
            metric = keras.metrics.MeanSquaredError()
        coordinator = dl.distribute.coordinator.ClusterCoordinator(many)
        batches = iter(coordinator.create_per_worker_dataset(lambda: batches_of(8)))
        step = step_of(own, optimizer, metric)
        losses = [coordinator.schedule(step, (batches,)) for _ in range(12)]
        coordinator.join()
        np.testing.assert_allclose(coordinator.fetch(losses), expected, rtol=2e-5)
        for variable, value in zip(own.trainable_variables, weights, strict=True):
            np.testing.assert_allclose(variable.numpy(), value, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(float(metric.result()), np.mean(expected), rtol=2e-5)
        assert isinstance(own.layers[0].embeddings, dl.distribute.ShardedVariable)
        assert int(optimizer.iterations.numpy()) == 12


def test_synchronous_workers_are_one_device_with_their_batches_together():
    expected, weights = on_one_device(keras.optimizers.Adagrad(0.1), 16, 6)
    ids, targets = data()

    def own_half(context):
        # Of each 16 rows this worker's 8.
        cut = ids.reshape(-1, 2, 8, FIELDS)[:, context.input_pipeline_id].reshape(-1, FIELDS)
        wanted = targets.reshape(-1, 2, 8, 1)[:, context.input_pipeline_id].reshape(-1, 1)
        return dl.data.Dataset.from_tensor_slices((cut, wanted)).repeat().batch(8, True)

    with in_process(workers=2, ps=2, synchronous=True) as many:
        with many.scope():
            own, optimizer = model(), keras.optimizers.Adagrad(0.1)
        coordinator = dl.distribute.coordinator.ClusterCoordinator(many)
        batches = iter(coordinator.create_per_worker_dataset(own_half))
        step = step_of(own, optimizer)
        losses = [coordinator.schedule(step, (batches,)) for _ in range(12)]
        coordinator.join()
        assert coordinator.counts()["by worker"] == [6, 6]
        means = np.reshape(coordinator.fetch(losses), (6, 2)).mean(1)
        np.testing.assert_allclose(means, expected, rtol=2e-4)
        for variable, value in zip(own.trainable_variables, weights, strict=True):
            np.testing.assert_allclose(variable.numpy(), value, rtol=1e-3, atol=1e-5)


@pytest.fixture(scope="module")
def two():
    with in_process(workers=2, ps=2) as strategy:
        yield strategy, dl.distribute.coordinator.ClusterCoordinator(strategy)


def test_asynchronous_training_learns_and_counts_every_step(two):
    strategy, coordinator = two
    with strategy.scope():
        own, optimizer = model(), keras.optimizers.Adagrad(0.2)
        metric = keras.metrics.MeanSquaredError()
    batches = iter(coordinator.create_per_worker_dataset(lambda: batches_of(32, drop=False)))
    step, errors = step_of(own, optimizer, metric), []
    for _ in range(4):
        metric.reset_state()
        losses = [coordinator.schedule(step, (batches,)) for _ in range(60)]
        coordinator.join()
        errors.append(float(metric.result()))
        np.testing.assert_allclose(errors[-1], np.mean(coordinator.fetch(losses)), rtol=1e-4)
    assert errors[-1] < 0.5 * errors[0]


def test_batches_of_several_shapes_each_get_a_program(two):
    strategy, coordinator = two
    with strategy.scope():
        seen = dl.Variable(0.0, aggregation="sum")

    def count(batches):
        ids, _ = next(batches)
        seen.assign_add(float(ids.shape[0]))
        return ids.shape[0] * keras.ops.ones(())

    def batches():
        return dl.data.Dataset.from_tensor_slices(data(20)).batch(8).repeat()

    per_worker = iter(coordinator.create_per_worker_dataset(batches))
    sizes = [coordinator.schedule(count, (per_worker,)) for _ in range(30)]
    coordinator.join()
    sizes = coordinator.fetch(sizes)
    assert set(map(float, sizes)) == {4.0, 8.0}
    assert float(seen.numpy()) == sum(sizes)


def test_a_function_may_draw_several_elements(two):
    _, coordinator = two

    def total(batches):
        return sum(next(batches) for _ in range(3))

    per_worker = iter(coordinator.create_per_worker_dataset(lambda: dl.data.Dataset.range(9)))
    first = coordinator.schedule(total, (per_worker,)).fetch()
    assert int(first) == 0 + 1 + 2


def draw_more_than_there_are(coordinator, numbers):
    for _ in range(9):
        coordinator.schedule(lambda numbers: next(numbers), (numbers,))
    coordinator.join()


def test_the_end_of_a_dataset_is_an_error_and_the_coordinator_goes_on(two):
    _, coordinator = two
    short = iter(coordinator.create_per_worker_dataset(lambda: dl.data.Dataset.range(3)))
    with pytest.raises(dl.distribute.parameter_server.OutOfRangeError, match="has ended"):
        draw_more_than_there_are(coordinator, short)
    assert coordinator.schedule(lambda: np.float32(2) + 1).fetch() == 3.0
    coordinator.join()


def test_functions_run_where_there_are_data_until_all_have_ended(two):
    _, coordinator = two
    lengths = (2, 7)
    numbers = iter(
        coordinator.create_per_worker_dataset(
            lambda context: dl.data.Dataset.range(lengths[context.input_pipeline_id])
        )
    )
    scheduled = []

    def draw(numbers):
        return next(numbers)

    def more_than_there_are():
        scheduled.extend(coordinator.schedule(draw, (numbers,)) for _ in range(20))
        coordinator.join()

    coordinator.continues_at_end = True
    try:
        with pytest.raises(dl.distribute.parameter_server.OutOfRangeError, match="has ended"):
            more_than_there_are()
    finally:
        coordinator.continues_at_end = False
    found = [each.fetch() for each in scheduled if repr(each) == "<RemoteValue: ready>"]
    assert sorted(map(int, found)) == sorted([*range(2), *range(7)])
    again = iter(coordinator.create_per_worker_dataset(lambda: dl.data.Dataset.range(3)))
    assert coordinator.schedule(draw, (again,)).fetch() == 0
    coordinator.join()
    assert coordinator.counts()["repeated"] == 0


def test_values_and_results_of_other_functions_are_arguments(two):
    _, coordinator = two
    three = coordinator.schedule(lambda a, b: {"sum": a + b}, (np.float32(1), np.float32(2)))
    four = coordinator.schedule(lambda a, one: a["sum"] + one, (three,), {"one": np.float32(1)})
    assert float(coordinator.fetch({"x": [four]})["x"][0]) == 4.0
    coordinator.join()
    assert coordinator.done()


def test_random_draws_differ_by_worker_and_step(two):
    strategy, coordinator = two
    with strategy.scope():
        generator = keras.random.SeedGenerator(5)
    draw = lambda: keras.random.uniform((4,), seed=generator)  # noqa: E731
    drawn = [coordinator.schedule(draw) for _ in range(40)]
    coordinator.join()
    rows = {tuple(map(float, row)) for row in coordinator.fetch(drawn)}
    assert len(rows) == 40


def test_steps_are_for_workers(two):
    strategy, coordinator = two
    with pytest.raises(RuntimeError, match="schedule"):
        strategy.run(lambda: 1)
    outside = keras.Variable(1.0)
    with pytest.raises(ValueError, match="not on the parameter servers"):
        coordinator.schedule(lambda: outside + 1)
    per_worker = coordinator.create_per_worker_dataset(lambda: dl.data.Dataset.range(3))
    with pytest.raises(TypeError, match="Pass an iterator"):
        coordinator.schedule(lambda numbers: numbers, (per_worker,))
    with pytest.raises(RuntimeError, match="on the workers"):
        next(iter(per_worker))
    with pytest.raises(TypeError, match="ParameterServerStrategy"):
        dl.distribute.coordinator.ClusterCoordinator(dl.distribute.get_strategy())
    assert dl.distribute.coordinator.ClusterCoordinator(strategy) is coordinator


def test_variables_are_read_and_written_anywhere(two):
    strategy, _ = two
    with strategy.scope():
        table = keras.Variable(np.arange(12.0).reshape(6, 2), name="embeddings")
        number = dl.Variable(2.5)
    np.testing.assert_array_equal(table.numpy(), np.arange(12.0).reshape(6, 2))
    table.assign(table + 1)
    number.assign_sub(0.5)
    assert float(table.numpy()[5, 1]) == 12.0
    assert float(number.numpy()) == 2.0
    assert "ps:1" in strategy.describe()


def test_rows_may_depend_on_variables_and_random_draws(two):
    strategy, coordinator = two
    with strategy.scope():
        table = keras.Variable(np.arange(20.0).reshape(10, 2), name="embeddings")
        offset = dl.Variable(3, dtype="int32")
        generator = keras.random.SeedGenerator(1)

    def look_up(ids):
        drawn = keras.random.randint((4,), 0, 10, seed=generator)
        own = keras.ops.take(table, ids + offset, axis=0)
        return own, drawn, keras.ops.take(table, drawn, axis=0)

    found = [coordinator.schedule(look_up, (np.arange(3, dtype="int32"),)) for _ in range(8)]
    coordinator.join()
    for own, drawn, rows in coordinator.fetch(found):
        np.testing.assert_array_equal(own, np.arange(20.0).reshape(10, 2)[3:6])
        np.testing.assert_array_equal(rows, np.arange(20.0).reshape(10, 2)[drawn])


def test_states_are_there_when_a_closure_finds_its_program(two, monkeypatch):
    """Closures of the same signature may lie in the worker's queue while it gets the program."""
    strategy, coordinator = two
    order = []

    def recorded(owner, method):
        original = getattr(owner, method)

        def call(*args, **kwargs):
            order.append((threading.get_ident(), method))
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, method, call)

    recorded(Functions, "add")
    recorded(Pipeline, "set_state")
    with strategy.scope():
        generator = keras.random.SeedGenerator(1)

    def draw():
        return keras.random.uniform((2,), seed=generator)

    coordinator.schedule(draw)
    coordinator.join()
    for thread in {thread for thread, _ in order}:
        methods = [method for each, method in order if each == thread]
        assert methods == ["set_state", "add"] * (len(methods) // 2)
    assert order


def test_integers_that_do_not_fit_into_32_bits(two):
    """They would become other numbers: 2**40 the id 0."""
    strategy, coordinator = two
    with strategy.scope():
        table = keras.Variable(np.arange(20.0).reshape(10, 2), name="embeddings")
        number = dl.Variable(3, dtype="int32")
        with pytest.raises(OverflowError, match="1099511627776"):
            dl.Variable(np.int64(2**40), dtype="int32")
    with pytest.raises(OverflowError, match="1099511627776"):
        number.assign(np.int64(2**40))
    steps = [lambda ids: keras.ops.take(table, ids, axis=0), lambda ids: ids + 1]
    for step in steps:
        fine = coordinator.schedule(step, (np.array([1, 2]),))
        coordinator.join()
        fine.fetch()
        coordinator.schedule(step, (np.array([1, 2**40]),))
        with pytest.raises(ClosureError, match="OverflowError: .* 1099511627776"):
            coordinator.join()


def test_gradients_of_rows_that_the_step_does_not_read_and_decay_with_exclusions(two):
    strategy, coordinator = two
    with strategy.scope():
        table = keras.Variable(np.ones((10, 2)), name="embeddings")
        kept, decayed = keras.Variable([1.0], name="kept"), keras.Variable([1.0], name="decayed")
        optimizer = keras.optimizers.SGD(1.0, weight_decay=0.5)
        optimizer.exclude_from_weight_decay(var_names=["kept", "embeddings"])

    def step(ids):
        with dl.GradientTape() as tape:
            loss = keras.ops.sum(keras.ops.take(table, ids, axis=0)) + kept[0] * 0 + decayed[0] * 0
        variables = [table, kept, decayed]
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    coordinator.schedule(step, (np.array([1, 1, 4], "int32"),))
    coordinator.join()
    np.testing.assert_array_equal(table.numpy()[:, 0], [1, -1, 1, 1, 0, 1, 1, 1, 1, 1])
    assert float(kept.numpy()[0]) == 1.0
    assert float(decayed.numpy()[0]) == 0.5


def test_large_variables_that_share_a_seed_generator_differ(two):
    strategy, _ = two
    generator = keras.random.SeedGenerator(4)
    initial = keras.initializers.RandomUniform(seed=generator)
    with strategy.scope():
        first, second = (keras.Variable(initial, shape=(20_000, 16)) for _ in range(2))
    assert not np.array_equal(first.numpy()[:10], second.numpy()[:10])
