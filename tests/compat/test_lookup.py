"""``tf.lookup``: in maps, compiled functions, loops, checkpoints; without TensorFlow."""

import warnings

import numpy as np
import pytest

from drumline.compat import tf

lookup = tf.lookup
WORDS = ["a", "b", "c"]


def static(values=(7, 8, 9), kind=tf.int64, default=-1):
    pairs = lookup.KeyValueTensorInitializer(WORDS, list(values), value_dtype=kind)
    return lookup.StaticHashTable(pairs, default)


def numbers(keys=(5, 7, 2**40), values=(1.5, 2.5, 3.5), kind=tf.float32):
    keys = tf.constant(list(keys), tf.int64)
    pairs = lookup.KeyValueTensorInitializer(keys, tf.constant(list(values), kind))
    return lookup.StaticHashTable(pairs, -1)


def rows(dataset):
    return [np.asarray(each).tolist() for each in dataset]


def is_compiled(dataset):
    from drumline.compat.values.boundary import unwrap

    return "Python" not in str(unwrap(dataset).explain())


def test_strings_are_looked_up_in_a_compiled_map():
    table = static()
    words = tf.data.Dataset.from_tensor_slices([["a", "z"], ["c", "a"]])
    mapped = words.map(lambda x: table.lookup(x) * 2)
    assert rows(mapped) == [[14, -2], [18, 14]]
    assert mapped.element_spec == tf.TensorSpec([2], tf.int64)
    assert is_compiled(mapped)


def test_values_may_be_strings_in_a_compiled_map():
    pairs = lookup.KeyValueTensorInitializer(tf.constant([0, 1], tf.int64), ["no", "yes"])
    table = lookup.StaticHashTable(pairs, "?")
    mapped = tf.data.Dataset.range(3).map(lambda x: table[x])
    assert rows(mapped) == [b"no", b"yes", b"?"]
    assert mapped.element_spec == tf.TensorSpec([], tf.string)
    assert is_compiled(mapped)


def test_wide_keys_keep_their_bits_in_a_map():
    table = numbers(values=(2**50, 2, 2**51), kind=tf.int64)
    keys = tf.data.Dataset.from_tensor_slices(tf.constant([5, 2**40, 2**40 + 1], tf.int64))
    assert rows(keys.map(table.lookup)) == [2**50, 2**51, -1]


def test_split_words_are_looked_up_in_a_map():
    table = static(values=(0, 1, 2))
    lines = tf.data.Dataset.from_tensor_slices(["a b", "", "c zz a"])
    mapped = lines.map(lambda x: table[tf.strings.split(x)])
    assert rows(mapped) == [[0, 1], [], [2, -1, 0]]
    assert is_compiled(mapped)
    batched = lines.batch(2).map(lambda x: table[tf.strings.split(x)])
    assert [each.to_list() for each in batched] == [[[0, 1], []], [[2, -1, 0]]]


def test_vocabulary_tables_are_compiled_in_maps_and_agree_with_eager_code():
    pairs = lookup.KeyValueTensorInitializer(WORDS, tf.range(3, dtype=tf.int64))
    table = lookup.StaticVocabularyTable(pairs, 4)
    words = tf.constant(["b", "x", "y", "z", "a"])
    mapped = tf.data.Dataset.from_tensor_slices(words).map(table.lookup)
    assert rows(mapped) == table[words].numpy().tolist()
    assert is_compiled(mapped)


def test_functions_with_numbers_stay_compiled():
    table = numbers()

    @tf.function
    def step(x):
        return table[x] + 1.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = step(tf.constant([7, 6, 2**40], tf.int64))
    assert found.numpy().tolist() == [3.5, 0.0, 4.5]


def test_steps_of_32_bits_find_no_wider_keys():
    import jax
    import jax.numpy as jnp

    table = numbers(keys=(2**32 + 5, 7, 9))
    found = jax.jit(lambda x: table.lookup(x)._value)(jnp.asarray([5, 7, 9]))
    assert np.asarray(found).tolist() == [-1.0, 2.5, 3.5]


def test_steps_of_32_bits_refuse_wider_values():
    import jax
    import jax.numpy as jnp

    table = numbers(values=(2**50, 2, 3), kind=tf.int64)
    with pytest.raises(TypeError, match="64 bits"):
        jax.jit(lambda x: table.lookup(x)._value)(jnp.asarray([5, 7]))


