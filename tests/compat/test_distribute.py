"""Spellings of all versions of tf.distribute, and programs in threads of one process."""

import operator
import os
import pickle
import signal

import numpy as np
import pytest

import drumline as dl
from drumline.compat import tf
from tests.distribute.parameter_server.clusters import cluster_spec
from tests.tpus import cpus_as_tpus


def mirrored():
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def test_older_names_do_the_same():
    strategy = mirrored()
    data = strategy.experimental_make_numpy_dataset((np.arange(4.0), np.arange(4)))
    assert isinstance(data, tf.data.Dataset)
    (batch,) = strategy.make_dataset_iterator(data.batch(4))
    result = strategy.experimental_run_v2(lambda x, y: x * 2, args=batch)
    assert [each.numpy().tolist() for each in strategy.unwrap(result)] == [[0.0, 2.0], [4.0, 6.0]]
    made = strategy.experimental_distribute_datasets_from_function(lambda _: data.batch(2))
    assert len(list(made)) == 1
    assert strategy.extended.call_for_each_replica(lambda: tf.constant(1)).values[1].numpy() == 1
    older = tf.distribute.experimental.MultiWorkerMirroredStrategy(
        tf.distribute.experimental.CollectiveCommunication.RING
    )
    assert older.communication_options.implementation.name == "RING"
    hints = tf.distribute.experimental.CollectiveHints(bytes_per_pack=1024)
    assert hints.bytes_per_pack == 1024


def test_values_keep_64_bits_in_steps_and_batches():
    strategy = mirrored()
    big = tf.data.Dataset.from_tensor_slices(np.array([2**40, 1, 2, 3])).batch(4)
    for batch in strategy.experimental_distribute_dataset(big):
        total = strategy.reduce("SUM", strategy.run(lambda x: x + 1, (batch,)), axis=0)
    assert total.dtype == tf.int64
    assert total.numpy() == 2**40 + 10
    wide = strategy.run(lambda x: x * 3, (tf.constant(0.1, tf.float64),))
    assert wide.values[1].numpy() == np.float64(0.1) * 3


def test_devices_that_are_not_there_are_left_out(caplog):
    assert tf.distribute.MirroredStrategy(["/cpu:0", "/gpu:5"]).num_replicas_in_sync == 1
    every = tf.distribute.MirroredStrategy().num_replicas_in_sync
    assert tf.distribute.MirroredStrategy([]).num_replicas_in_sync == every
    assert "gpu:5" in caplog.text
    assert tf.distribute.OneDeviceStrategy("/gpu:5").extended.worker_devices[0].endswith("CPU:0")


def test_nccl_without_gpus_is_the_platforms_own(caplog):
    options = tf.distribute.experimental.CommunicationOptions(
        bytes_per_pack=7,
        implementation=tf.distribute.experimental.CommunicationImplementation.NCCL,
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    assert strategy.communication_options.implementation.name == "AUTO"
    assert strategy.communication_options.bytes_per_pack == 7
    assert "NCCL" in caplog.text


def test_a_strategy_is_in_force_without_a_block():
    strategy = tf.distribute.MirroredStrategy(["/cpu:1", "/cpu:2"])
    try:
        tf.distribute.experimental_set_strategy(strategy)
        assert tf.distribute.get_strategy() is strategy
        assert tf.distribute.in_cross_replica_context()
        assert len(tf.Variable(1.0).value.sharding.device_set) == 2
        with strategy.scope():
            assert tf.distribute.get_strategy() is strategy
            with pytest.raises(RuntimeError, match="inside the scope of"):
                tf.distribute.experimental_set_strategy(None)
        other = mirrored()
        tf.distribute.experimental_set_strategy(other)
        assert tf.distribute.get_strategy() is other
    finally:
        tf.distribute.experimental_set_strategy(None)
    assert not tf.distribute.has_strategy()
    assert len(tf.Variable(1.0).value.sharding.device_set) == 1


def local_tpu():
    return tf.distribute.cluster_resolver.TPUClusterResolver("local")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: tf.distribute.cluster_resolver.TPUClusterResolver(), ValueError),
        (lambda: tf.tpu.experimental.initialize_tpu_system(), ValueError),
        (lambda: tf.tpu.experimental.initialize_tpu_system(local_tpu()), tf.errors.NotFoundError),
        (lambda: tf.tpu.experimental.shutdown_tpu_system(local_tpu()), tf.errors.NotFoundError),
        (lambda: tf.config.experimental_connect_to_cluster(local_tpu()), tf.errors.NotFoundError),
        (
            lambda: tf.distribute.cluster_resolver.TPUClusterResolver.connect("local"),
            tf.errors.NotFoundError,
        ),
        (lambda: tf.distribute.TPUStrategy(), ValueError),
        (lambda: tf.distribute.TPUStrategy(local_tpu()), tf.errors.NotFoundError),
        (lambda: tf.distribute.experimental.TPUStrategy(local_tpu()), tf.errors.NotFoundError),
        (lambda: tf.distribute.cluster_resolver.GCEClusterResolver("p", "z", "g", 1), Exception),
        (
            lambda: tf.distribute.RunOptions(experimental_bucketizing_dynamic_shape=True),
            NotImplementedError,
        ),
        (lambda: tf.distribute.coordinator.ClusterCoordinator(mirrored()), ValueError),
    ],
)
def test_what_is_not_there_says_what_to_use(make, error):
    with pytest.raises(error, match=r"MirroredStrategy|TF_CONFIG|pad"):
        make()
    assert not isinstance(mirrored(), tf.distribute.TPUStrategy)


