"""Variables: their types, creators, places, copies; and functions that create them."""

import copy
import pickle

import numpy as np
import pytest

from drumline.compat import tf


def test_types_and_shapes_are_tensorflows():
    assert tf.Variable(tf.zeros([2], tf.float64)).dtype is tf.float64
    variable = tf.Variable(tf.zeros([2, 3]))
    assert variable.dtype is tf.float32 and variable.dtype.is_floating
    assert variable.shape.rank == 2 and variable.shape.as_list() == [2, 3]
    optimizer = tf.keras.optimizers.Adam(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((variable - 1.0) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])
    np.testing.assert_allclose(variable.numpy(), 0.1, rtol=1e-5)


def test_creators_make_variables_the_innermost_first():
    order = []

    def creator(label):
        def create(next_creator, **kwargs):
            order.append(label)
            assert {"initial_value", "trainable", "name", "dtype", "shape"} <= set(kwargs)
            return next_creator(**{**kwargs, "name": f"{label}_{kwargs['name']}"})

        return create

    with tf.variable_creator_scope(creator("outer")), tf.variable_creator_scope(creator("inner")):
        variable = tf.Variable(2.0, name="x")
    assert order == ["inner", "outer"]
    assert variable.name == "outer_inner_x:0"
    assert tf.Variable(1.0, name="x").name == "x:0"


def test_creators_can_give_another_variable_and_make_some_themselves():
    def shared(next_creator, **kwargs):
        return tf.Variable(5.0, name="own")

    with tf.variable_creator_scope(shared):
        assert tf.Variable(1.0).numpy() == 5.0


SCATTERS = {
    "add": [[0, 0], [4, 6], [0, 0]],
    "sub": [[0, 0], [-4, -6], [0, 0]],
    "update": [[0, 0], [3, 4], [0, 0]],
    "max": [[0, 0], [3, 4], [0, 0]],
}


@pytest.mark.parametrize("kind", SCATTERS)
def test_rows_are_changed(kind):
    variable = tf.Variable(tf.zeros([3, 2]))
    slices = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1, 1]))
    given = getattr(variable, f"scatter_{kind}")(slices)
    np.testing.assert_array_equal(variable.numpy(), SCATTERS[kind])
    assert given is variable


def test_positions_are_changed_and_read_in_compiled_functions_too():
    variable = tf.Variable(tf.zeros([2, 2]))

    @tf.function
    def step(places):
        variable.scatter_nd_add(places, [1.0, 2.0])
        return variable.sparse_read([0]), variable.gather_nd(places)

    row, found = step(tf.constant([[0, 1], [1, 0]]))
    np.testing.assert_array_equal(row, [[0, 1]])
    np.testing.assert_array_equal(found, [1, 2])


def test_places_outside_are_refused():
    variable = tf.Variable(tf.zeros([3, 2]))
    for call in (
        lambda: variable.scatter_add(tf.IndexedSlices([[1.0, 1.0]], [3])),
        lambda: variable.scatter_nd_update([[0, -1]], [1.0]),
        lambda: variable.sparse_read([5]),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError):
            call()
    with pytest.raises(TypeError, match="IndexedSlices"):
        variable.scatter_add(tf.ones([3, 2]))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_are_variables_of_their_own(copied):
    with tf.name_scope("net"):
        variable = tf.Variable([1.0, 2.0], trainable=False, name="w")
    with tf.name_scope("elsewhere"):
        other = copied(variable)
    assert (other.name, other.trainable, other.dtype) == ("net/w:0", False, tf.float32)
    variable.assign([0.0, 0.0])
    np.testing.assert_array_equal(other.numpy(), [1.0, 2.0])


