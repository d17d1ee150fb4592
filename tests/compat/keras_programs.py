"""Programs with ``tf.keras`` that `test_keras_like_tf` runs with TensorFlow and without.

As a script it writes what TensorFlow gives to a file: Keras has one backend in a process.
"""

import pickle
import sys

import numpy as np

X = np.linspace(-1, 1, 24).reshape(8, 3).astype(np.float32)
Y = X.sum(1, keepdims=True)


def own_classes(tf):
    """A model whose loss, metrics, regularizer, constraint, ... are all a user's."""
    keras = tf.keras

    class Regularizer(keras.regularizers.Regularizer):
        def __call__(self, weight):
            return 0.01 * tf.reduce_sum(tf.square(weight))

    class Constraint(keras.constraints.Constraint):
        def __call__(self, weight):
            return tf.clip_by_value(weight, -0.3, 0.3)

    class Initializer(keras.initializers.Initializer):
        def __call__(self, shape, dtype=None, **options):
            return tf.fill(shape, tf.constant(0.25, dtype))

    class Schedule(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            step = tf.cast(step, tf.float32)
            return tf.minimum(tf.math.rsqrt(step + 1), (step + 1) * 0.05)

    class Right(keras.metrics.Metric):
        def __init__(self, name="right"):
            super().__init__(name=name)
            self.total = self.add_weight(name="total", initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.total.assign_add(tf.reduce_sum(tf.cast((y_true > 0) == (y_pred > 0), tf.float32)))

        def result(self):
            return self.total

    class Loss(keras.losses.Loss):
        def call(self, y_true, y_pred):
            return tf.reduce_mean(tf.abs(y_true - y_pred), -1)

    class Layer(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(
                name="kernel",
                shape=[shape[-1], 4],
                initializer=Initializer(),
                regularizer=Regularizer(),
                constraint=Constraint(),
            )

        def call(self, x, training=False):
            y = tf.matmul(x, self.kernel)
            if training:
                self.add_loss(0.1 * tf.reduce_mean(tf.square(y)))
            return tf.nn.tanh(y)

    def furthest(y_true, y_pred):
        return tf.reduce_max(tf.abs(y_true - y_pred))

    inputs = keras.Input((3,))
    hidden = keras.layers.Lambda(lambda x: tf.concat([x, tf.square(x)], -1))(Layer()(inputs))
    outputs = keras.layers.Dense(
        1,
        activation=lambda x: x * tf.constant(1.5),
        kernel_initializer="ones",
        kernel_regularizer=lambda w: 0.01 * tf.reduce_sum(tf.abs(w)),
    )(hidden)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(Schedule()), Loss(), metrics=[furthest, Right()])
    return model


def own_step(tf):
    """Two optimizers in a step of the user's, metrics of the model's, Keras's own step below."""
    keras = tf.keras

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = keras.layers.Dense(3, kernel_initializer="ones")
            self.second = keras.layers.Dense(1, kernel_initializer="ones")
            self.tracker = keras.metrics.Mean(name="loss")

        def call(self, x):
            return self.second(tf.nn.relu(self.first(x)))

        def compile(self, optimizers, **options):
            super().compile(**options)
            self.optimizers = optimizers

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            parts = [self.first.trainable_weights, self.second.trainable_weights]
            for gradients, part, optimizer in zip(
                tape.gradient(loss, parts), parts, self.optimizers, strict=True
            ):
                optimizer.apply_gradients(zip(gradients, part, strict=True))
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result()}

        def test_step(self, data):
            x, y = data
            self.tracker.update_state(tf.reduce_max(tf.abs(self(x) - y)))
            return {"loss": self.tracker.result()}

        @property
        def metrics(self):
            return [self.tracker]

    model = Model()
    model.compile((keras.optimizers.SGD(0.05, momentum=0.9), keras.optimizers.Adam(0.02)))
    return model


def below(tf):
    """A step that calls Keras's own, and computes losses as `compile` says."""
    keras = tf.keras

    class Model(keras.Model):
        def train_step(self, data):
            logs = super().train_step(data)
            return {**logs, "twice": 2.0 * logs["loss"]}

        def test_step(self, data):
            x, y = data
            predicted = self(x, training=False)
            loss = self.compute_loss(x, y, predicted)
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, predicted)
            return {metric.name: metric.result() for metric in self.metrics}

    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(1, kernel_initializer="zeros", kernel_regularizer="l2")(inputs)
    model = Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"])
    return model


def results(make, tf):
    model = make(tf)
    options = {"batch_size": 4, "verbose": 0}
    history = model.fit(X, Y, epochs=2, shuffle=False, **options).history
    evaluated = model.evaluate(X, Y, return_dict=True, **options)
    evaluated = {name: float(value) for name, value in evaluated.items()}
    return history, evaluated, [np.asarray(each) for each in model.get_weights()]


