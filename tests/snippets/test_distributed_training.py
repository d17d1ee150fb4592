"""Today's guide "Distributed training with TensorFlow", by its sections, a fragment a test."""

import json
import os

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.ports import free_addresses
from tests.tpus import cpus_as_tpus

GUIDE = "guide/distributed_training.ipynb"
# What Keras 3 says of the guide's spelling.
pytestmark = pytest.mark.filterwarnings("ignore:Do not pass an `input_shape`:UserWarning")


@pytest.fixture
def mirrored_strategy():
    """What `tf.distribute.MirroredStrategy()` is on a machine of two devices."""
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def regularized():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Dense(
                1, input_shape=(1,), kernel_regularizer=tf.keras.regularizers.L2(1e-4)
            )
        ]
    )


@pytest.mark.filterwarnings("ignore:.*[gG][pP][uU]")
def test_mirrored_strategy():
    """Section "MirroredStrategy": all devices, named ones, and another way to sum."""
    mirrored = tf.distribute.MirroredStrategy()
    assert mirrored.num_replicas_in_sync >= 1
    mirrored = tf.distribute.MirroredStrategy(devices=["/gpu:0", "/gpu:1"])
    there = len(tf.config.list_physical_devices("GPU"))
    assert mirrored.num_replicas_in_sync == (2 if there >= 2 else 1)
    mirrored = tf.distribute.MirroredStrategy(
        cross_device_ops=tf.distribute.HierarchicalCopyAllReduce()
    )
    assert mirrored.num_replicas_in_sync >= 1


def test_multi_worker_mirrored_strategy():
    """Section "MultiWorkerMirroredStrategy": without TF_CONFIG, one worker."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync >= 1


@pytest.mark.filterwarnings("ignore:.*NCCL")
def test_communication_options():
    """Section "MultiWorkerMirroredStrategy": its communication."""
    communication_options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.NCCL
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=communication_options
    )
    assert strategy.num_replicas_in_sync >= 1


def tpu_snippet():
    cluster_resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="")
    tf.config.experimental_connect_to_cluster(cluster_resolver)
    tf.tpu.experimental.initialize_tpu_system(cluster_resolver)
    return tf.distribute.TPUStrategy(cluster_resolver)


def test_tpu_strategy_without_a_tpu(monkeypatch):
    """Section "TPUStrategy": where it was looked for one, and what else there is."""
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    with pytest.raises(ValueError, match="provide a TPU Name.*Looked for it in.*MirroredStrategy"):
        tpu_snippet()
    monkeypatch.setenv("TPU_NAME", "local")
    with pytest.raises(tf.errors.NotFoundError, match="TPUs not found.*JAX has.*MirroredStrategy"):
        tpu_snippet()


def test_tpu_strategy(monkeypatch):
    """Section "TPUStrategy": with CPU devices in the place of a TPU's."""
    monkeypatch.setenv("TPU_NAME", "local")
    with cpus_as_tpus():
        strategy = tpu_snippet()
    assert strategy.num_replicas_in_sync == len(tf.config.list_logical_devices("CPU"))


def test_central_storage_strategy():
    """Section "CentralStorageStrategy"."""
    tf.distribute.experimental.CentralStorageStrategy()


def test_parameter_server_strategy():
    """Section "ParameterServerStrategy": with a partitioner, on servers in this process."""
    addresses = free_addresses(2)
    spec = tf.train.ClusterSpec({"worker": addresses[:1], "ps": addresses[1:]})
    servers = [tf.distribute.Server(spec, job_name=job, task_index=0) for job in ("worker", "ps")]
    strategy = tf.distribute.experimental.ParameterServerStrategy(
        tf.distribute.cluster_resolver.SimpleClusterResolver(spec),
        variable_partitioner=tf.distribute.experimental.partitioners.FixedShardsPartitioner(1),
    )
    coordinator = tf.distribute.experimental.coordinator.ClusterCoordinator(strategy)
    try:
        with strategy.scope():
            variable = tf.Variable([1.0, 2.0])
        total = coordinator.schedule(tf.function(lambda: tf.reduce_sum(variable)))
        assert float(total.fetch()) == 3.0
    finally:
        coordinator.close()
        for server in servers:
            server.close()