def test_a_tpu_s_strategy_takes_tensors():
    with cpus_as_tpus():
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect("local")
        topology = tf.tpu.experimental.initialize_tpu_system(resolver)
        two = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=2)
        strategy = tf.distribute.experimental.TPUStrategy(resolver, device_assignment=two)
    assert isinstance(strategy, tf.distribute.TPUStrategy)
    assert type(strategy).__name__ == "TPUStrategy" and strategy.num_replicas_in_sync == 2
    assert strategy.cluster_resolver is resolver
    total = strategy.reduce("SUM", strategy.run(lambda x: x * 2, (tf.constant([1, 2]),)), axis=None)
    assert isinstance(total, tf.Tensor) and total.numpy().tolist() == [4, 8]
    kernel = tf.constant([[1.0]])
    assert strategy.experimental_split_to_logical_devices(kernel, [1, 1]) is kernel
    with pytest.raises(NotImplementedError, match="one core"):
        strategy.experimental_split_to_logical_devices(kernel, [1, 2])


@pytest.mark.parametrize(
    "name", ["experimental.dtensor.DTensorCheckpoint", "distribute.experimental.rpc.Server"]
)
def test_absent_names_are_answered(name):
    with pytest.raises(AttributeError, match=f"tf.{name} is not in the look-alike.* use "):
        operator.attrgetter(name)(tf)


def test_scheduled_functions_see_tensors():
    spec = cluster_spec(workers=2, ps=1)
    tasks = [
        tf.distribute.Server(spec, job_name=job, task_index=index, protocol="grpc", start=True)
        for job, count in (("worker", 2), ("ps", 1))
        for index in range(count)
    ]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
        min_shard_bytes=256 << 10, max_shards=2
    )
    strategy = tf.distribute.experimental.ParameterServerStrategy(
        resolver, variable_partitioner=partitioner
    )
    with strategy.scope():
        total = tf.Variable(0.0)
        steps = tf.Variable(0, dtype=tf.int64)
    seen = set()

    @tf.function
    def step(iterator, scale):
        def replica(x):
            seen.add(type(x))
            total.assign_add(tf.reduce_sum(x))
            steps.assign_add(1)
            return {"sum": tf.reduce_sum(x) * scale, "id": x[0]}

        return strategy.run(replica, args=(next(iterator),))

    @tf.function
    def datasets():
        return strategy.experimental_distribute_datasets_from_function(
            lambda context: tf.data.Dataset.from_tensors(tf.ones([2])).repeat()
        )

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    try:
        dataset = coordinator.create_per_worker_dataset(datasets)
        assert isinstance(dataset, tf.distribute.coordinator.PerWorkerValue)
        assert dataset.element_spec == tf.TensorSpec([2], tf.float32)
        iterator = iter(dataset)
        results = [coordinator.schedule(step, args=(iterator, 2.0)) for _ in range(6)]
        coordinator.join()
        assert coordinator.done()
        assert isinstance(results[0], tf.distribute.coordinator.RemoteValue)
        fetched = coordinator.fetch(list(results))
        assert {float(each["sum"]) for each in fetched} == {4.0}
        assert isinstance(fetched[0]["id"], np.float32)
        assert type(results[0].get()["id"]) is tf.Tensor
        assert total.numpy() == 12.0
        assert steps.numpy() == 6
        assert seen == {tf.Tensor}
        after = coordinator.schedule(lambda x: x["sum"] + 1.0, args=(results[0],))
        assert after.fetch() == 5.0
    finally:
        coordinator.close()
        for task in tasks:
            task.close()


