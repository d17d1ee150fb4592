"""Functions over elements whose shapes vary, a shorter last batch above all."""

import jax.numpy as jnp
import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec


def lists(ds):
    return [row.tolist() for row in ds]


def test_a_python_function_of_a_shorter_last_batch():
    ds = Dataset.range(10).batch(4).map(lambda b: np.sort(np.asarray(b)))
    assert lists(ds) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert ds.element_spec.shape == (None,)


def test_a_slice_promises_no_more_rows_than_there_are():
    ds = Dataset.range(8).batch(5).map(lambda x: x[:5])
    assert ds.element_spec.shape == (None,)
    assert lists(ds.map(lambda x: x + 1)) == [[1, 2, 3, 4, 5], [6, 7, 8]]


def test_rows_that_only_long_arguments_have_are_not_promised_to_be_none():
    def starts(x):
        return x[: max(0, x.shape[0] - 16) : 8]

    rows = Dataset.from_generator(
        lambda: (np.arange(size, dtype=np.float32) for size in (40, 10, 24)),
        output_signature=TensorSpec((None,), np.float32),
    )
    ds = rows.map(starts)
    assert ds.element_spec.shape == (None,)
    assert lists(ds) == [[0, 8, 16], [], [0]]


def test_a_shape_whose_result_breaks_the_promise_fails_in_its_place():
    def odd(x):
        return jnp.zeros(3) if x.shape[0] == 4 else jnp.zeros(2)

    iterator = iter(Dataset.range(9).batch(4).map(odd))
    for index in (0, 1):
        with pytest.raises(ValueError, match="element_spec says") as caught:
            next(iterator)
        assert caught.value.element_index == index
    assert next(iterator).tolist() == [0, 0]


def test_unbatching_shows_the_error_of_an_element_with_unknown_dimensions():
    def generator():
        yield np.zeros(3), np.zeros((3, 1))
        yield "no number", np.zeros((3, 1))
        yield np.ones(3), np.ones((3, 1))

    signature = (TensorSpec((None,), np.float64), TensorSpec((3, 1), np.float64))
    iterator = iter(Dataset.from_generator(generator, output_signature=signature).unbatch())
    assert [float(next(iterator)[0]) for _ in range(3)] == [0, 0, 0]
    with pytest.raises(TypeError, match="has dtype string"):
        next(iterator)
    assert [float(a) for a, _ in iterator] == [1, 1, 1]


def counted_up(v):
    return np.arange(int(v) + 1), np.bool_(True)


@pytest.mark.parametrize("workers", [None, 2])
def test_results_of_a_python_function_may_vary_in_shape(workers):
    ds = Dataset.range(4).map(counted_up, num_parallel_calls=workers)
    assert ds.element_spec == (TensorSpec((None,), np.int64), TensorSpec((), np.bool_))
    ds = ds.map(lambda x, _: x)
    assert lists(ds) == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert lists(ds.padded_batch(3)) == [[[0, 0, 0], [0, 1, 0], [0, 1, 2]], [[0, 1, 2, 3]]]
    assert [batch.to_list() for batch in ds.ragged_batch(3)] == [
        [[0], [0, 1], [0, 1, 2]],
        [[0, 1, 2, 3]],
    ]
    iterator = iter(ds.skip(1).batch(2))
    with pytest.raises(ValueError, match=r"cannot stack .* shapes: leaf 0 of element 1 has .*\(3,"):
        next(iterator)
    assert lists(iterator) == [[[0, 1, 2, 3]]]


def test_dimensions_that_do_not_vary_at_first_stay_what_they_were():
    ds = Dataset.range(6).map(lambda v: np.zeros((3, 2) if int(v) < 4 else (4, 2)))
    assert ds.element_spec.shape == (3, 2)
    iterator = iter(ds)
    for _ in range(4):
        next(iterator)
    with pytest.raises(ValueError, match="element_spec says .* output_signature can have None"):
        next(iterator)
    rank = Dataset.range(6).map(lambda v: np.zeros((2,) * (1 + int(v))))
    assert rank.element_spec.shape == (2,)


def test_a_second_element_that_fails_is_an_error_in_its_place():
    def inverse(v):
        return np.full(2, 1 / (int(v) - 1)) if int(v) != 1 else [][0]

    iterator = iter(Dataset.range(3).map(inverse))
    assert next(iterator).tolist() == [-1, -1]
    with pytest.raises(IndexError) as caught:
        next(iterator)
    assert caught.value.element_index == 1
    assert next(iterator).tolist() == [1, 1]
