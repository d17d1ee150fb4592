"""The tutorial of the platform DLC (Alibaba Cloud PAI) on TensorFlow, by its sections.

Section "MirroredStrategy": a Keras script on the devices of one worker. Section
"MultiWorkerMirroredStrategy": the same in several workers, whose TF_CONFIG the platform sets.
"""

import os

import numpy as np
import pytest

import drumline.compat.tf as tf
from tests.distribute.process_group.clusters import Cluster, running
from tests.snippets.dlc_training import build_and_compile_cnn_model, mnist, scale

# What Keras 3 says of the spelling of the time.
pytestmark = pytest.mark.filterwarnings("ignore:Do not pass an `input_shape`:UserWarning")


def test_mirrored_strategy(tmp_path):
    """Section "MirroredStrategy"."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    assert strategy.num_replicas_in_sync == 2
    BUFFER_SIZE = 10000
    BATCH_SIZE_PER_REPLICA = 64
    BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync

    images, labels = mnist()
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    train_dataset = dataset.map(scale).cache().shuffle(BUFFER_SIZE, seed=1).batch(BATCH_SIZE)
    eval_dataset = dataset.map(scale).batch(BATCH_SIZE)

    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        model = build_and_compile_cnn_model()

    checkpoint_dir = str(tmp_path / "training_checkpoints")
    checkpoint_prefix = os.path.join(checkpoint_dir, "ckpt_{epoch}")
    rates = []

    def decay(epoch):
        if epoch < 3:
            return 0.05
        return 0.01

    class PrintLR(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            rates.append(float(model.optimizer.lr.numpy()))

    callbacks = [
        tf.keras.callbacks.TensorBoard(log_dir=str(tmp_path / "logs")),
        tf.keras.callbacks.ModelCheckpoint(filepath=checkpoint_prefix, save_weights_only=True),
        tf.keras.callbacks.LearningRateScheduler(decay),
        PrintLR(),
    ]
    history = model.fit(train_dataset, epochs=4, callbacks=callbacks, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    np.testing.assert_allclose(rates, [0.05, 0.05, 0.05, 0.01])

    trained = model.evaluate(eval_dataset, verbose=0)
    model.set_weights([np.zeros_like(each) for each in model.get_weights()])
    model.load_weights(tf.train.latest_checkpoint(checkpoint_dir))
    assert model.evaluate(eval_dataset, verbose=0) == pytest.approx(trained)

    path = str(tmp_path / "saved_model")
    model.save(path, save_format="tf")
    unreplicated_model = tf.keras.models.load_model(path)
    unreplicated_model.compile(
        loss=tf.keras.losses.sparse_categorical_crossentropy,
        optimizer=tf.keras.optimizers.SGD(),
        metrics=["accuracy"],
    )
    assert unreplicated_model.evaluate(eval_dataset, verbose=0) == pytest.approx(trained, rel=1e-5)


def test_multi_worker_mirrored_strategy(tmp_path):
    """Section "MultiWorkerMirroredStrategy": two workers, of which the first one is the chief."""
    cluster = Cluster("dlc", "tests.snippets.dlc_training:worker", {"folder": str(tmp_path)})
    with running(tmp_path / "processes", [cluster]) as run:
        run.wait_for(*run.names, seconds=300)
        for end in run.ended("dlc"):
            assert end.status == 0, end.log
        chief, other = (end.facts for end in run.ended("dlc"))
    assert chief == other and chief["replicas"] == 2
    assert chief["losses"][-1] < chief["losses"][0]
    assert tf.train.latest_checkpoint(str(tmp_path / "checkpoints")).endswith("ckpt_4")
    saved = tf.keras.models.load_model(str(tmp_path / "keras-model"))
    again = tf.keras.models.load_model(str(tmp_path / "workertemp_1" / "keras-model"))
    for one, two in zip(saved.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    total = sum(np.abs(each).sum() for each in saved.get_weights())
    assert float(total) == pytest.approx(chief["weights"])
