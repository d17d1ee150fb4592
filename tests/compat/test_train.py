"""tf.train: checkpoints of what a program holds, their readers, and averages."""

import numpy as np
import pytest

from drumline.compat import tf


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.l1 = tf.keras.layers.Dense(5)

    def call(self, x):
        return self.l1(x)


def batches():
    inputs = tf.range(10.0)[:, None]
    labels = inputs * 5.0 + tf.range(5.0)[None, :]
    rows = {"x": inputs, "y": labels}
    return tf.data.Dataset.from_tensor_slices(rows).repeat().batch(2)


def train(folder, steps):
    """The guide's program: it continues from the latest checkpoint, after each step a new one."""
    tf.keras.utils.set_random_seed(1)
    net, optimizer, iterator = Net(), tf.keras.optimizers.Adam(0.1), iter(batches())
    checkpoint = tf.train.Checkpoint(
        step=tf.Variable(1), optimizer=optimizer, net=net, iterator=iterator
    )
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    checkpoint.restore(manager.latest_checkpoint)
    for _ in range(steps):
        example = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(net(example["x"]) - example["y"]))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        checkpoint.step.assign_add(1)
        manager.save()
    return [value.numpy() for value in net.weights], int(checkpoint.step)


def test_a_program_continues_where_it_stopped(tmp_path):
    weights, step = train(str(tmp_path / "whole"), 6)
    train(str(tmp_path / "parts"), 4)
    continued, same = train(str(tmp_path / "parts"), 2)
    assert step == same == 7
    for one, other in zip(weights, continued, strict=True):
        np.testing.assert_array_equal(one, other)


def test_values_are_found_by_names_of_attributes(tmp_path):
    (kernel, bias), _ = train(str(tmp_path), 1)
    reader = tf.train.load_checkpoint(str(tmp_path))
    shapes = reader.get_variable_to_shape_map()
    assert shapes["net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"] == [1, 5]
    assert shapes["step/.ATTRIBUTES/VARIABLE_VALUE"] == []
    assert len(shapes) == 2 + 2 + 2 + 4  # the net's, step and counter, and Adam's six
    np.testing.assert_array_equal(
        reader.get_tensor("net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"), kernel
    )
    layer = tf.train.Checkpoint(bias=tf.Variable(tf.zeros([5])))
    root = tf.train.Checkpoint(net=tf.train.Checkpoint(l1=layer))
    status = root.restore(tf.train.latest_checkpoint(str(tmp_path)))
    status.expect_partial().assert_existing_objects_matched()
    np.testing.assert_array_equal(layer.bias.numpy(), bias)
    layer.kernel = tf.Variable(tf.zeros([1, 5]))
    np.testing.assert_array_equal(layer.kernel.numpy(), kernel)
    with pytest.raises(AssertionError, match="were not used"):
        status.assert_consumed()


def test_a_checkpoint_of_tensorflows_format_is_named(tmp_path):
    (tmp_path / "ck-1.index").touch()
    with pytest.raises(tf.errors.NotFoundError, match="TensorFlow's own format"):
        tf.train.Checkpoint(x=tf.Variable(1)).restore(str(tmp_path / "ck-1"))


def test_objects_that_refer_to_each_other_are_saved_once(tmp_path):
    class Part(tf.Module):
        def __init__(self, value):
            super().__init__()
            self.w, self.others, self.text = tf.Variable(value), [], "no value"

    one, two = Part(1.0), Part(2.0)
    one.others.append(two)
    two.others.append(one)
    path = tf.train.Checkpoint(one=one, two=two).save(str(tmp_path / "ck"))
    names = [name for name, _ in tf.train.list_variables(path)]
    assert len(names) == 3
    one.w.assign(0.0)
    two.w.assign(0.0)
    tf.train.Checkpoint(one=one, two=two).restore(path).assert_consumed()
    assert (one.w.numpy(), two.w.numpy()) == (1.0, 2.0)


def test_checkpoints_are_yielded_as_they_come(tmp_path):
    checkpoint = tf.train.Checkpoint(x=tf.Variable(1))
    first = checkpoint.save(str(tmp_path / "ck"))
    found = []
    for path in tf.train.checkpoints_iterator(str(tmp_path), timeout=0):
        found.append(path)
        if len(found) < 3:
            checkpoint.save(str(tmp_path / "ck"))
    assert found[0] == first
    assert [path.rpartition("-")[2] for path in found] == ["1", "2", "3"]


def test_options_are_refused_or_have_their_effect(tmp_path):
    written = []
    options = tf.train.CheckpointOptions(experimental_write_callbacks=[written.append])
    path = tf.train.Checkpoint(x=tf.Variable(1)).save(str(tmp_path / "ck"), options=options)
    assert written == [path]
    with pytest.raises(NotImplementedError, match="own disk"):
        tf.train.CheckpointOptions(experimental_io_device="/job:worker/task:1")
    with pytest.raises(NotImplementedError, match="second manager"):
        tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), 1, 2.0)
    with pytest.raises(ValueError, match="is a method of Checkpoint"):
        tf.train.Checkpoint(save=tf.Variable(1))


def test_averages_follow_variables():
    variable = tf.Variable([1.0, 3.0])
    average = tf.train.ExponentialMovingAverage(0.5)
    average.apply([variable])
    variable.assign([3.0, 5.0])
    average.apply([variable])
    assert average.average(variable).numpy().tolist() == [2.0, 4.0]
    (name,) = average.variables_to_restore([variable])
    assert name == average.average_name(variable)
