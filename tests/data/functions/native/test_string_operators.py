"""``[]``, ``==`` and ``!=`` on strings in functions given to ``map``."""

from __future__ import annotations

import operator

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset

PATHS = [f"/flowers/{kind}/{i}.jpg" for i in range(3) for kind in ("daisy", "roses")]
PARTS = [path.encode().split(b"/") for path in PATHS]
NAMES = np.array(["daisy", "roses"])


def paths():
    return Dataset.from_tensor_slices(PATHS)


def parts(path):
    return dl.strings.split(path, "/")


@pytest.mark.parametrize(
    "one_hot",
    [
        lambda kind: kind == NAMES,
        lambda kind: operator.eq(NAMES, kind),
        lambda kind: ~(kind != ["daisy", b"roses"]),
        lambda kind: dl.strings.equal(kind, NAMES),
    ],
)
def test_labels_of_paths_need_no_python(one_hot):
    labelled = paths().map(lambda path: jnp.argmax(one_hot(parts(path)[-2])))
    assert list(labelled) == [0, 1] * 3
    assert "native strings.split, [-2], strings." in labelled.explain()


numbers = st.none() | st.integers(-6, 6)
keys = st.integers(-6, 6) | st.builds(slice, numbers, numbers, numbers.filter(lambda n: n != 0))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), min_size=1), keys)
def test_indices_find_what_pythons_do(rows, key):
    ds = Dataset.from_tensor_slices([",".join(row) for row in rows])
    found = iter(ds.map(lambda text: dl.strings.split(text, ",")[key]).ignore_errors())
    for row in rows:
        array = np.array([item.encode() for item in row], object)
        try:
            expected = array[key]
        except IndexError:
            continue
        np.testing.assert_array_equal(next(found), expected)
    assert next(found, None) is None


def test_indices_of_arrays_of_one_shape():
    pairs = paths().batch(2)

    def function(pair):
        return (
            pair[0],
            pair[None][0, 1],
            pair[..., np.newaxis],
            np.expand_dims(pair, -1),
            pair[::-1],
        )

    made = pairs.map(function)
    assert "runs as Python" not in made.explain()
    for first, second, column, same, turned in made:
        assert column.tolist() == same.tolist() == [[first], [second]]
        assert turned.tolist() == [second, first]


def test_strings_are_broadcast():
    table = paths().batch(3).map(lambda path: path[:, None] == ["/flowers/roses/0.jpg", PATHS[4]])
    first, second = (batch.tolist() for batch in table)
    assert first == [[False, False], [True, False], [False, False]]
    assert second == [[False, False], [False, True], [False, False]]
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\) do not go together"):
        dl.strings.equal(["a", "b"], ["a", "b", "c"])


def test_a_place_that_is_not_there_is_named():
    iterator = iter(Dataset.from_tensor_slices(["a/b", "c"]).map(lambda path: parts(path)[1]))
    assert next(iterator) == b"b"
    with pytest.raises(
        IndexError, match=r"\[1\]: there is no such place among 1 strings"
    ) as caught:
        next(iterator)
    assert "element 1" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "use",
    [
        lambda ds: ds.map(lambda path: 1 if path == "x" else 2),
        lambda ds: ds.map(lambda path: (path == NAMES, path.upper())),
        lambda ds: ds.filter(lambda path: bool(parts(path)[1] == "x")),
        lambda ds: ds.reduce(0, lambda count, path: count + (path == "x")),
    ],
)
def test_python_would_find_str_unequal_to_all(use):
    with pytest.raises(TypeError, match=r"runs as Python.*equal to no str: compare them with b'"):
        use(paths())


def test_bytes_are_compared_in_python_too():
    assert list(paths().map(lambda path: 1 if path == PATHS[1].encode() else 2)) == [2, 1, *[2] * 4]
