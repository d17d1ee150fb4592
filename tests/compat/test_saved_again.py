"""``tf.saved_model``: what was loaded is saved again; functions as attributes; Keras models."""

import subprocess
import sys

import numpy as np
import pytest

import drumline.compat.tf as tf


class Scale(tf.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = tf.Variable(factor)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def __call__(self, x):
        return x * self.factor

    @tf.function
    def shift(self, x, by=1.0, twice=False):
        return x + (2 * by if twice else by)


class Holder(tf.Module):
    """Holds what was loaded."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner


def again(obj, path, **options):
    tf.saved_model.save(obj, path, **options)
    return tf.saved_model.load(path)


def test_what_was_loaded_is_saved_again(tmp_path):
    scale = Scale()
    scale.shift(tf.ones([2, 2]))
    scale.shift(tf.ones([2, 2]), twice=True)
    first = again(scale, tmp_path / "a")
    first.factor.assign(5.0)
    second = again(first, tmp_path / "b")
    third = again(second, tmp_path / "c", signatures=second.signatures)
    for loaded in (second, third):
        assert loaded(tf.ones([3])).numpy().tolist() == [5.0] * 3
        assert loaded.shift(tf.ones([2, 2]), twice=True).numpy()[0, 0] == 3.0
        assert loaded.shift(tf.ones([2, 2])).numpy()[0, 0] == 2.0
        assert len(loaded.shift.concrete_functions) == 2
        assert loaded.signatures["serving_default"](x=tf.ones([1]))["output_0"].numpy() == [5.0]
        assert [each.trainable for each in loaded.trainable_variables] == [True]
    third.factor.assign(7.0)
    assert third(tf.ones([1])).numpy() == [7.0] and second(tf.ones([1])).numpy() == [5.0]


def test_a_part_of_what_was_loaded_is_saved_with_its_variables(tmp_path):
    loaded = again(Holder(Scale(3.0)), tmp_path / "a")
    part = again(loaded.inner, tmp_path / "b")
    assert part(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    whole = again(Holder(loaded), tmp_path / "c")
    assert whole.inner.inner(tf.ones([1])).numpy() == [3.0]
    served = tf.Module()
    served.held = loaded.inner
    signatures = {"x": part.signatures["serving_default"]}
    assert again(served, tmp_path / "d", signatures=signatures).signatures["x"](tf.ones([1]))


def test_what_was_loaded_twice_is_trained(tmp_path):
    loaded = again(again(Scale(), tmp_path / "a"), tmp_path / "b")
    optimizer = tf.keras.optimizers.SGD(0.1)
    for _ in range(40):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((loaded(tf.constant([1.0, 2.0])) - [3.0, 6.0]) ** 2)
        gradients = tape.gradient(loss, loaded.trainable_variables)
        optimizer.apply_gradients(zip(gradients, loaded.trainable_variables, strict=True))
    assert abs(loaded.factor.numpy() - 3.0) < 1e-3


def test_concrete_functions_are_attributes(tmp_path):
    module = Scale()
    module.of_two = module.shift.get_concrete_function(tf.TensorSpec([2], tf.float32), by=4.0)
    for loaded in (
        again(module, tmp_path / "a"),
        again(again(module, tmp_path / "b"), tmp_path / "c"),
    ):
        assert loaded.of_two(tf.ones([2])).numpy().tolist() == [5.0, 5.0]
        assert loaded.of_two(x=tf.ones([2])).numpy().tolist() == [5.0, 5.0]
        with pytest.raises(TypeError, match="of_two|shift"):
            loaded.of_two(tf.ones([3]))


def test_one_function_with_a_signature_is_served(tmp_path):
    loaded = again(Scale(), tmp_path / "a")
    assert list(loaded.signatures) == ["serving_default"]
    module = Scale()
    module.other = tf.function(lambda y: y, input_signature=[tf.TensorSpec([], tf.int64)])
    assert not again(module, tmp_path / "b").signatures  # which of the two is not said


def test_a_general_spec_covers_narrower_ones(tmp_path):
    function = tf.function(lambda x, by=1: x * by)
    function.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
    narrower = function.get_concrete_function(tf.TensorSpec([3, 2], tf.float32))
    assert narrower.structured_input_signature[0][0].shape.as_list() == [None, 2]
    other = function.get_concrete_function(tf.TensorSpec([3, 2], tf.float32), by=2)
    assert other.structured_input_signature[0][0].shape.as_list() == [3, 2]
    assert other(tf.ones([3, 2])).numpy()[0, 0] == 2
    for module in (Scale(), again(Scale(), tmp_path)):
        found = (
            module.__call__ if isinstance(module, Scale) else module.saved_functions()["__call__"]
        )
        of_three = found.get_concrete_function(tf.TensorSpec([3], tf.float32))
        assert of_three.structured_input_signature[0][0].shape.as_list() == [None]
        for spec in (tf.TensorSpec([3, 3], tf.float32), tf.TensorSpec([3], tf.int32)):
            with pytest.raises((TypeError, ValueError)):
                found.get_concrete_function(spec)


@pytest.mark.parametrize("signatures", ["a", lambda x: x, {"a": 3}, tf.function(lambda x: x)])
def test_signatures_that_are_no_functions_of_known_arguments_are_refused(tmp_path, signatures):
    with pytest.raises(ValueError, match="input_signature"):
        tf.saved_model.save(Scale(), tmp_path, signatures=signatures)


def test_names_of_signatures_are_strings(tmp_path):
    with pytest.raises(TypeError, match="strings"):
        tf.saved_model.save(Scale(), tmp_path, signatures={3: Scale().__call__})
    with pytest.raises(ValueError, match=r"tf\.Module"):
        tf.saved_model.save(3, tmp_path)


class Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(2)

    def call(self, inputs, training=False):
        x = inputs["a"] if isinstance(inputs, dict) else inputs
        return self.dense(x) + (100.0 if training else 0.0)


@pytest.mark.parametrize("nested", [False, True])
def test_subclassed_models_are_saved_after_a_call(tmp_path, nested):
    model = Subclassed()
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    expected = model({"a": x} if nested else x).numpy()
    tf.saved_model.save(model, tmp_path / "a")
    model.export(tmp_path / "b", verbose=False)
    for path in ("a", "b"):
        loaded = tf.saved_model.load(tmp_path / path)
        serve = loaded.signatures["serving_default"]
        name = "a" if nested else "inputs"
        got = serve(**{name: tf.constant(x[:3])})["output_0"]
        np.testing.assert_allclose(got, expected[:3], rtol=1e-6)
    again(tf.saved_model.load(tmp_path / "b"), tmp_path / "c").serve({"a": x} if nested else x)


def test_a_model_that_was_not_called_has_no_signature(tmp_path):
    assert not again(Subclassed(), tmp_path / "a").signatures
    with pytest.raises(ValueError, match="call it on a batch once"):
        Subclassed().export(tmp_path / "b")


def test_a_directory_of_programs_is_no_model_of_keras(tmp_path):
    tf.saved_model.save(Scale(), tmp_path)
    with pytest.raises(ValueError, match=r"tf\.saved_model\.load.*TFSMLayer"):
        tf.keras.models.load_model(tmp_path)


def test_a_directory_of_model_save_is_loaded_as_programs(tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    model.compile("adam", "mse")
    x = np.ones((4, 3), "float32")
    model.fit(x, np.zeros((4, 2)), verbose=0)
    path = tmp_path / "model"
    model.save(path)
    assert tf.saved_model.contains_saved_model(path)
    loaded = tf.saved_model.load(path)
    result = loaded.signatures["serving_default"](tf.constant(x))["output_0"]
    np.testing.assert_allclose(result, model(x), rtol=1e-6)
    layer = tf.keras.layers.TFSMLayer(path, call_endpoint="serving_default")
    np.testing.assert_allclose(layer(x)["output_0"], model(x), rtol=1e-6)


def test_the_last_model_that_was_saved_to_a_directory_is_loaded(tmp_path):
    first, second = (
        tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(units)])
        for units in (2, 5)
    )

    def size():
        signature = tf.saved_model.load(tmp_path).signatures["serving_default"]
        return signature(tf.ones([1, 3]))["output_0"].shape[1]

    tf.saved_model.save(first, tmp_path)
    assert size() == 2
    second.save(tmp_path)
    assert size() == 5 and tf.keras.models.load_model(tmp_path).output_shape == (None, 5)
    first.export(tmp_path, verbose=False)
    assert size() == 2
    with pytest.raises(ValueError, match=r"no model of Keras's"):
        tf.keras.models.load_model(tmp_path)


def test_the_classes_of_a_model_in_kerass_format_are_asked_for(tmp_path):
    class Twice(tf.keras.layers.Layer):
        def call(self, x):
            return 2 * x

    tf.keras.Sequential([tf.keras.Input((3,)), Twice()]).save(tmp_path / "model")
    with pytest.raises(OSError, match=r"register.*tf\.saved_model\.save or Model\.export"):
        tf.saved_model.load(tmp_path / "model")


def test_a_layer_computes_what_was_exported(tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    model.export(tmp_path / "a", verbose=False)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    layer = tf.keras.layers.TFSMLayer(tmp_path / "a")
    np.testing.assert_allclose(layer(x), model(x), rtol=1e-6)
    assert len(layer.trainable_weights) == 2 and not layer.non_trainable_weights
    named = tf.keras.layers.TFSMLayer(tmp_path / "a", call_endpoint="serving_default")
    np.testing.assert_allclose(named(x)["output_0"], model(x), rtol=1e-6)
    with pytest.raises(ValueError, match=r"'other'.*serving_default"):
        tf.keras.layers.TFSMLayer(tmp_path / "a", call_endpoint="other")


def test_a_layer_of_a_program_is_part_of_a_model_that_is_trained(tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    model.export(tmp_path / "a", verbose=False)
    inputs = tf.keras.Input((3,))
    outputs = tf.keras.layers.Dense(1)(tf.keras.layers.TFSMLayer(str(tmp_path / "a"))(inputs))
    whole = tf.keras.Model(inputs, outputs)
    whole.compile("sgd", "mse")
    before = [each.numpy() for each in whole.trainable_variables]
    assert len(before) == 4
    x, y = np.ones((16, 3), "float32"), np.full((16, 1), 7.0, "float32")
    losses = whole.fit(x, y, batch_size=5, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for old, new in zip(before, whole.trainable_variables, strict=True):
        assert (old != new.numpy()).any()
    whole.save(tmp_path / "whole.keras")
    with pytest.raises(ValueError, match="safe_mode"):
        tf.keras.models.load_model(tmp_path / "whole.keras")
    restored = tf.keras.models.load_model(tmp_path / "whole.keras", safe_mode=False)
    np.testing.assert_allclose(
        restored.predict(x, verbose=0), whole.predict(x, verbose=0), rtol=1e-6
    )


def test_what_was_saved_twice_is_loaded_without_the_script(tmp_path):
    again(again(Scale(), tmp_path / "a"), tmp_path / "b")
    script = (
        "import sys, drumline.compat.tf as tf\n"
        "m = tf.saved_model.load(sys.argv[1])\n"
        "for rows in (1, 3):\n"
        "    assert m(tf.ones([rows])).numpy().tolist() == [2.0] * rows\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "b")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