def test_preemption_saves_between_steps_and_ends(tmp_path):
    step = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(step=step)
    ended = []
    before = signal.getsignal(signal.SIGTERM)
    config = tf.distribute.experimental.TerminationConfig(exit_fn=lambda: ended.append(1))
    try:
        handler = tf.distribute.experimental.PreemptionCheckpointHandler(
            None, checkpoint, str(tmp_path), config
        )

        def train():
            step.assign_add(1)
            if int(step) == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return int(step)

        while not ended:
            last = handler.run(train)
        assert (last, handler.total_run_calls) == (3, 3)
    finally:
        signal.signal(signal.SIGTERM, before)
    again = tf.Variable(0)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=again), str(tmp_path), 1)
    try:
        tf.distribute.experimental.PreemptionCheckpointHandler(None, manager)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert again.numpy() == 3


def test_per_replica_values_go_through_compiled_functions():
    strategy = mirrored()

    @tf.function
    def step(values):
        assert isinstance(values, tf.distribute.DistributedValues)
        return strategy.run(lambda x: x + 1, (values,))

    values = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([context.replica_id_in_sync_group])
    )
    for _ in range(4):
        values = step(values)
    assert [each.numpy().tolist() for each in values.values] == [[4], [5]]
    assert step.experimental_get_tracing_count() <= 2  # values held apart, then stacked ones
    assert isinstance(dl.distribute.PerReplica([1]), tf.distribute.DistributedValues)


def test_namespaces_are_sent_to_workers_by_name():
    assert pickle.loads(pickle.dumps(tf.data)) is tf.data


def test_central_storage_trains_as_mirrored_variables_do():
    def trained(strategy):
        with strategy.scope():
            weight = tf.Variable(2.0, aggregation=tf.VariableAggregation.MEAN)

        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((weight * x - 1.0) ** 2)
            weight.assign_sub(0.1 * tape.gradient(loss, weight))
            return loss

        data = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0, 4.0]).batch(2)
        losses = []
        for x in strategy.experimental_distribute_dataset(data):
            value = strategy.run(step, args=(x,))
            losses.append(float(strategy.reduce("MEAN", value, axis=None)))
        return [*losses, float(weight)]

    with pytest.raises(ValueError, match="there is no such device"):
        tf.distribute.experimental.CentralStorageStrategy(parameter_device="/gpu:9")
    central = tf.distribute.experimental.CentralStorageStrategy(parameter_device="/cpu:0")
    assert isinstance(central, tf.distribute.Strategy)
    assert type(central).__name__ == "CentralStorageStrategy"
    assert central.extended.parameter_devices == ("/job:localhost/replica:0/task:0/device:CPU:0",)
    assert trained(central) == trained(tf.distribute.MirroredStrategy())


def test_central_storage_leaves_out_devices_that_are_not_there(caplog):
    caplog.set_level("WARNING", "drumline")
    make = tf.distribute.experimental.CentralStorageStrategy
    assert (
        make(["/cpu:1", "/gpu:7"]).extended.worker_devices == make("/cpu:1").extended.worker_devices
    )
    assert "not visible: gpu:7" in caplog.text
    assert make([]).num_replicas_in_sync == make().num_replicas_in_sync
