"""Steps written as for TensorFlow, `train_step(self, data)`, in Keras's loops on JAX."""

import numpy as np
import pytest

import drumline as dl
from drumline.compat import tf

keras = tf.keras
X = np.linspace(-1, 1, 32 * 3).reshape(32, 3).astype(np.float32)
Y = X.sum(1, keepdims=True)


def layers(units=1):
    return keras.layers.Dense(units, kernel_initializer="zeros")


class OwnLoss(keras.Model):
    """Returns a loss that no metric of Keras's tracks."""

    def train_step(self, data):
        x, y = data
        assert type(x) is tf.Tensor
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


class Compiled(keras.Model):
    """Uses the loss and the metrics of `compile` in TensorFlow 2's spellings."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compiled_loss(y, predicted, regularization_losses=self.losses)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.compiled_metrics.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics}


class Computed(keras.Model):
    """Uses `compute_loss` and updates the model's metrics itself."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=predicted)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics}


class Twice(keras.Model):
    """Adds to the logs of Keras's own step."""

    def train_step(self, data):
        logs = super().train_step(data)
        return {**logs, "twice": 2 * logs["loss"]}


def fitted(cls, strategy=None, **options):
    keras.utils.set_random_seed(0)
    scope = (strategy or tf.distribute.get_strategy()).scope()
    with scope:
        inputs = keras.Input((3,))
        model = cls(inputs, layers()(inputs))
        model.compile(optimizer=keras.optimizers.SGD(0.1), **options)
    history = model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0).history
    return model, {name: np.asarray(values) for name, values in history.items()}


COMPILED = {"loss": "mse", "metrics": ["mae"]}


@pytest.mark.parametrize(
    ("cls", "options"),
    [(OwnLoss, {}), (Compiled, COMPILED), (Computed, COMPILED), (Twice, COMPILED)],
)
@pytest.mark.parametrize("eagerly", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_users_step_trains_and_reports_as_keras_does(cls, options, eagerly):
    _, plain = fitted(keras.Model, **COMPILED)
    _, history = fitted(cls, run_eagerly=eagerly, **options)
    if cls is OwnLoss:  # reports the last batch's
        assert 0 < history["loss"][-1] <= history["loss"][0]
        return
    for name, values in plain.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-5)
    if cls is Twice:
        np.testing.assert_allclose(history["twice"], 2 * plain["loss"], rtol=1e-5)


@pytest.mark.parametrize("cls", [OwnLoss, Compiled, Twice])
def test_a_users_step_is_the_same_on_several_devices(cls):
    one, expected = fitted(cls, tf.distribute.OneDeviceStrategy("/cpu:0"), **COMPILED)
    two, found = fitted(cls, tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]), **COMPILED)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5)
    for a, b in zip(one.trainable_variables, two.trainable_variables, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


class TwoOptimizers(keras.Model):
    """A model with two parts, each with an optimizer of its own, and a counter."""

    def __init__(self):
        super().__init__()
        self.first, self.second = layers(3), layers()
        self.seen = tf.Variable(0, trainable=False)
        self.tracker = keras.metrics.Mean(name="error")

    def compile(self, first_optimizer, second_optimizer, loss_fn):
        super().compile()
        self.first_optimizer, self.second_optimizer = first_optimizer, second_optimizer
        self.loss_fn = loss_fn

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = self.loss_fn(y, self.second(x + self.first(x)))
        for part, optimizer in (
            (self.first, self.first_optimizer),
            (self.second, self.second_optimizer),
        ):
            gradients = tape.gradient(loss, part.trainable_weights)
            optimizer.apply_gradients(zip(gradients, part.trainable_weights, strict=True))
        self.seen.assign_add(tf.shape(x)[0])
        self.tracker.update_state(loss)
        return {"error": self.tracker.result()}

    @property
    def metrics(self):
        return [self.tracker]


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_with_two_optimizers_keeps_the_state_of_both(replicas):
    devices = [f"/cpu:{index}" for index in range(replicas)]
    with tf.distribute.MirroredStrategy(devices).scope():
        model = TwoOptimizers()
        first, second = keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.1, momentum=0.9)
        model.compile(first, second, keras.losses.MeanSquaredError())
    history = model.fit(X, Y, batch_size=8, epochs=3, verbose=0).history
    assert history["error"][-1] < history["error"][0]
    assert int(first.iterations.numpy()) == int(second.iterations.numpy()) == 12
    assert int(model.seen.numpy()) == 96
    assert any(np.any(np.asarray(slot) != 0) for slot in second.variables[2:])
    model.fit(X, Y, batch_size=8, epochs=1, verbose=0)
    assert int(first.iterations.numpy()) == 16


