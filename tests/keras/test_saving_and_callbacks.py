"""Models under a strategy are saved, loaded, stopped and restored like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from drumline.distribute import MirroredStrategy, OneDeviceStrategy


@pytest.fixture
def model(perceptron: Any) -> keras.Model:
    with MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        return perceptron(optimizer="adam", metrics=["accuracy"])


def test_a_saved_model_predicts_the_same_anywhere(
    model: keras.Model, images: Any, tmp_path: Path
) -> None:
    x, y = images
    model.fit(x, y, verbose=0)
    file = tmp_path / "model.keras"
    model.save(file)
    expected = model.predict(x, verbose=0)
    np.testing.assert_allclose(
        keras.models.load_model(file).predict(x, verbose=0), expected, atol=1e-6
    )
    with OneDeviceStrategy("cpu:3").scope():
        loaded = keras.models.load_model(file)
    np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, atol=1e-6)
    with MirroredStrategy(["cpu:1", "cpu:2"]).scope():
        again = keras.models.load_model(file)
    loss = again.fit(x, y, verbose=0, shuffle=False).history["loss"]
    assert loss == pytest.approx(model.fit(x, y, verbose=0, shuffle=False).history["loss"], 1e-5)


def test_saving_within_fit(model: keras.Model, images: Any, tmp_path: Path) -> None:
    saved: list[list[np.ndarray]] = []

    class Save(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.save(tmp_path / f"{epoch}.keras")
            saved.append(self.model.get_weights())

    model.fit(*images, epochs=2, verbose=0, callbacks=[Save()])
    for epoch in range(2):
        loaded = keras.models.load_model(tmp_path / f"{epoch}.keras").get_weights()
        for mine, theirs in zip(saved[epoch], loaded, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert any((a != b).any() for a, b in zip(saved[0], saved[1], strict=True))


def test_checkpoints_early_stopping_and_schedules(
    perceptron: Any, images: Any, tmp_path: Path
) -> None:
    def run(replicas: int) -> tuple[Any, list[np.ndarray]]:
        strategy = MirroredStrategy([f"cpu:{i}" for i in range(replicas)])
        with strategy.scope():
            model = perceptron(optimizer=keras.optimizers.SGD(0.9))
        callbacks = [
            keras.callbacks.ModelCheckpoint(
                tmp_path / f"{replicas}.weights.h5", save_weights_only=True, monitor="val_loss"
            ),
            keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.9 if epoch % 2 else 0.01),
        ]
        x, y = images
        history = model.fit(
            x,
            y,
            epochs=9,
            verbose=0,
            shuffle=False,
            batch_size=12,
            callbacks=callbacks,
            validation_data=(x[::-1], y),
        )
        return history.history, model.get_weights()

    (one, weights), (two, mirrored) = run(1), run(2)
    assert one["learning_rate"] == two["learning_rate"]
    np.testing.assert_allclose(one["val_loss"], two["val_loss"], rtol=1e-4)
    for mine, theirs in zip(weights, mirrored, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
    assert (tmp_path / "2.weights.h5").exists()


@pytest.mark.parametrize("hook", ["on_train_batch_begin", "on_train_batch_end", "on_epoch_end"])
@pytest.mark.parametrize("at", [0, 1])
def test_an_interrupt_leaves_the_model_usable(
    hook: str, at: int, model: keras.Model, images: Any
) -> None:
    class Interrupt(keras.callbacks.Callback):
        pass

    def interrupt(self: Any, index: int, logs: Any = None) -> None:
        if index == at:
            raise KeyboardInterrupt

    setattr(Interrupt, hook, interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*images, epochs=3, batch_size=12, verbose=0, callbacks=[Interrupt()])
    assert np.isfinite(model.predict(images[0], verbose=0)).all()
    steps = int(model.optimizer.iterations.value)
    model.fit(*images, batch_size=12, verbose=0)
    assert int(model.optimizer.iterations.value) == steps + 4


def test_weights_changed_by_a_callback_between_steps(perceptron: Any, images: Any) -> None:
    class Halve(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.jax_state_sync()
            self.model.set_weights([weight / 2 for weight in self.model.get_weights()])

    def run(replicas: int) -> list[np.ndarray]:
        with MirroredStrategy([f"cpu:{i}" for i in range(replicas)]).scope():
            model = perceptron()
        model.fit(*images, batch_size=12, verbose=0, shuffle=False, callbacks=[Halve()])
        return model.get_weights()

    for one, two in zip(run(1), run(2), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