def looked_up(tf):
    layers, words = tf.keras.layers, tf.constant([["a", "c"], ["zz", "b"]])
    found = []
    for mode in ("int", "one_hot", "multi_hot", "count"):
        for given in (words, words[:, :1], words[0], words[0, 0]):
            for options in ({}, {"num_oov_indices": 2}, {"mask_token": "a"}):
                vocabulary = ["b", "c"] if options.get("mask_token") else ["a", "b", "c"]
                layer = layers.StringLookup(vocabulary=vocabulary, output_mode=mode, **options)
                found.append(layer(given))
        numbers = tf.constant([[12, 36], [-1, 7]])
        found.append(layers.IntegerLookup(vocabulary=[12, 7], output_mode=mode)(numbers))
        if mode != "count":
            found.append(layers.Hashing(4, output_mode=mode)(words))
    found += [
        layers.Hashing(5, salt=salt, mask_value=mask)(words)
        for salt in (None, 7, [133, 137])
        for mask in (None, "a")
    ]
    crossed = (tf.constant(["a", "b", "c"]), tf.constant([101, 7, -2]))
    found += [layers.HashedCrossing(1000)(crossed), layers.HashedCrossing(5, "one_hot")(crossed)]
    for mode in ("int", "multi_hot", "count", "tf_idf"):
        layer = layers.TextVectorization(output_mode=mode, ngrams=2)
        layer.adapt(["Foo bar!", "bar baz", "foo bar"])
        found.append(layer(tf.constant(["foo qux", "bar baz bar"])))
    return found


class Attention:
    """A model that attends to words, with the masks of their padding, and how it is trained."""

    def __init__(self, tf):
        keras = tf.keras

        class Model(keras.Model):
            def __init__(self):
                super().__init__()
                self.embedding = keras.layers.Embedding(9, 8, mask_zero=True)
                # Biases of keys have no derivatives but rounding's, which Adam makes steps of.
                self.attention = keras.layers.MultiHeadAttention(2, 4, use_bias=False)
                self.norm = keras.layers.LayerNormalization()
                self.last = keras.layers.Dense(9)

            def call(self, words):
                x = self.embedding(words) * tf.math.sqrt(8.0)
                x = self.norm(x + self.attention(x, x, use_causal_mask=True))
                return self.last(x)

        self.tf = tf
        self.model = Model()
        draws = np.random.default_rng(5)
        words = draws.integers(1, 9, (12, 7))
        words[words.cumsum(1) > 25] = 0
        self.words = tf.constant(words)
        self.model(self.words)
        shapes = [each.shape for each in self.model.get_weights()]
        self.model.set_weights(
            [
                draws.normal(size=shape) * 0.3 if len(shape) > 1 else np.full(shape, 0.5)
                for shape in shapes
            ]
        )

    def train(self):
        """Losses of Adam's steps, and the weights after them."""
        tf, model = self.tf, self.model
        optimizer = tf.keras.optimizers.Adam(0.01, beta_2=0.98, epsilon=1e-9)
        loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

        @tf.function
        def step(words):
            given, wanted = words[:, :-1], words[:, 1:]
            with tf.GradientTape() as tape:
                counted = tf.cast(wanted != 0, tf.float32)
                losses = loss_of(wanted, model(given, training=True)) * counted
                loss = tf.reduce_sum(losses) / tf.reduce_sum(counted)
            found = tape.gradient(loss, model.trainable_variables)
            # Of TensorFlow's sparse gradients, Keras adds the squares of a row's parts.
            dense = [tf.convert_to_tensor(each) for each in found]
            optimizer.apply_gradients(zip(dense, model.trainable_variables, strict=True))
            return loss

        losses = [step(self.words).numpy() for _ in range(8)]
        return [*losses, *map(np.asarray, model.get_weights())]


def masks(tf):
    """What is seen and done of masks that Keras attaches to tensors."""
    keras = tf.keras

    class Dropped(keras.Model):
        def __init__(self, drops):
            super().__init__()
            self.drops = drops
            self.embedding = keras.layers.Embedding(
                3, 2, mask_zero=True, embeddings_initializer="ones"
            )

        def call(self, words):
            found = self.embedding(tf.identity(words))
            if self.drops:
                del found._keras_mask
            return found

    words, wanted = (
        tf.constant([[1, 2, 0], [1, 0, 0]]),
        tf.constant(np.arange(12.0).reshape(2, 3, 2)),
    )
    results = []
    for drops in (False, True):
        model = Dropped(drops)
        model.compile(loss="mse")
        results.append(tf.constant(model.evaluate(words, wanted, verbose=0)))
    found = Dropped(False)(words)
    results.append(found._keras_mask)
    results.append(keras.layers.GlobalAveragePooling1D()(found * found))
    doubled = found * tf.constant([[[1.0], [2.0], [3.0]]])
    doubled._keras_mask = tf.constant([[True, False, True], [False, True, True]])
    results.append(keras.layers.GlobalAveragePooling1D()(doubled))
    results.append(
        tf.constant([hasattr(each, "_keras_mask") for each in (found, found + 1, doubled)])
    )
    del found._keras_mask
    results.append(tf.constant(hasattr(found, "_keras_mask")))
    return results


def compared(tf):
    """For each program what it gives, as numpy's arrays and numbers."""
    found = {make.__name__: results(make, tf) for make in (own_classes, own_step, below)}
    found["looked_up"] = [each.numpy() for each in looked_up(tf)]
    found["masks"] = [each.numpy() for each in masks(tf)]
    found["attention"] = Attention(tf).train()
    return found


if __name__ == "__main__":
    import tensorflow

    with open(sys.argv[1], "wb") as file:
        pickle.dump(compared(tensorflow), file)