class Dense(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights = None

    @tf.function
    def __call__(self, x):
        if self.weights is None:
            self.weights = tf.Variable(tf.random.normal([x.shape[-1], 2]), name="w")
        return x @ self.weights


def test_functions_create_variables_in_their_first_call():
    dense = Dense()
    x = tf.ones([3, 4])
    first, second = dense(x), dense(x)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    dense.weights.assign(tf.ones([4, 2]))
    np.testing.assert_array_equal(dense(x), np.full((3, 2), 4.0))


def test_functions_that_create_variables_in_each_call_are_refused():
    @tf.function
    def step(x):
        return tf.Variable(x * 2.0) + 1.0

    step(tf.constant(1.0))  # the first call runs as Python
    with pytest.raises(ValueError, match="singleton"):
        step(tf.constant(1.0))


def test_concrete_functions_tell_what_they_take_and_give():
    dense = Dense()
    function = dense.__call__.get_concrete_function(tf.TensorSpec([None, 4], tf.float32))
    assert dense.weights.shape == [4, 2]
    (spec,), named = function.structured_input_signature
    assert (spec.shape.as_list(), spec.dtype, spec.name, named) == ([None, 4], tf.float32, "x", {})
    assert function.output_shapes.as_list() == [None, 2]
    assert function.output_dtypes == tf.float32
    assert [each.shape.as_list() for each in function.outputs] == [[None, 2]]
    assert function(tf.ones([7, 4])).shape == [7, 2]
    with pytest.raises(TypeError, match=r"Can not cast TensorSpec\(shape=\(7, 3\)"):
        function(tf.ones([7, 3]))
    with pytest.raises(TypeError, match="missing required argument: x"):
        function()


def test_concrete_functions_have_python_values_and_structures():
    @tf.function
    def scaled(x, n=2):
        return {"a": x * n, "b": tf.reduce_sum(x)}

    function = scaled.get_concrete_function(tf.constant([1.0, 2.0]), n=3)
    assert function.structured_outputs == {
        "a": tf.TensorSpec([2], tf.float32),
        "b": tf.TensorSpec([], tf.float32),
    }
    np.testing.assert_array_equal(function(tf.constant([1.0, 2.0]))["a"], [3.0, 6.0])
    assert "n (POSITIONAL_OR_KEYWORD): Literal[3]" in str(function)


def test_tracing_a_concrete_function_assigns_nothing():
    counter = tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def count(by):
        return counter.assign_add(by)

    function = count.get_concrete_function()
    assert counter.numpy() == 0
    function(tf.constant(2))
    assert counter.numpy() == 2


def test_methods_are_equal_at_each_access_and_of_their_object():
    first, second = Dense(), Dense()
    assert first.__call__ == first.__call__
    assert first.__call__ != second.__call__
    second(tf.ones([1, 4]))
    assert first.weights is None


def power(x, n):
    return x if n == 1 else x * power(x, n - 1)


def test_functions_that_call_themselves_are_converted():
    @tf.function
    def cube(x):
        return power(x, 3)

    assert cube(tf.constant(2.0)).numpy() == 8.0


def test_concrete_functions_take_the_tensors_alone_too():
    class Model:
        weight = 3.0

    @tf.function
    def evaluate(model, x, *, power=2):
        return model.weight * x**power

    function = evaluate.get_concrete_function(Model(), tf.TensorSpec([], name="x"))
    assert function(tf.constant(2.0)).numpy() == function(x=tf.constant(2.0)).numpy() == 12.0
    with pytest.raises(TypeError, match="missing required argument: x"):
        function()
    with pytest.raises(TypeError, match="traced for power=2, not 3"):
        function(x=tf.constant(2.0), power=3)
    with pytest.raises(AttributeError, match="jax.make_jaxpr"):
        function.graph  # noqa: B018


def test_concrete_functions_of_strings_and_of_any_rank_tell_their_outputs():
    doubled = tf.function(lambda a: a + a)
    strings = doubled.get_concrete_function(tf.TensorSpec([None], tf.string))
    assert strings.structured_outputs == tf.TensorSpec([None], tf.string)
    with pytest.warns(UserWarning, match="strings"):
        assert strings(tf.constant(["a"])).numpy().tolist() == [b"aa"]
    anything = doubled.get_concrete_function(tf.TensorSpec(None, tf.int32))
    assert anything.structured_outputs == tf.TensorSpec(None, tf.int32)


def test_functions_tell_what_they_were_traced_for():
    @tf.function
    def double(a):
        return a + a

    class Module(tf.Module):
        @tf.function
        def same(self, x):
            return x

    double(tf.constant(1))
    double(tf.constant(2))
    double(tf.constant([1.0]))
    assert double.pretty_printed_concrete_signatures() == (
        "Input Parameters:\n  a (POSITIONAL_OR_KEYWORD): TensorSpec(shape=(), dtype=tf.int32, "
        "name=None)\nOutput Type:\n  TensorSpec(shape=(), dtype=tf.int32, name=None)\n\n"
        "Input Parameters:\n  a (POSITIONAL_OR_KEYWORD): TensorSpec(shape=(1,), dtype=tf.float32, "
        "name=None)\nOutput Type:\n  TensorSpec(shape=(1,), dtype=tf.float32, name=None)"
    )
    assert double.experimental_get_tracing_count() == 2
    one, other = Module(), Module()
    one.same(tf.constant(1))
    assert "x (POSITIONAL" in one.same.pretty_printed_concrete_signatures()
    assert other.same.pretty_printed_concrete_signatures() == ""


def test_a_tensor_that_left_its_function_has_no_numpy():
    leaked = []

    @tf.function
    def leak(a):
        leaked.append(a + 1)
        return a

    leak(tf.constant(1))
    with pytest.raises(AttributeError, match="numpy"):
        leaked[0].numpy()
    with pytest.raises(TypeError, match="leak"):
        tf.function(lambda b: b + leaked[0])(tf.constant(1))


def test_signatures_of_any_rank_and_of_ragged_tensors():
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def double(x):
        return x * 2

    assert double(3).numpy() == 6.0 and double([1.0, 2.0]).numpy().tolist() == [2.0, 4.0]
    with pytest.raises(TypeError, match=r"double is to be given TensorSpec\(shape=<unknown>"):
        double(tf.constant("a"))
    with pytest.raises(TypeError, match="missing a required argument"):
        double()

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def largest(rt):
        return tf.math.reduce_max(rt, axis=-1)

    assert largest(tf.ragged.constant([[1, 2], [3]])).numpy().tolist() == [2, 3]


def test_tracing_compares_no_values():
    @tf.function
    def same(v):
        return v.read_value()

    @tf.function
    def doubled(rt):
        return rt + rt

    assert [same(tf.Variable(value)).numpy() for value in (1, 2)] == [1, 2]
    for rows in ([[1], [2, 3]], [[4, 5], []]):
        assert doubled(tf.ragged.constant(rows, tf.int32)).to_list() == [
            [2 * each for each in row] for row in rows
        ]


def test_a_concrete_function_may_read_the_file_that_its_argument_names(tmp_path):
    (tmp_path / "number").write_text("42")

    @tf.function
    def read(name):
        return {"number": tf.strings.to_number(tf.io.read_file(name))}

    function = read.get_concrete_function(tf.TensorSpec([], tf.string))
    with pytest.warns(UserWarning, match="holds strings"):
        found = function(tf.constant(str(tmp_path / "number")))
    assert float(found["number"]) == 42
    assert "<unknown>" in str(function)
    with pytest.raises(ValueError, match="not known before it is called"):
        _ = function.structured_outputs
    with pytest.raises((OSError, tf.errors.OpError), match="No such file"):
        function(tf.constant(str(tmp_path / "none")))


def test_concrete_functions_refuse_other_arguments():
    concrete = tf.function(lambda a, b=2.0: a * b).get_concrete_function(
        tf.TensorSpec([2], tf.float32)
    )
    assert str(concrete.function_type) == (
        "(a: TensorSpec(shape=(2,), dtype=tf.float32, name=None), b: Literal[2.0]) -> "
        "TensorSpec(shape=(2,), dtype=tf.float32, name=None)"
    )
    for other in (tf.constant([1, 2]), tf.constant(["a", "b"])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="as a was expected to be a float"):
            concrete(other)
    for other in ([1.0, 2.0], (1.0, 2.0), tf.ones([3]), 1.0):
        with pytest.raises(TypeError, match=r"takes|Can not cast"):
            concrete(other)
    assert concrete(np.ones(2, np.float32)).numpy().tolist() == [2.0, 2.0]
    scalar = tf.function(lambda a: a + 1).get_concrete_function(tf.TensorSpec([], tf.float32))
    assert scalar(5).numpy() == 6.0 and scalar(5).dtype == tf.float32
    spec = tf.data.DatasetSpec(tf.TensorSpec([], tf.int64))
    with pytest.raises(TypeError, match="takes no DatasetSpec"):
        tf.function(lambda a: a).get_concrete_function(spec)