def test_keys_may_be_in_rows_of_rows():
    found = static()[tf.ragged.constant([[["a"], []], [["c", "z"]]])]
    assert found.to_list() == [[[7], []], [[9, -1]]]


def test_tables_without_keys_give_the_default():
    pairs = lookup.KeyValueTensorInitializer(tf.constant([], tf.int64), tf.constant([], tf.int64))
    table = lookup.StaticHashTable(pairs, 3)
    assert table[tf.constant([[1, 2]], tf.int64)].numpy().tolist() == [[3, 3]]
    run = tf.function(lambda x: table[x])
    assert run(tf.constant([1, 2], tf.int64)).numpy().tolist() == [3, 3]


def test_functions_that_change_a_table_change_it_at_each_call():
    table = lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    @tf.function
    def count(words):
        table.insert(words, table.lookup(words) + 1)

    with pytest.warns(UserWarning, match="runs as Python"):
        count(tf.constant(["a", "b"]))
    count(tf.constant(["a", "b"]))
    count(tf.constant(["a", "b"]))
    assert table.lookup(tf.constant(["a", "z"])).numpy().tolist() == [2, -1]


def test_a_function_without_arguments_sees_what_the_table_holds_now():
    table = lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0)
    read = tf.function(lambda: table.lookup(tf.constant([1], tf.int64)))
    with pytest.warns(UserWarning, match="runs as Python"):
        assert read().numpy().tolist() == [-1.0]
    table.insert(tf.constant([1], tf.int64), [2.0])
    assert read().numpy().tolist() == [2.0]


def test_maps_see_what_a_table_holds_when_they_run():
    table = lookup.experimental.DenseHashTable(
        tf.string, tf.float32, [0.0, 0.0], empty_key="", deleted_key="$"
    )
    mapped = tf.data.Dataset.from_tensor_slices(WORDS).map(lambda x: table.lookup(x))
    table.insert(tf.constant(["b"]), [[1.0, 2.0]])
    assert rows(mapped) == [[0, 0], [1, 2], [0, 0]]
    assert is_compiled(mapped)
    table.erase(tf.constant(["b"]))
    assert rows(mapped) == [[0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("value", [3.25, [1.0, 2.0]])
def test_checkpoints_restore_what_a_table_held(tmp_path, value):
    def made():
        return lookup.experimental.MutableHashTable(tf.string, tf.float32, np.zeros_like(value))

    table = made()
    table.insert(tf.constant([b"\xff", b"b"]), [value, value])
    path = tf.train.Checkpoint(table=table, static=static()).save(str(tmp_path / "ckpt"))
    other = made()
    other.insert(tf.constant(["gone"]), [value])
    tf.train.Checkpoint(table=other, static=static()).restore(path).assert_consumed()
    assert int(other.size()) == 2
    assert other.lookup(tf.constant([b"\xff", b"gone"])).numpy().tolist() == [
        value,
        np.zeros_like(value).tolist(),
    ]


def test_tables_that_are_not_to_be_saved_stay_as_they_are(tmp_path):
    table = lookup.experimental.MutableHashTable(tf.string, tf.int64, -1, checkpoint=False)
    table.insert(["a"], [1])
    checkpoint = tf.train.Checkpoint(table=table)
    path = checkpoint.save(str(tmp_path / "ckpt"))
    table.insert(["a"], [2])
    checkpoint.restore(path)
    assert table.lookup(["a"]).numpy().tolist() == [2]


def test_saved_models_look_numbers_up(tmp_path):
    module = tf.Module()
    table = numbers(keys=(5, 7, 9))
    module.run = tf.function(lambda x: table[x], input_signature=[tf.TensorSpec([None], tf.int64)])
    tf.saved_model.save(module, str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    assert loaded.run(tf.constant([9, 1], tf.int64)).numpy().tolist() == [3.5, -1.0]


def test_saved_models_refuse_tables_that_change(tmp_path):
    module = tf.Module()
    table = lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0)
    module.run = tf.function(
        lambda x: table.lookup(x), input_signature=[tf.TensorSpec([None], tf.int64)]
    )
    with pytest.raises(Exception, match="lookup table that changes"):
        tf.saved_model.save(module, str(tmp_path / "model"))


def test_former_tables_have_initializers():
    v1 = tf.compat.v1
    table = v1.lookup.StaticHashTable(v1.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    assert table.initializer is None and v1.tables_initializer() is None
    assert table.lookup(tf.constant(["a"])).numpy().tolist() == [1]
