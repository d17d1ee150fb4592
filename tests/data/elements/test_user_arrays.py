"""Arrays that the user's code writes into never change what a dataset yields."""

import numpy as np

from drumline.data import Dataset, TensorSpec

PAIR = TensorSpec((2,), np.float64)


def test_a_generator_may_fill_one_array_again_and_again():
    def generator():
        row = np.zeros(2)
        for i in range(6):
            row[:] = i
            yield row

    (batch,) = Dataset.from_generator(generator, output_signature=PAIR).batch(6)
    assert batch[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_so_may_a_python_function():
    row = np.zeros(2)

    def fill(v):
        row[:] = int(v)
        return row

    batches = list(Dataset.range(40).map(fill).batch(20))
    assert np.concatenate(batches)[:, 0].tolist() == list(range(40))


def test_constants_are_what_they_were_when_map_was_called():
    table = np.zeros(2)
    returned = Dataset.range(2).map(lambda v: (v, table))
    added = Dataset.range(2).map(lambda v: v + table)
    table[:] = 7
    assert [element[1].tolist() for element in returned] == [[0, 0], [0, 0]]
    assert [row.tolist() for row in added] == [[0, 0], [1, 1]]