class Evaluated(keras.Model):
    """Own steps of evaluation and prediction."""

    def test_step(self, data):
        x, y = data
        return {"worst": tf.reduce_max(tf.abs(self(x, training=False) - y))}

    def predict_step(self, data):
        return tf.cast(self(data, training=False) > 0, tf.int32)


def test_steps_of_evaluation_and_prediction_are_the_users():
    inputs = keras.Input((3,))
    model = Evaluated(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    model.compile(loss="mse")
    assert model.evaluate(X, Y + 2, return_dict=True, verbose=0)["worst"] == pytest.approx(2)
    np.testing.assert_array_equal(model.predict(X, verbose=0), (X.sum(1) > 0)[:, None])


def test_a_variable_that_a_later_trace_uses_first_is_named():
    late = tf.Variable(1.0, name="late")

    class Late(keras.Model):
        def train_step(self, data):
            x, _ = data
            if x.shape[0] == 5:
                late.assign(2.0)
            return super().train_step(data)

    inputs = keras.Input((3,))
    model = Late(inputs, layers()(inputs))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="late"):
        model.fit(X[:13], Y[:13], batch_size=8, verbose=0)


def test_minimize_updates_and_counts():
    weight = tf.Variable([1.0, 2.0])
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.minimize(lambda: tf.reduce_sum(weight**2), [weight])
    np.testing.assert_allclose(weight.numpy(), [0.0, 0.0])
    with pytest.raises(ValueError, match="tape"):
        optimizer.minimize(tf.constant(1.0), [weight])
    assert int(optimizer.iterations.numpy()) == 1


def test_a_number_for_each_row_is_the_target_of_each_column():
    rows = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    numbers = rows.sum(axis=1)

    def model():
        made = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4)])
        made.compile("sgd", loss="mse")
        made.set_weights([np.ones((3, 4), np.float32), np.zeros(4, np.float32)])
        return made

    assert model().evaluate(rows, numbers, verbose=0) == pytest.approx(0.0, abs=1e-6)
    repeated = model().evaluate(rows, np.repeat(numbers[:, None] + 1, 4, axis=1), verbose=0)
    assert model().evaluate(rows, numbers + 1, verbose=0) == pytest.approx(repeated)


def test_a_step_of_data_is_resumed_at_its_batch(tmp_path):
    class Stopped(BaseException):
        pass

    class StopAfter(keras.callbacks.Callback):
        left = 6

        def on_train_batch_end(self, batch, logs=None):
            self.left -= 1
            if not self.left:
                raise Stopped

    def fit(*callbacks):
        inputs = keras.Input((3,))
        model = OwnLoss(inputs, layers()(inputs))
        model.compile(keras.optimizers.SGD(0.1))
        rows = dl.data.Dataset.from_tensor_slices((X, Y)).shuffle(32, seed=1).batch(8)
        return model.fit(rows, epochs=3, verbose=0, callbacks=callbacks), model.get_weights()

    def backup():
        return dl.keras.callbacks.Checkpointing(tmp_path, every_steps=1)

    undisturbed, weights = fit()
    with pytest.raises(Stopped):
        fit(backup(), StopAfter())
    resumed, same = fit(backup())
    assert resumed.history == undisturbed.history
    for one, other in zip(same, weights, strict=True):
        np.testing.assert_array_equal(one, other)
