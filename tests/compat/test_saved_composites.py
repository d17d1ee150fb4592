"""Concrete and saved functions of extension types, ragged and sparse tensors."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import drumline.compat.tf as tf


class Masked(tf.experimental.ExtensionType):
    __name__ = "drumline.tests.Masked"
    values: tf.Tensor
    mask: tf.Tensor
    label: str = "none"


class Rows(tf.experimental.ExtensionType):
    words: tf.RaggedTensor
    scale: tf.Tensor


class Module(tf.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = tf.Variable(factor)

    @tf.function
    def grow(self, x):
        return x * self.factor

    @tf.function
    def grow_masked(self, x):
        return {"grown": Masked(x.values * self.factor, x.mask, x.label), "sum": x.values + 1.0}

    @tf.function
    def grow_rows(self, x):
        return Rows(x.words * self.factor + x.words, x.scale)

    @tf.function
    def lengths(self, x):
        return x.row_lengths()

    @tf.function
    def masked(self, x):
        return Masked(x, x > 0)

    @tf.function
    def dense(self, x):
        return tf.sparse.to_dense(x) * self.factor


MASKED = Masked.Spec(tf.TensorSpec([None]), tf.TensorSpec([None], tf.bool), "none")
RAGGED = tf.RaggedTensorSpec([None, None], tf.float32)


def reloaded(module, path):
    tf.saved_model.save(module, path)
    return tf.saved_model.load(path)


def test_concrete_functions_are_for_their_specs():
    module = Module()
    concrete = module.grow.get_concrete_function(RAGGED)
    assert concrete.structured_outputs == RAGGED
    assert concrete(tf.ragged.constant([[1.0], [], [2.0, 3.0]])).to_list() == [[2], [], [4, 6]]
    with pytest.raises(TypeError, match="was traced for the latter"):
        concrete(tf.ragged.constant([[1], [2]]))
    with pytest.raises(TypeError, match="was traced for the latter"):
        concrete(tf.ones([2]))
    masked = module.grow_masked.get_concrete_function(MASKED)
    assert masked.structured_outputs["grown"] == MASKED
    assert masked(Masked([1.0], [True]))["grown"].values.numpy() == [2.0]
    sparse = module.dense.get_concrete_function(tf.SparseTensorSpec([None, 3], tf.float32))
    assert sparse.structured_outputs.shape.as_list() == [None, 3]
    found = sparse(tf.SparseTensor([[1, 2]], [4.0], [2, 3]))
    np.testing.assert_array_equal(found, [[0, 0, 0], [0, 0, 8]])


def test_a_function_called_with_an_extension_type_has_a_concrete_one():
    @tf.function
    def total(x):
        return tf.reduce_sum(x.values)

    value = Masked([1.0, 2.0], [True, True])
    assert total(value) == 3.0
    assert total.get_concrete_function(value)(value) == 3.0


def test_sizes_that_a_variable_asks_for_are_no_obstacle(tmp_path):
    module = Module([1.0, 2.0, 3.0])
    concrete = module.grow.get_concrete_function(tf.TensorSpec(None, tf.float32))
    assert concrete.structured_outputs.shape.rank is None
    np.testing.assert_array_equal(concrete(tf.ones([3])), [1, 2, 3])
    loaded = reloaded(module, tmp_path)
    np.testing.assert_array_equal(loaded.grow(2 * tf.ones([3])), [2, 4, 6])
    np.testing.assert_array_equal(loaded.grow(tf.constant(2.0)), [2, 4, 6])
    with pytest.raises(ValueError, match=r"shape \(3,\), not \(4,\).*input_signature"):
        loaded.grow(tf.ones([4]))


def test_sizes_are_an_error_that_no_variable_asks_for():
    @tf.function
    def wrong(x):
        return tf.reshape(x, [3]) + tf.ones([4])

    with pytest.raises((TypeError, ValueError)):
        wrong.get_concrete_function(tf.TensorSpec([None], tf.float32))


def test_saved_functions_of_ragged_tensors(tmp_path):
    module = Module()
    module.grow.get_concrete_function(RAGGED)
    loaded = reloaded(reloaded(module, tmp_path / "first"), tmp_path / "again")
    for rows in ([[1.0, 4.0, 3.0], [2.0]], [[5.0], [], [6.0, 7.0]]):
        expected = [[2 * each for each in row] for row in rows]
        assert loaded.grow(tf.ragged.constant(rows, dtype=tf.float32)).to_list() == expected
    assert loaded.grow.get_concrete_function(RAGGED).structured_outputs == RAGGED
    with pytest.raises(ValueError, match="RaggedTensorSpec"):
        loaded.grow(tf.ones([2, 2]))


def test_ragged_tensors_in_extension_types(tmp_path):
    module = Module(2)
    spec = Rows.Spec(tf.RaggedTensorSpec([None, None, None], tf.int32, 2), tf.TensorSpec([]))
    module.grow_rows.get_concrete_function(spec)
    loaded = reloaded(module, tmp_path)
    words = tf.ragged.constant([[[1, 2], []], [[3]]])
    found = loaded.grow_rows(Rows(words, 5.0))
    assert isinstance(found, Rows)
    assert found.words.to_list() == [[[3, 6], []], [[9]]] and found.scale == 5.0


def test_a_saved_function_cannot_look_at_rows(tmp_path):
    module = Module()
    module.lengths.get_concrete_function(RAGGED)
    with pytest.raises(NotImplementedError, match="a function of its flat_values and row_splits"):
        tf.saved_model.save(module, tmp_path)


def test_sparse_arguments_are_not_saved_and_say_so(tmp_path):
    module = Module()
    module.dense.get_concrete_function(tf.SparseTensorSpec([None, 3], tf.float32))
    loaded = reloaded(module, tmp_path)
    with pytest.raises(ValueError, match="save a function of their tensors"):
        loaded.dense(tf.SparseTensor([[1, 2]], [4.0], [2, 3]))


def test_another_process_declares_the_extension_type(tmp_path):
    module = Module()
    module.grow_masked.get_concrete_function(MASKED)
    module.masked.get_concrete_function(tf.TensorSpec([None], tf.float32))
    tf.saved_model.save(module, tmp_path)
    script = """
        import sys, drumline.compat.tf as tf
        model = tf.saved_model.load(sys.argv[1])
        assert "drumline.tests.Masked.Spec" in repr(model.grow_masked.concrete_functions)
        try:
            model.masked(tf.ones([2]))
        except NameError as error:
            assert "declare it, or import the module" in str(error), error
        else:
            raise AssertionError("there is no such type")

        class Masked(tf.experimental.ExtensionType):
            __name__ = "drumline.tests.Masked"
            values: tf.Tensor
            mask: tf.Tensor
            label: str = "none"

        assert isinstance(model.masked(tf.ones([2])), Masked)
        found = model.grow_masked(Masked([1.0, 2.0], [True, False]))
        assert isinstance(found["grown"], Masked) and found["grown"].label == "none"
        assert found["grown"].values.numpy().tolist() == [2.0, 4.0]
        assert found["sum"].numpy().tolist() == [2.0, 3.0]
        try:
            model.grow_masked(Masked([1.0], [True], "other"))
        except ValueError as error:
            assert "drumline.tests.Masked" in str(error) or "Masked.Spec" in str(error), error
        else:
            raise AssertionError("another label was taken")
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
