"""``tf.raw_ops``: arguments by name, those that are refused, and results of several tensors."""

import ast

import numpy as np
import pytest

from drumline.compat import tf
from drumline.compat.runtime.raw_ops import operation
from drumline.compat.symbols.raw_ops import operations
from tests.compat.raw_ops_cases import OWN, arguments_of


def test_every_argument_is_computed_with_ignored_or_fixed():
    for name, each in operations().items():
        tree = ast.parse(each.expression, mode="eval")
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names = set(each.signature.parameters) - {"name"}
        rest = names - used - set(each.ignored)
        assert rest == set(each.fixed), name
        assert set(each.ignored) <= names, name
        for argument in each.fixed:
            assert each.signature.parameters[argument].default is not ast, name


def test_every_case_is_of_an_operation():
    assert OWN.keys() <= operations().keys()
    assert len(operations()) > 350


def test_operations_are_compiled_too():
    for name in ("Relu", "MatMul", "Sum", "FusedBatchNormV3", "TopKV2", "Conv2D", "TanhGrad"):
        given = arguments_of(name, operations()[name].signature)
        arrays = {key: each for key, each in given.items() if isinstance(each, np.ndarray)}
        rest = {key: each for key, each in given.items() if key not in arrays}

        @tf.function
        def call(tensors, name=name, rest=rest):
            return getattr(tf.raw_ops, name)(**tensors, **rest)

        expected = getattr(tf.raw_ops, name)(**given)
        made = call({key: tf.constant(each) for key, each in arrays.items()})
        for mine, other in zip(tf.nest.flatten(made), tf.nest.flatten(expected), strict=True):
            np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_go_through():
    x = tf.constant([[1.0, -2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.raw_ops.Sum(input=tf.raw_ops.Mul(x=x, y=x), axis=[0, 1])
    assert tape.gradient(loss, x).numpy().tolist() == [[2.0, -4.0], [6.0, 8.0]]


def test_arguments_are_given_by_name():
    with pytest.raises(TypeError, match=r"Add only takes keyword args .*\['x', 'y', 'name'\]"):
        tf.raw_ops.Add(1, 2)
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        tf.raw_ops.Add(x=1)
    with pytest.raises(NotImplementedError, match=r"tf\.raw_ops\.Cast with Truncate=True"):
        tf.raw_ops.Cast(x=1.5, DstT=tf.int32, Truncate=True)
    assert tf.raw_ops.Cast(x=1.5, DstT=tf.int32, Truncate=False, name="cast").numpy() == 1


def test_results_have_names():
    found = tf.raw_ops.TopKV2(input=[1.0, 3.0, 2.0], k=2)
    assert found.values.numpy().tolist() == [3.0, 2.0]
    assert found.indices.numpy().tolist() == [1, 2]
    assert type(found).__name__ == "TopKV2"


def test_draws_and_files(tmp_path):
    draws = tf.raw_ops.RandomUniformInt(shape=[100], minval=2, maxval=5, seed=3)
    assert set(draws.numpy().tolist()) == {2, 3, 4}
    assert tf.raw_ops.StatelessRandomNormal(shape=[2, 3], seed=[1, 2]).shape == (2, 3)
    assert sorted(tf.raw_ops.RandomShuffle(value=[3, 1, 2]).numpy().tolist()) == [1, 2, 3]
    assert tf.raw_ops.RandomGamma(shape=[4], alpha=tf.constant([1.0, 2.0])).shape == (4, 2)
    path = str(tmp_path / "file")
    tf.raw_ops.WriteFile(filename=path, contents=b"held")
    assert tf.raw_ops.ReadFile(filename=path).numpy() == b"held"
    serialized = tf.raw_ops.SerializeTensor(tensor=tf.constant([1, 2]))
    parsed = tf.raw_ops.ParseTensor(serialized=serialized, out_type=tf.int32)
    assert parsed.numpy().tolist() == [1, 2]
    assert tf.raw_ops.Empty(shape=[2], dtype=tf.int32).numpy().tolist() == [0, 0]
    assert tf.raw_ops.Const(value=2, dtype=tf.int64).dtype == tf.int64
    with pytest.raises(KeyError):
        operation("NoSuchOperation")
