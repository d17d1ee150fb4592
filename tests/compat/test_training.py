"""A tutorial's script: dataset, custom loop under a strategy, compiled functions, fit."""

import numpy as np
import pytest

from drumline.compat import tf

BATCH = 8


def rows():
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (24, 4, 4), np.uint8)
    return images, (images[:, 0, 0] % 3).astype(np.int64)


def dataset():
    return (
        tf.data.Dataset.from_tensor_slices(rows())
        .map(lambda image, label: (tf.cast(image, tf.float32) / 255.0, label))
        .batch(BATCH)
    )


def model():
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Flatten(), layers.Dense(8, "relu"), layers.Dense(3)])


def trained(strategy, loop):
    batches = strategy.experimental_distribute_dataset(dataset())
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    with strategy.scope():
        net = model()
        optimizer = tf.keras.optimizers.SGD(0.1)

    def step(inputs):
        images, labels = inputs
        assert type(images) is tf.Tensor
        with tf.GradientTape() as tape:
            losses = loss_object(labels, net(images, training=True))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    def total(batch):
        return strategy.reduce(
            tf.distribute.ReduceOp.SUM, strategy.run(step, args=(batch,)), axis=None
        )

    return loop(total, batches), [weight.numpy() for weight in net.trainable_variables]


def by_steps(total, batches):
    compiled = tf.function(total)
    return sum(float(compiled(batch)) for batch in batches)


def by_epochs(total, batches):
    @tf.function
    def epoch(data):
        losses = 0.0
        for batch in data:
            losses += total(batch)
        return losses

    return float(epoch(batches))


@pytest.mark.parametrize("loop", [by_steps, by_epochs])
def test_a_custom_loop_is_the_same_on_one_and_two_devices(loop):
    loss, weights = trained(tf.distribute.OneDeviceStrategy("/cpu:0"), loop)
    others, same = trained(tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]), loop)
    assert loss == pytest.approx(others, rel=1e-5)
    for a, b in zip(weights, same, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_fit_takes_datasets_of_tensors():
    net = model()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile("sgd", loss, metrics=["accuracy"])
    history = net.fit(dataset(), epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    assert type(net(tf.zeros([2, 4, 4]))) is tf.Tensor


def test_user_layers_see_tensors():
    seen = []

    class Scale(tf.keras.layers.Layer):
        def call(self, inputs):
            seen.append(type(inputs))
            return tf.reduce_sum(inputs * 2.0, axis=-1)

    assert Scale()(tf.ones([2, 3])).numpy().tolist() == [6.0, 6.0]
    assert set(seen) == {tf.Tensor}


def test_gradients_of_tensors_and_variables():
    variable, x = tf.Variable(3.0), tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = variable * x * x
    assert float(tape.gradient(y, x)) == 12.0
    assert float(tape.gradient(y, variable)) == 4.0
    wide = tf.constant(0.1, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(wide)
        y = wide * wide
    gradient = tape.gradient(y, wide)
    assert gradient.dtype == tf.float64
    assert float(gradient) == 0.2


def test_functions_are_compiled_once_for_a_kind_of_arguments():
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def double(x):
        traces.append(x)
        return {"twice": x * 2.0, "first": x[0]}

    assert double(tf.constant([1.0, 2.0]))["twice"].numpy().tolist() == [2.0, 4.0]
    assert double([3.0, 4.0])["first"].numpy() == 3.0
    assert double.experimental_get_tracing_count() == 1
    assert {type(each) for each in traces} == {tf.Tensor}


def test_modules_find_their_variables():
    class Dense(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.ones([2, 3]), name="w")
            self.b = tf.Variable(tf.zeros([3]), trainable=False)

        @tf.function
        def __call__(self, x):
            return x @ self.w + self.b

    dense = Dense()
    assert dense(tf.ones([1, 2])).numpy().tolist() == [[2.0, 2.0, 2.0]]
    assert [v is dense.b for v in dense.variables] == [True, False]
    assert len(dense.trainable_variables) == 1


def test_maps_keep_64_bits_and_strings():
    numbers = tf.data.Dataset.range(3).map(lambda x: x * 10**10)
    assert [int(x) for x in numbers] == [0, 10**10, 2 * 10**10]
    texts = tf.data.Dataset.from_tensor_slices(["a", "b"]).map(lambda s: (s, s == "a"))
    assert [(s.numpy(), bool(b)) for s, b in texts] == [(b"a", True), (b"b", False)]


def test_iterators_end_as_tensorflows_do():
    iterator = iter(tf.data.Dataset.range(1))
    assert int(iterator.get_next()) == 0
    assert not iterator.get_next_as_optional().has_value()
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.get_next()


def test_layers_of_modules_that_do_not_use_it_see_arrays():
    code = """
import keras
class Plain(keras.layers.Layer):
    def call(self, x):
        return x / x.size  # a tensor of TensorFlow's has no such attribute
"""
    names = {"__name__": "plain"}
    exec(code, names)  # a module without the look-alike
    layer = names["Plain"]()
    assert layer(tf.constant([[2.0, 4.0]])).numpy().tolist() == [[1.0, 2.0]]