def test_default_strategy():
    """Section "Default Strategy": there is always one."""
    default_strategy = tf.distribute.get_strategy()
    assert default_strategy.num_replicas_in_sync == 1
    # In code of a library, which knows of no strategy.
    strategy = tf.distribute.get_strategy()
    assert float(strategy.reduce("SUM", 1.0, axis=None)) == 1.0


def test_default_strategy_without_gpus():
    """Section "Default Strategy": which strategy depends on the machine."""
    if tf.config.list_physical_devices("GPU"):
        strategy = tf.distribute.MirroredStrategy()
    else:
        strategy = tf.distribute.get_strategy()
    with strategy.scope():
        assert float(tf.Variable(1.0)) == 1.0


def test_one_device_strategy():
    """Section "OneDeviceStrategy"."""
    strategy = tf.distribute.OneDeviceStrategy(device="/cpu:0")
    with strategy.scope():
        variable = tf.Variable(1.0)
    assert float(strategy.run(lambda: variable + 1.0)) == 2.0


def test_model_fit(mirrored_strategy):
    """Section "Use tf.distribute.Strategy with Keras Model.fit": a dataset, then arrays."""
    with mirrored_strategy.scope():
        model = regularized()
        model.compile(loss="mse", optimizer="sgd")
    dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(10)
    history = model.fit(dataset, epochs=2, verbose=0).history
    assert model.evaluate(dataset, verbose=0) <= history["loss"][-1]
    inputs, targets = np.ones((100, 1)), np.ones((100, 1))
    again = model.fit(inputs, targets, epochs=2, batch_size=10, verbose=0).history
    assert again["loss"][-1] <= history["loss"][0]


def test_batch_size_of_a_replica(mirrored_strategy):
    """Section "Use tf.distribute.Strategy with Keras Model.fit": a batch for each replica."""
    global_batch_size = 5 * mirrored_strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100)
    dataset = dataset.batch(global_batch_size)
    assert {5: 0.1, 10: 0.15, 20: 0.175}[global_batch_size] == 0.15
    assert next(iter(dataset))[0].shape == (10, 1)


@pytest.mark.parametrize("way", ["for", "iterator"])
def test_custom_training_loop(mirrored_strategy, way):
    """Section "Use tf.distribute.Strategy with custom training loops"."""
    with mirrored_strategy.scope():
        model = regularized()
        optimizer = tf.keras.optimizers.SGD()
    dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100).batch(10)
    dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)
    loss_object = tf.keras.losses.BinaryCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )

    def train_step(inputs):
        features, labels = inputs
        with tf.GradientTape() as tape:
            predictions = model(features, training=True)
            per_example_loss = loss_object(labels, predictions)
            loss = tf.nn.compute_average_loss(per_example_loss)
            model_losses = model.losses
            if model_losses:
                loss += tf.nn.scale_regularization_loss(tf.add_n(model_losses))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def distributed_train_step(dist_inputs):
        per_replica_losses = mirrored_strategy.run(train_step, args=(dist_inputs,))
        return mirrored_strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)

    if way == "for":
        losses = [float(distributed_train_step(inputs)) for inputs in dist_dataset]
    else:
        iterator = iter(dist_dataset)
        losses = [float(distributed_train_step(next(iterator))) for _ in range(10)]
    assert len(losses) == 10
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_setting_up_tf_config(monkeypatch):
    """Section "Setting up the TF_CONFIG environment variable"."""
    monkeypatch.setenv("TF_CONFIG", "")
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {
                "worker": ["host1:1", "host2:1", "host3:1"],
                "ps": ["host4:1", "host5:1"],
            },
            "task": {"type": "worker", "index": 1},
        }
    )
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert resolver.cluster_spec().num_tasks("ps") == 2
