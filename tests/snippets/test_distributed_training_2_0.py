"""TensorFlow 2.0's guide "Distributed training with TensorFlow" (October 2019), by its sections.

Each test is a fragment in the spelling of that time; `test_distributed_training.py` has those of
today's guide.
"""

import json

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.tpus import cpus_as_tpus

GUIDE = "guide/distributed_training.ipynb, 2.0"
# What Keras 3 says of the spelling of the time.
pytestmark = pytest.mark.filterwarnings("ignore:Do not pass an `input_shape`:UserWarning")


def two_replicas():
    """What `tf.distribute.MirroredStrategy()` is on a machine of two devices."""
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def rows(count, batch_size):
    return tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(count).batch(batch_size)


def model_and_optimizer(strategy):
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
        return model, tf.keras.optimizers.SGD()


def test_mirrored_strategy():
    """Section "MirroredStrategy": over all devices."""
    mirrored_strategy = tf.distribute.MirroredStrategy()
    assert mirrored_strategy.num_replicas_in_sync >= 1


@pytest.mark.filterwarnings("ignore:.*[gG][pP][uU]")
def test_mirrored_strategy_of_named_devices():
    """Section "MirroredStrategy": over two of them; without GPUs, over what there is."""
    mirrored_strategy = tf.distribute.MirroredStrategy(devices=["/gpu:0", "/gpu:1"])
    there = len(tf.config.list_physical_devices("GPU"))
    assert mirrored_strategy.num_replicas_in_sync == (2 if there >= 2 else 1)


def test_mirrored_strategy_with_other_communication():
    """Section "MirroredStrategy": another way to sum over devices."""
    mirrored_strategy = tf.distribute.MirroredStrategy(
        cross_device_ops=tf.distribute.HierarchicalCopyAllReduce()
    )
    total = mirrored_strategy.reduce("SUM", mirrored_strategy.run(lambda: tf.constant(1.0)), None)
    assert float(total) == mirrored_strategy.num_replicas_in_sync


def test_central_storage_strategy():
    """Section "CentralStorageStrategy"."""
    tf.distribute.experimental.CentralStorageStrategy()


def test_multi_worker_mirrored_strategy():
    """Section "MultiWorkerMirroredStrategy": without TF_CONFIG, one worker."""
    multiworker_strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy()
    assert multiworker_strategy.num_replicas_in_sync >= 1


@pytest.mark.filterwarnings("ignore:.*NCCL")
def test_multi_worker_mirrored_strategy_with_nccl():
    """Section "MultiWorkerMirroredStrategy": the communication as its one argument."""
    multiworker_strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(
        tf.distribute.experimental.CollectiveCommunication.NCCL
    )
    assert multiworker_strategy.num_replicas_in_sync >= 1


def test_tpu_strategy(monkeypatch):
    """Section "TPUStrategy": with CPU devices in the place of a TPU's."""
    monkeypatch.setenv("TPU_NAME", "local")
    with cpus_as_tpus():
        cluster_resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="")
        tf.config.experimental_connect_to_cluster(cluster_resolver)
        tf.tpu.experimental.initialize_tpu_system(cluster_resolver)
        tpu_strategy = tf.distribute.experimental.TPUStrategy(cluster_resolver)
    assert tpu_strategy.num_replicas_in_sync >= 1


def test_tpu_strategy_without_a_tpu(monkeypatch):
    """Section "TPUStrategy": where it was looked for one, and what else there is."""
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    with pytest.raises(ValueError, match="provide a TPU Name.*Looked for it in.*MirroredStrategy"):
        tf.distribute.cluster_resolver.TPUClusterResolver(tpu="")


