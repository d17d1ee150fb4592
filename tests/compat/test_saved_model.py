"""``tf.saved_model``: what is saved computes the same without the script that made it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import drumline.compat.tf as tf
from drumline.compat.training.restored import FILE


class Affine(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[1.0], [2.0]])
        self.calls = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def apply(self, x):
        self.calls.assign_add(1)
        result = x @ self.w
        if tf.reduce_sum(x) < 0:
            result = -result
        return {"y": result, "n": tf.constant(2**40, tf.int64)}


@pytest.fixture
def saved(tmp_path):
    module = Affine()
    tf.saved_model.save(module, tmp_path / "m", signatures=module.apply)
    return tmp_path / "m"


def test_another_process_computes_the_same_for_any_batch(saved):
    script = (
        "import sys, drumline.compat.tf as tf\n"
        "m = tf.saved_model.load(sys.argv[1])\n"
        "for rows in (1, 3):\n"
        "    y = m.signatures['serving_default'](x=-tf.ones([rows, 2]))\n"
        "    assert y['y'].numpy().tolist() == [[3.0]] * rows, y\n"
        "    assert y['n'].numpy() == 2**40, y\n"
        "assert m.apply(tf.ones([1, 2]))['y'].numpy() == 3.0\n"
        "assert m.calls.numpy() == 3, m.calls\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(saved)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_gradients_go_through_a_loaded_function(saved):
    model = tf.saved_model.load(saved)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.apply(tf.constant([[1.0, 5.0]]))["y"])
    assert tape.gradient(loss, model.w).numpy().tolist() == [[1.0], [5.0]]
    assert [each.trainable for each in model.variables] == [False, True]


def test_a_model_of_keras_has_a_serving_signature(tmp_path):
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    tf.saved_model.save(model, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")
    (result,) = loaded.signatures["serving_default"](x).values()
    np.testing.assert_allclose(result.numpy(), model(x).numpy(), rtol=1e-6)


class Tree(tf.Module):
    """Has what programs and objects can be made of."""

    def __init__(self):
        super().__init__()
        self.scale = tf.Variable(2.0)
        self.parts = [tf.Variable(1.0), {"inner": tf.Variable(3.0)}]
        self.dense = tf.keras.layers.Dense(2)
        self.dense.build((None, 2))
        self.drop = tf.keras.layers.Dropout(0.5)
        self.note = "not saved"

    @tf.function
    def pick(self, x, double=True):
        return x * self.scale if double else x

    @tf.function
    def noise(self, x):
        return self.drop(x, training=True) + tf.random.normal(x.shape)

    @tf.function
    def __call__(self, inputs):
        return {"y": self.dense(inputs["x"]), "both": [inputs["x"], self.parts[0]], "no": None}


def test_objects_have_their_attributes_and_the_functions_that_were_called(tmp_path):
    tree = Tree()
    tree.pick(tf.constant(1.0))
    tree.pick(tf.constant([1.0]), double=False)
    tree.noise(tf.ones(4))
    expected = tree({"x": tf.ones([3, 2])})
    tf.saved_model.save(tree, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    assert loaded.parts[1]["inner"].numpy() == 3.0 and not hasattr(loaded, "note")
    np.testing.assert_array_equal(loaded.dense.bias.numpy(), [0, 0])
    result = loaded({"x": tf.ones([3, 2])})
    np.testing.assert_array_equal(result["y"], expected["y"])
    assert isinstance(result["both"], list) and result["no"] is None
    assert loaded.pick(tf.constant(4.0)).numpy() == 8.0
    assert loaded.pick(tf.constant([4.0]), False).numpy() == [4.0]
    loaded.scale.assign(3.0)
    assert loaded.pick(tf.constant(4.0)).numpy() == 12.0
    first, second = loaded.noise(tf.ones(4)), loaded.noise(tf.ones(4))
    assert (first.numpy() != second.numpy()).any()
    with pytest.raises(ValueError, match=r"following 2 option\(s\)"):
        loaded.pick(tf.constant(4.0), False)
    assert len(loaded.pick.concrete_functions) == 2 and not loaded.signatures


def test_a_signature_of_any_rank_takes_any(tmp_path):
    tree = Tree()
    anything = tree.pick.get_concrete_function(tf.TensorSpec(None, tf.float32))
    tf.saved_model.save(tree, tmp_path, signatures={"any": anything})
    serve = tf.saved_model.load(tmp_path).signatures["any"]
    for shape in ([], [2], [2, 3], [1, 2, 3, 4, 5]):
        assert (serve(x=tf.ones(shape))["output_0"].numpy() == np.full(shape, 2.0)).all()
    assert str(serve.structured_outputs["output_0"].shape) == "<unknown>"
    with pytest.raises(ValueError, match=r"of five at most"):
        serve(x=tf.ones([1] * 6))


def test_functions_see_unknown_sizes_as_in_a_graph(tmp_path):
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def mean(x):
        seen.append(f"{x}")
        assert x.shape[0] is None or x.shape[0] == 3
        return tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32)

    module = tf.Module()
    module.mean = mean
    tf.saved_model.save(module, tmp_path)
    assert "shape=(None, 2)" in seen[-1]
    assert tf.saved_model.load(tmp_path).mean(tf.ones([3, 2])).numpy() == 2.0


def test_two_unknown_sizes_are_independent_unless_they_must_be_one(tmp_path):
    module = tf.Module()
    two = [tf.TensorSpec([None]), tf.TensorSpec([None])]
    module.outer = tf.function(lambda a, b: a[:, None] * b, input_signature=two)
    module.inner = tf.function(lambda a, b: a * b, input_signature=two)
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    assert loaded.outer(tf.ones(2), tf.ones(3)).shape == (2, 3)
    assert loaded.inner(tf.ones(3), tf.ones(3)).shape == (3,)


def test_variables_that_the_object_has_not_are_named(tmp_path):
    other = tf.Variable(1.0, name="other")
    module = tf.Module()
    module.f = tf.function(lambda x: x + other, input_signature=[tf.TensorSpec([])])
    with pytest.raises(ValueError, match="f uses the variable 'other:0'"):
        tf.saved_model.save(module, tmp_path)
    assert not list(tmp_path.iterdir())


def test_export_writes_a_program(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    inputs = {"a": tf.keras.Input((2,), name="a"), "b": tf.keras.Input((2,), name="b")}
    model = tf.keras.Model(inputs, tf.keras.layers.Add()([inputs["a"], inputs["b"]]))
    model.export(tmp_path)
    assert "tf.saved_model.load" in capsys.readouterr().out
    loaded = tf.saved_model.load(tmp_path)
    assert sorted(loaded.signatures) == ["serve", "serving_default"]
    given = {"a": tf.ones([3, 2]), "b": 2 * tf.ones([3, 2])}
    assert (loaded.signatures["serve"](**given)["output_0"].numpy() == 3).all()
    assert (loaded.serve(given["a"], given["b"]).numpy() == 3).all()


def test_models_of_tensorflows_are_refused_with_a_remedy(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(OSError, match="SavedModel of TensorFlow's.*Build the model here"):
        tf.saved_model.load(tmp_path)


def test_arguments_unlike_the_signature_are_refused(saved):
    apply = tf.saved_model.load(saved).apply
    with pytest.raises(ValueError, match=r"shape=\(1, 3\)(.|\n)*Option 1:(.|\n)*\(None, 2\)"):
        apply(tf.ones([1, 3]))
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        apply()
    serve = tf.saved_model.load(saved).signatures["serving_default"]
    with pytest.raises(TypeError, match=r"float32 of shape \(1, 3\) is given for Tensor"):
        serve(x=tf.ones([1, 3]))
    with pytest.raises(TypeError, match=r"serving_default: it takes 0 arguments by pos.*\['x'\]"):
        serve(y=tf.ones([1, 2]))


@pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
def test_a_damaged_file_is_refused(saved, part):
    file = Path(saved) / FILE
    data = bytearray(file.read_bytes())
    data[int(len(data) * part)] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(OSError, match=FILE):
        tf.saved_model.load(saved)


def test_a_save_that_fails_leaves_the_former_model(saved, monkeypatch):
    def fail(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        tf.saved_model.save(Affine(), saved)
    monkeypatch.undo()
    assert [each.name for each in saved.iterdir()] == [FILE]
    assert "serving_default" in tf.saved_model.load(saved).signatures


def test_what_cannot_be_saved_is_refused(tmp_path):
    module = tf.Module()
    with pytest.raises(ValueError, match="input_signature"):
        tf.saved_model.save(module, tmp_path, signatures=tf.function(lambda x: x))
    with pytest.raises(OSError, match="does not exist"):
        tf.saved_model.load(tmp_path)
    assert not tf.saved_model.contains_saved_model(tmp_path)


def test_a_model_without_inputs_is_saved_without_signatures(tmp_path):
    class Unbuilt(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = tf.keras.layers.Dense(5)

        def call(self, inputs):
            return self.inner(inputs)

    tf.saved_model.save(Unbuilt(), tmp_path / "model")
    assert dict(tf.saved_model.load(tmp_path / "model").signatures) == {}


class _Unsaved(tf.Module):
    @tf.function
    def of_sparse(self, sparse):
        return sparse.values

    @tf.function
    def never_called(self, x):
        return x


def test_functions_that_are_not_saved_say_why(tmp_path):
    module, sparse = _Unsaved(), tf.SparseTensor([[0]], [1.0], [2])
    module.of_sparse(sparse)
    tf.saved_model.save(module, tmp_path / "first")
    tf.saved_model.save(tf.saved_model.load(tmp_path / "first"), tmp_path / "again")
    for name in ("first", "again"):
        loaded = tf.saved_model.load(tmp_path / name)
        with pytest.raises(ValueError, match=r"of_sparse was not saved.*takes a SparseTensorSpec"):
            loaded.of_sparse(sparse)
        with pytest.raises(ValueError, match="never_called was not saved.*had not been called"):
            loaded.never_called(1.0)


def test_what_a_strategy_ran_is_saved(tmp_path):
    class Draws(tf.Module):
        def __init__(self):
            super().__init__()
            self.generator = tf.random.Generator.from_seed(0)

        @tf.function
        def __call__(self):
            return self.generator.normal([])

    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    with strategy.scope():
        module = Draws()
    strategy.run(module)
    tf.saved_model.save(module, tmp_path / "m")
    expected = strategy.run(module).numpy()
    assert tf.saved_model.load(tmp_path / "m")().numpy() == expected


def test_numbers_are_cast_for_a_loaded_function(tmp_path):
    module = tf.Module()
    module.double = tf.function(
        lambda x: 2 * x, input_signature=[tf.TensorSpec([], tf.float32, "x")]
    )
    tf.saved_model.save(module, tmp_path / "m")
    loaded = tf.saved_model.load(tmp_path / "m")
    for value in (5, 5.0, np.int64(5), np.float64(5)):
        found = loaded.double(value)
        assert found.numpy() == 10.0 and found.dtype == tf.float32
    with pytest.raises(ValueError, match="Could not find matching"):
        loaded.double(tf.constant(5))


def test_a_program_that_needs_sizes_names_them(tmp_path):
    module = tf.Module()
    module.flat = tf.function(
        lambda x: tf.reshape(x, [-1, 4]), input_signature=[tf.TensorSpec([None, None, None])]
    )
    with pytest.raises(ValueError, match=r"depends on the sizes that are None there: give them"):
        tf.saved_model.save(module, tmp_path / "m")
    assert not (tmp_path / "m").exists()
    module.flat = tf.function(
        module.flat.python_function, input_signature=[tf.TensorSpec([None, 2, 2])]
    )
    tf.saved_model.save(module, tmp_path / "m")
    assert tf.saved_model.load(tmp_path / "m").flat(tf.ones([3, 2, 2])).shape == (3, 4)
