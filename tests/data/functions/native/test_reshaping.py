"""``reshape`` of what native operations give, in functions that stay compiled."""

import json

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset

ROWS = np.random.default_rng(0).integers(0, 256, (37, 24)).astype(np.uint8)


def images():
    return Dataset.from_tensor_slices([row.tobytes() for row in ROWS])


def compiled(dataset):
    assert "runs as Python" not in dataset.explain()
    return dataset


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32"])
@pytest.mark.parametrize(
    "shape_of",
    [
        lambda x, shape: x.reshape(*shape),
        lambda x, shape: x.reshape(shape),
        lambda x, shape: x.reshape(list(shape), order="C"),
        lambda x, shape: np.reshape(x, shape),
    ],
)
def test_raw_numbers(dtype, shape_of):
    size = 24 // np.dtype(dtype).itemsize
    shape = (size // 3, 3, 1)
    ds = compiled(images().map(lambda r: shape_of(dl.io.decode_raw(r, dtype), shape)))
    assert ds.element_spec == dl.TensorSpec(shape, dtype)
    wanted = ROWS.view(dtype).reshape(-1, *shape)
    np.testing.assert_array_equal(np.stack(list(ds)), wanted)
    np.testing.assert_array_equal(np.concatenate(list(ds.batch(5))), wanted)


def test_the_textbook_parse_function_is_compiled():
    def parse(record):
        features = {
            "image": dl.io.FixedLenFeature((), "string"),
            "label": dl.io.FixedLenFeature((), "int64"),
        }
        example = dl.io.parse_single_example(record, features)
        image = dl.io.decode_raw(example["image"], "uint8").reshape(4, 6, 1) / 255
        return image, example["label"]

    def record(i):
        image = dl.train.Feature(bytes_list=dl.train.BytesList(value=[ROWS[i].tobytes()]))
        label = dl.train.Feature(int64_list=dl.train.Int64List(value=[i]))
        features = dl.train.Features(feature={"image": image, "label": label})
        return dl.train.Example(features=features).SerializeToString()

    ds = compiled(Dataset.from_tensor_slices([record(i) for i in range(20)]).map(parse))
    assert ds.element_spec == (dl.TensorSpec((4, 6, 1)), dl.TensorSpec((), np.int64))
    found = [image for image, _ in ds.shuffle(20, seed=1).take(20)]
    assert sorted(x.tobytes() for x in found) == sorted(x.tobytes() for x, _ in ds)
    for image, label in ds:
        wanted = ROWS[label].reshape(4, 6, 1) / np.float32(255)
        np.testing.assert_allclose(image, wanted, rtol=1e-6)
    iterator = iter(ds)
    next(iterator)
    again = iter(ds)
    again.restore(json.loads(json.dumps(iterator.state())))
    assert [int(label) for _, label in again] == list(range(1, 20))


@pytest.mark.parametrize("size", [0, 7, 9])
def test_a_row_of_another_size_is_an_error_in_its_place(size):
    rows = [b"12345678", b"abcdefgh", b"x" * size, b"ABCDEFGH"]
    ds = compiled(
        Dataset.from_tensor_slices(rows).map(lambda r: dl.io.decode_raw(r, "uint8").reshape(2, 4))
    )
    iterator = iter(ds)
    assert [next(iterator).tobytes() for _ in range(2)] == rows[:2]
    with pytest.raises(ValueError, match=rf"an array of {size} values .* shape \(2, 4\)") as raised:
        next(iterator)
    assert raised.value.element_index == 2
    assert next(iterator).tobytes() == rows[3]


def test_images_of_sizes_that_are_not_known():
    encoded = [dl.image.encode_png(row.reshape(4, 6, 1)) for row in ROWS[:5]]
    ds = compiled(
        Dataset.from_tensor_slices(encoded).map(
            lambda r: dl.image.decode_png(r, channels=1).reshape(24) + 1
        )
    )
    np.testing.assert_array_equal(np.stack(list(ds)), ROWS[:5] + np.uint8(1))


def test_strings():
    ds = compiled(
        Dataset.from_tensor_slices([b"a b c d", b"e f g h"]).map(
            lambda r: dl.strings.split(r).reshape(2, 2)
        )
    )
    assert [x.tolist() for x in ds] == [[[b"a", b"b"], [b"c", b"d"]], [[b"e", b"f"], [b"g", b"h"]]]
    pairs = Dataset.from_tensor_slices([[b"a", b"b"], [b"c", b"d"]])
    assert [x.tolist() for x in compiled(pairs.map(lambda p: p.reshape(-1, 1)))] == [
        [[b"a"], [b"b"]],
        [[b"c"], [b"d"]],
    ]
    with pytest.raises(ValueError, match="cannot reshape"):
        pairs.map(lambda p: p.reshape(3))


def test_without_a_fixed_shape_it_says_what_to_do():
    with pytest.warns(UserWarning, match=r"runs as Python.*decode_raw fixed_length=, or .reshape"):
        ds = images().map(lambda r: dl.io.decode_raw(r, "uint8") / 255)
    assert "fixed_length=, or .reshape(...)" in ds.explain()
    assert ds.element_spec.dtype == np.float32
    np.testing.assert_allclose(np.stack(list(ds)), ROWS / np.float32(255), rtol=1e-6)
