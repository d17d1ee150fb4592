"""``RaggedArray`` by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drumline as dl
from drumline.data.elements.ragged import joined, uniform

rows = st.lists(st.lists(st.integers(-5, 5), max_size=6), max_size=8)


def ragged(lists):
    return dl.RaggedArray.from_rows([np.array(row, np.int32) for row in lists] or [], np.int32)


@given(rows, st.data())
def test_like_lists(lists, data):
    array = ragged(lists)
    n = len(lists)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    index = data.draw(st.lists(st.integers(0, n - 1), max_size=9)) if n else []
    part = array[start:stop]
    assert array.to_list() == lists and [row.tolist() for row in array] == lists
    assert part.to_list() == lists[start:stop]
    assert part.row_splits.tolist()[0] == 0 and part.row_splits[-1] == len(part.values)
    assert array[np.array(index, int)].to_list() == [lists[i] for i in index]
    assert part[np.arange(len(part)) % 2 == 0].to_list() == lists[start:stop][::2]
    assert joined([part, array]).to_list() == lists[start:stop] + lists
    assert (part == ragged(lists[start:stop])) and (array == ragged(lists + [[9]])) is False
    width = max(map(len, lists), default=0)
    assert array.to_tensor(7).tolist() == [row + [7] * (width - len(row)) for row in lists]
    assert array.to_tensor(shape=(None, 3)).tolist() == [(row + [0] * 3)[:3] for row in lists]


def test_rows_of_rows():
    lists = [[[1, 2], [3]], [], [[4, 5, 6]]]
    array = dl.RaggedArray.from_rows(lists)
    assert (array.shape, array.ragged_rank, array.dtype) == ((3, None, None), 2, np.int32)
    assert array.to_list() == lists
    assert array[np.array([2, 0])].to_list() == [lists[2], lists[0]]
    assert array[0] == dl.RaggedArray.from_rows([[1, 2], [3]])
    assert array.to_tensor(-1).tolist() == [
        [[1, 2, -1], [3, -1, -1]],
        [[-1, -1, -1], [-1, -1, -1]],
        [[4, 5, 6], [-1, -1, -1]],
    ]
    assert array.flat_values.tolist() == [1, 2, 3, 4, 5, 6]


def test_bytes_and_rows_with_inner_dimensions():
    words = dl.RaggedArray.from_rows([["a", "b"], [], ["c"]])
    assert words.to_tensor().tolist() == [[b"a", b"b"], [b"", b""], [b"c", b""]]
    assert words[[2, 0]].to_list() == [[b"c"], [b"a", b"b"]]
    boxes = dl.RaggedArray.from_rows([np.ones((2, 4)), np.zeros((1, 4))])
    assert boxes.shape == (2, None, 4)
    assert boxes.to_tensor().shape == (2, 2, 4)
    assert boxes.to_tensor().sum() == 8


def test_what_is_no_ragged_array_says_so():
    with pytest.raises(ValueError, match="rise from 0 to 3"):
        dl.RaggedArray([1, 2, 3], [0, 2, 1, 3])
    with pytest.raises(ValueError, match="rise from 0 to 3"):
        dl.RaggedArray([1, 2, 3], [0, 2])
    with pytest.raises(ValueError, match="integers"):
        dl.RaggedArray([1, 2, 3], [0.0, 3.0])
    with pytest.raises(ValueError, match="to_tensor"):
        np.asarray(dl.RaggedArray([1, 2, 3], [0, 3]))
    with pytest.raises(IndexError):
        dl.RaggedArray([1, 2, 3], [0, 3])[1]
    with pytest.raises(IndexError, match="mask"):
        dl.RaggedArray([1, 2, 3], [0, 3])[np.array([True, False])]


def test_uniform_rows_of_a_dense_array():
    assert uniform(np.arange(6).reshape(2, 3)).to_list() == [[0, 1, 2], [3, 4, 5]]
    assert uniform(np.zeros((2, 0))).to_list() == [[], []]
