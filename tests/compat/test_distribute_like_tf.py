"""Strategies, replica contexts and coordinators give what TensorFlow's give, where it is installed.

A program is run by both, TensorFlow on two logical CPUs.
"""

import functools

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)
if len(theirs.config.list_physical_devices("CPU")) == 1:
    theirs.config.set_logical_device_configuration(
        theirs.config.list_physical_devices("CPU")[0],
        [theirs.config.LogicalDeviceConfiguration()] * 2,
    )


@functools.cache  # TensorFlow's has threads, which it ends late
def mirrored(tf):
    return tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])


def local(strategy, value):
    return [each.numpy() for each in strategy.experimental_local_results(value)]


def numbers(tf, strategy, dtype="float32"):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(context.replica_id_in_sync_group + 1, dtype)
    )


def run_of_types(tf):
    strategy = mirrored(tf)
    found = {}
    for dtype in ("float32", "float64", "int32", "int64"):
        value = strategy.run(lambda x: x * 3, (numbers(tf, strategy, dtype),))
        found[dtype] = [(each.dtype.name, each) for each in local(strategy, value)]
    return found


def reductions(tf):
    strategy = mirrored(tf)
    value = numbers(tf, strategy)
    rows = strategy.run(lambda x: tf.stack([x, x + 1]), (value,))
    reduce_op = tf.distribute.ReduceOp
    return [
        strategy.reduce("SUM", value, axis=None).numpy(),
        strategy.reduce("mean", value, axis=None).numpy(),
        strategy.reduce(reduce_op.SUM, rows, axis=None).numpy(),
        strategy.reduce(reduce_op.MEAN, rows, axis=0).numpy(),
        strategy.gather(rows, axis=0).numpy(),
        strategy.reduce("MEAN", 1.0, axis=None),
    ]


def contexts(tf):
    strategy = mirrored(tf)
    distribute = tf.distribute
    found = [
        distribute.has_strategy(),
        distribute.in_cross_replica_context(),
        distribute.get_replica_context() is None,
    ]
    with strategy.scope():
        found += [
            distribute.has_strategy(),
            distribute.in_cross_replica_context(),
            distribute.get_replica_context() is None,
            distribute.get_strategy() is strategy,
        ]

    def step():
        context = distribute.get_replica_context()
        assert isinstance(context, distribute.ReplicaContext)
        found.append(context.num_replicas_in_sync)
        found.append(distribute.get_strategy() is strategy)
        return tf.cast(context.replica_id_in_sync_group, tf.int32)

    return [*found[:7], *sorted(set(map(str, found[7:]))), local(strategy, strategy.run(step))]


def collectives(tf):
    strategy = mirrored(tf)

    def step(x):
        context = tf.distribute.get_replica_context()
        return {
            "sum": context.all_reduce("SUM", x),
            "mean": context.all_reduce(tf.distribute.ReduceOp.MEAN, [x, x * 2]),
            "gathered": context.all_gather(tf.reshape(x, [1, 1]), axis=0),
        }

    result = strategy.run(tf.function(step), (numbers(tf, strategy),))
    return {
        "sum": local(strategy, result["sum"]),
        "mean": [local(strategy, each) for each in result["mean"]],
        "gathered": local(strategy, result["gathered"]),
    }


def merged(tf):
    strategy = mirrored(tf)
    with strategy.scope():
        total = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)

    def merge(inner, variable, value):
        extended = inner.extended
        reduced = extended.reduce_to(tf.distribute.ReduceOp.SUM, value, variable)
        extended.update(variable, lambda v, x: v.assign_add(x), args=(reduced,))

    def step(x):
        tf.distribute.get_replica_context().merge_call(merge, args=(total, x))
        return x

    def summed(inner, value, by_name):
        return inner.reduce("SUM", value, axis=None) + inner.reduce("MEAN", by_name, axis=None)

    def step_of_constants():
        given = {"by_name": tf.constant([3.0, 4.0])}
        context = tf.distribute.get_replica_context()
        return context.merge_call(summed, args=(tf.constant([1.0, 2.0]),), kwargs=given)

    strategy.run(step, (numbers(tf, strategy),))
    # TensorFlow gives one value if the replicas' are one object.
    constants = local(strategy, strategy.run(step_of_constants))[0]
    with strategy.scope():
        strategy.extended.update(total, lambda v, x: v.assign(v * x), args=(tf.constant(2.0),))
    (mean,) = strategy.extended.batch_reduce_to("MEAN", [(numbers(tf, strategy), total)])
    known = strategy.extended.variable_created_in_scope(total)
    return [constants, total.numpy(), mean.numpy(), known]