def test_parameter_server_strategy(monkeypatch):
    """Section "ParameterServerStrategy": without arguments it is refused, with what it needs."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises((TypeError, ValueError), match="cluster_resolver|TF_CONFIG"):
        tf.distribute.experimental.ParameterServerStrategy()


@pytest.mark.filterwarnings("ignore:.*[gG][pP][uU]")
def test_one_device_strategy():
    """Section "OneDeviceStrategy"."""
    strategy = tf.distribute.OneDeviceStrategy(device="/gpu:0")
    assert strategy.num_replicas_in_sync == 1


@pytest.fixture(scope="module")
def compiled():
    """Section "Using tf.distribute.Strategy with Keras": the model of its fragments."""
    mirrored_strategy = two_replicas()
    with mirrored_strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
        model.compile(loss="mse", optimizer="sgd")
    return model


def test_keras_fits_a_dataset(compiled):
    """Section "Using tf.distribute.Strategy with Keras": a dataset."""
    dataset = rows(100, 10)
    history = compiled.fit(dataset, epochs=2, verbose=0)
    assert history.epoch == [0, 1]
    assert compiled.evaluate(dataset, verbose=0) <= history.history["loss"][-1]


def test_keras_fits_arrays(compiled):
    """Section "Using tf.distribute.Strategy with Keras": arrays of numpy."""
    inputs, targets = np.ones((100, 1)), np.ones((100, 1))
    history = compiled.fit(inputs, targets, epochs=2, batch_size=10, verbose=0)
    assert history.epoch == [0, 1]


def test_learning_rate_by_batch_size():
    """Section "Using tf.distribute.Strategy with Keras": a batch for each replica."""
    mirrored_strategy = two_replicas()
    batch_size_per_replica = 5
    global_batch_size = batch_size_per_replica * mirrored_strategy.num_replicas_in_sync
    dataset = tf.data.Dataset.from_tensors(([1.0], [1.0])).repeat(100)
    dataset = dataset.batch(global_batch_size)
    rates = {5: 0.1, 10: 0.15}
    assert rates[global_batch_size] == 0.15
    assert next(iter(dataset))[0].shape == (10, 1)


@pytest.mark.parametrize("way", ["for", "iterator"])
def test_custom_training_loop(way):
    """Section "Using tf.distribute.Strategy with custom training loops"."""
    mirrored_strategy = two_replicas()
    global_batch_size = 10
    model, optimizer = model_and_optimizer(mirrored_strategy)
    dist_dataset = mirrored_strategy.experimental_distribute_dataset(rows(100, global_batch_size))
    before = model.get_weights()[0]

    @tf.function
    def train_step(dist_inputs):
        def step_fn(inputs):
            features, labels = inputs
            with tf.GradientTape() as tape:
                logits = tf.concat([model(features), tf.zeros_like(features)], 1)
                cross_entropy = tf.nn.softmax_cross_entropy_with_logits(
                    logits=logits, labels=tf.concat([labels, 1 - labels], 1)
                )
                loss = tf.reduce_sum(cross_entropy) * (1.0 / global_batch_size)
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(list(zip(grads, model.trainable_variables, strict=True)))
            return cross_entropy

        per_example_losses = mirrored_strategy.experimental_run_v2(step_fn, args=(dist_inputs,))
        return mirrored_strategy.reduce(tf.distribute.ReduceOp.MEAN, per_example_losses, axis=0)

    with mirrored_strategy.scope():
        if way == "for":
            losses = [train_step(inputs) for inputs in dist_dataset]
        else:
            iterator = iter(dist_dataset)
            losses = [train_step(next(iterator)) for _ in range(10)]
    assert len(losses) == 10
    assert all(loss.shape == () for loss in losses)
    assert float(losses[-1]) < float(losses[0])
    assert not np.array_equal(before, model.get_weights()[0])


@pytest.mark.skipif(
    not hasattr(tf.estimator, "LinearRegressor"), reason=f"{GUIDE}: needs premade Estimators"
)
def test_estimator(tmp_path):
    """Section "Using tf.distribute.Strategy with Estimator (Limited support)"."""
    mirrored_strategy = two_replicas()
    config = tf.estimator.RunConfig(
        train_distribute=mirrored_strategy, eval_distribute=mirrored_strategy
    )
    regressor = tf.estimator.LinearRegressor(
        feature_columns=[tf.feature_column.numeric_column("feats")],
        optimizer="SGD",
        config=config.replace(model_dir=str(tmp_path)),
    )

    def input_fn():
        dataset = tf.data.Dataset.from_tensors(({"feats": [1.0]}, [1.0]))
        return dataset.repeat(1000).batch(10)

    regressor.train(input_fn=input_fn, steps=10)
    found = regressor.evaluate(input_fn=input_fn, steps=10)
    assert found["global_step"] == 10 and found["loss"] < 10


def test_estimator_on_tpus(monkeypatch):
    """Section "Using tf.distribute.Strategy with Estimator (Limited support)": on CPUs in place."""
    monkeypatch.setenv("TPU_NAME", "local")
    with cpus_as_tpus():
        cluster_resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="")
        tpu_strategy = tf.distribute.experimental.TPUStrategy(cluster_resolver)
    config = tf.estimator.RunConfig(train_distribute=tpu_strategy, eval_distribute=tpu_strategy)
    assert config.train_distribute is tpu_strategy


def test_setting_up_tf_config(monkeypatch):
    """Section "Setting up TF_CONFIG environment variable"."""
    spec = {
        "cluster": {
            "worker": ["host1:1", "host2:1", "host3:1"],
            "ps": ["host4:1", "host5:1"],
        },
        "task": {"type": "worker", "index": 1},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(spec))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert resolver.cluster_spec().as_dict() == spec["cluster"]
