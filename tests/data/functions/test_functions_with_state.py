"""Random keys and Keras layers inside map functions."""

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

from drumline.data import Dataset


def test_a_key_the_function_closes_over():
    key = jax.random.key(0)

    def draw(v):
        return jax.random.uniform(jax.random.fold_in(key, v), dtype=jnp.float32)

    found = [float(v) for v in Dataset.range(4).map(draw)]
    assert found == [float(draw(v)) for v in range(4)]


def test_keys_are_no_elements():
    key = jax.random.key(0)
    with pytest.raises(TypeError, match="key_data"):
        Dataset.range(4).map(lambda v: jax.random.fold_in(key, v))


def test_a_keras_layer_with_a_seed_is_compiled_and_stays_usable():
    layer = keras.layers.RandomFlip(seed=1)
    state = layer.generator.state.numpy().tolist()
    images = Dataset.from_tensor_slices(np.arange(640, dtype=np.float32).reshape(40, 4, 4, 1))
    flipped = images.map(lambda x: layer(x, training=True))
    assert "runs as Python" not in flipped.explain()
    assert len({(row - row.min()).tobytes() for row in flipped}) > 1
    assert layer.generator.state.numpy().tolist() == state
    assert np.asarray(layer(np.ones((4, 4, 1), np.float32))).shape == (4, 4, 1)


def test_a_keras_layer_without_state_is_compiled():
    ds = Dataset.from_tensor_slices(np.ones((3, 2), np.float32)).map(keras.layers.Rescaling(0.5))
    assert "runs as Python" not in ds.explain()
    assert [row.tolist() for row in ds] == [[0.5, 0.5]] * 3


def test_an_index_whose_mode_says_clip_is_not_out_of_bounds():
    table = jnp.arange(4.0)
    ds = Dataset.range(6).map(lambda v: table.at[v].get(mode="clip"))
    assert [float(v) for v in ds] == [0, 1, 2, 3, 3, 3]


def test_the_parts_of_a_complex128_are_float64():
    ds = Dataset.from_tensor_slices(np.full(2, 1e-300 + 1j)).map(lambda z: (z.real, abs(z)))
    assert [spec.dtype for spec in ds.element_spec] == [np.float64] * 2
    assert next(iter(ds))[0] == 1e-300


@pytest.mark.parametrize("threads", [None, 2])
def test_reduce_takes_as_many_elements_at_once_as_the_function_does(threads):
    def looped(total, value):
        return total + jax.lax.fori_loop(0, 3, lambda _, part: part + value, np.float32(0))

    ds = Dataset.from_tensor_slices(np.ones(1000, np.float32))
    if threads:
        ds = ds.map(lambda value: value, num_parallel_calls=threads)
    assert ds.reduce(np.float32(0), looped) == 3000
    large = Dataset.from_tensor_slices(np.ones((40, 1 << 20), np.float32))
    assert large.reduce(np.float32(0), lambda total, value: total + value.max()) == 40


def test_reduce_names_the_element_that_failed_in_a_later_part_of_a_block():
    def looped(total, value):
        rest = jax.lax.fori_loop(0, 3, lambda _, part: part + value, 0)
        return total + 12 // (700 - value) + rest

    ds = Dataset.from_tensor_slices(np.arange(1000, dtype=np.int32))
    with pytest.raises(ZeroDivisionError) as raised:
        ds.reduce(np.int32(0), looped)
    assert any("element 700" in note for note in raised.value.__notes__)