def inputs(tf):
    strategy = mirrored(tf)
    data = tf.data.Dataset.from_tensor_slices(
        {"x": np.arange(6, dtype=np.int64) + 2**40, "y": np.arange(6) / 4}
    )
    batches = strategy.experimental_distribute_dataset(data.batch(4))
    found = []
    for batch in batches:
        assert isinstance(batch["x"], tf.distribute.DistributedValues)
        found.append([local(strategy, batch["x"]), local(strategy, batch["y"])])
    contexts = []

    def own(context):
        contexts.append((context.num_input_pipelines, context.input_pipeline_id))
        size = context.get_per_replica_batch_size(4)
        return data.map(lambda row: row["x"]).batch(size).prefetch(2)

    made = strategy.distribute_datasets_from_function(own)
    iterator = iter(made)
    found.append(local(strategy, iterator.get_next()))
    return found, contexts


def devices(tf):
    strategy = mirrored(tf)
    alone = tf.distribute.OneDeviceStrategy("/cpu:0")
    return [
        strategy.extended.worker_devices,
        strategy.extended.parameter_devices,
        strategy.num_replicas_in_sync,
        alone.num_replicas_in_sync,
        alone.run(lambda x: x + 1, (tf.constant(1),)).numpy(),
        strategy.cluster_resolver,
        tf.distribute.InputOptions().experimental_replication_mode.name,
    ]


def default(tf):
    strategy = tf.distribute.get_strategy()
    data = tf.data.Dataset.range(2)
    return [
        strategy.num_replicas_in_sync,
        strategy.run(lambda x: x * 2, (tf.constant([1, 2]),)).numpy(),
        strategy.reduce("SUM", tf.constant([1.0, 2.0]), axis=0).numpy(),
        strategy.experimental_distribute_dataset(data) is data,
        [each.numpy() for each in strategy.experimental_local_results(tf.constant(1))],
    ]


PROGRAMS = [
    run_of_types,
    reductions,
    contexts,
    collectives,
    merged,
    inputs,
    devices,
    default,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_results_are_equal(program):
    np.testing.assert_equal(program(ours), program(theirs))


def resolver(tf):
    tf.distribute.cluster_resolver.TPUClusterResolver()


def sum_of_a_number(tf):
    mirrored(tf).reduce("SUM", 1.0, axis=None)


def reduced_in_a_step(tf):
    strategy = mirrored(tf)
    strategy.run(lambda x: strategy.reduce("SUM", x, axis=None), (tf.constant(1.0),))


def indivisible(tf):
    mirrored(tf).distribute_datasets_from_function(
        lambda context: tf.data.Dataset.range(3).batch(context.get_per_replica_batch_size(3))
    )


def two_scopes(tf):
    with mirrored(tf).scope(), tf.distribute.OneDeviceStrategy("cpu:0").scope():
        pass


def no_tpu(tf):
    tf.tpu.experimental.initialize_tpu_system()


ERRORS = [
    resolver,
    sum_of_a_number,
    reduced_in_a_step,
    indivisible,
    two_scopes,
    no_tpu,
]


@pytest.mark.parametrize("program", ERRORS)
def test_errors_are_of_one_kind(program):
    with pytest.raises(Exception) as theirs_raised:  # noqa: PT011
        program(theirs)
    with pytest.raises(type(theirs_raised.value)):
        program(ours)
