"""Cropping, padding, mirroring, turning: on arrays, in compiled functions and natively."""

import jax
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from tests.image.samples import encoded, picture

IMAGE = picture(9, 6)

ARRANGED = {
    "flip_left_right": ((), IMAGE[:, ::-1]),
    "flip_up_down": ((), IMAGE[::-1]),
    "transpose": ((), IMAGE.swapaxes(0, 1)),
    "rot90": ((3,), np.rot90(IMAGE, 3)),
    "crop_to_bounding_box": ((2, 1, 4, 3), IMAGE[2:6, 1:4]),
    "pad_to_bounding_box": ((1, 2, 12, 10), np.pad(IMAGE, [(1, 2), (2, 2), (0, 0)])),
    "central_crop": ((0.5,), IMAGE[2:7, 1:5]),
    "resize_with_crop_or_pad": ((4, 9), np.pad(IMAGE[2:6], [(0, 0), (1, 2), (0, 0)])),
}


@pytest.mark.parametrize("name", ARRANGED)
def test_arrays_tracers_and_images_of_varying_shape(name):
    arguments, wanted = ARRANGED[name]
    function = getattr(dl.image, name)
    contents = [encoded(IMAGE, "PNG"), encoded(IMAGE.swapaxes(0, 1), "PNG")]

    eager = function(IMAGE, *arguments)
    batch = function(np.stack([IMAGE, IMAGE]), *arguments)
    compiled = jax.jit(lambda image: function(image, *arguments))(IMAGE)
    traced = Dataset.from_tensor_slices(contents[:1]).map(
        lambda c: function(dl.image.decode_png(c, 3), *arguments)
    )

    for made in (eager, batch[1], compiled, next(iter(traced))):
        np.testing.assert_array_equal(made, wanted)


def test_quarters_that_an_element_says():
    ks = np.arange(-4, 9)
    for image in (IMAGE[:6], IMAGE):
        contents = [encoded(image, "PNG")] * len(ks)
        data = Dataset.from_tensor_slices((contents, ks)).map(
            lambda c, k: dl.image.rot90(dl.image.decode_png(c, 3), k)
        )
        arrays = Dataset.from_tensor_slices(ks).map(lambda k, i=image: dl.image.rot90(i, k))
        assert "as Python" not in data.explain() + arrays.explain()
        for k, found, other in zip(ks, data, arrays, strict=True):
            np.testing.assert_array_equal(found, np.rot90(image, k))
            np.testing.assert_array_equal(other, found)


def test_all_quarters():
    for k in range(-4, 9):
        np.testing.assert_array_equal(dl.image.rot90(IMAGE, k), np.rot90(IMAGE, k))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
def test_images_of_varying_shape_keep_their_type(dtype):
    rows = [np.arange(h * w * 3).reshape(h, w, 3).astype(dtype) for h, w in ((4, 5), (6, 3))]
    data = Dataset.from_generator(
        lambda: iter(rows), output_signature=dl.TensorSpec((None, None, 3), dtype)
    ).map(lambda image: dl.image.flip_left_right(dl.image.rot90(image)))
    for made, row in zip(data, rows, strict=True):
        assert made.dtype == dtype
        np.testing.assert_array_equal(made, np.rot90(row)[:, ::-1])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("crop_to_bounding_box", (2, 1, 8, 3)), ("pad_to_bounding_box", (5, 0, 12, 6))],
)
def test_windows_that_do_not_fit(name, arguments):
    function = getattr(dl.image, name)
    with pytest.raises(ValueError, match=f"{name}: .* fit|{name}: .* do not lie"):
        function(IMAGE, *arguments)
    data = Dataset.from_tensor_slices([encoded(IMAGE, "PNG")])
    data = data.map(lambda c: function(dl.image.decode_png(c, 3), *arguments))
    with pytest.raises(ValueError, match=f"{name}: the window of .* does not fit"):
        list(data)


def test_windows_that_an_element_says_must_lie_in_the_image():
    tops = np.array([0, 5, 6, -1])
    data = Dataset.from_tensor_slices(tops).map(
        lambda top: dl.image.crop_to_bounding_box(IMAGE, top, 1, 4, 3)
    )
    assert "as Python" not in data.explain()
    iterator = iter(data)
    for top in (0, 5):
        np.testing.assert_array_equal(next(iterator), IMAGE[top : top + 4, 1:4])
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 9 at test_geo"):
            next(iterator)


def test_margins_that_an_element_says_must_leave_room():
    tops, lefts = np.array([0, 3, 1, 4, -1, 0]), np.array([4, 0, 2, 0, 0, 5])
    data = Dataset.from_tensor_slices((tops, lefts)).map(
        lambda top, left: dl.image.pad_to_bounding_box(IMAGE, top, left, 12, 10)
    )
    assert data.element_spec.shape == (12, 10, 3)
    assert "as Python" not in data.explain()
    iterator = iter(data)
    for top, left in zip(tops[:3], lefts, strict=False):
        margins = [(top, 3 - top), (left, 4 - left), (0, 0)]
        np.testing.assert_array_equal(next(iterator), np.pad(IMAGE, margins))
    for axis in (0, 0, 1):
        with pytest.raises(IndexError, match=f"out of bounds for axis {axis} .* at test_geo"):
            next(iterator)
    with pytest.raises(ValueError, match="an image of 9 x 6 does not fit into 8 x 10"):
        next(
            iter(
                Dataset.range(1).map(lambda top: dl.image.pad_to_bounding_box(IMAGE, top, 0, 8, 10))
            )
        )


def test_heights_that_an_element_says():
    heights = np.array([10, 12])
    data = Dataset.from_tensor_slices(heights).map(
        lambda height: (
            dl.image.pad_to_bounding_box(IMAGE, 1, 2, height, 10),
            dl.image.crop_to_bounding_box(IMAGE, 1, 2, height - 8, 3),
        )
    )
    assert "as Python" not in data.explain()
    for height, (padded, cropped) in zip(heights, data, strict=True):
        wanted = np.pad(IMAGE, [(1, height - 10), (2, 2), (0, 0)])
        np.testing.assert_array_equal(padded, wanted)
        np.testing.assert_array_equal(cropped, IMAGE[1 : height - 7, 2:5])


def test_images_of_which_the_height_alone_varies():
    images = [IMAGE, IMAGE[:4]]
    spec = dl.TensorSpec((None, 6, 3), "uint8")
    data = Dataset.from_generator(lambda: iter(images), output_signature=spec)
    data = data.map(dl.image.flip_left_right)
    assert data.element_spec == spec
    for made, image in zip(data, images, strict=True):
        np.testing.assert_array_equal(made, image[:, ::-1])


def test_random_crops_are_parts_of_the_image():
    marked = np.arange(9 * 6).reshape(9, 6, 1).astype(np.uint8)
    data = Dataset.from_tensors(encoded(marked[..., 0], "PNG")).repeat(40)
    data = data.map(lambda c: dl.image.random_crop(dl.image.decode_png(c, 1), (4, 3, 1)))
    corners = set()
    for crop in data:
        corner = int(crop[0, 0, 0])
        corners.add(corner)
        np.testing.assert_array_equal(
            crop, marked[corner // 6 : corner // 6 + 4, corner % 6 : corner % 6 + 3]
        )
    assert len(corners) > 10
    assert dl.image.random_crop(marked, (4, 3, 1)).shape == (4, 3, 1)
    with pytest.raises(ValueError, match="does not fit"):
        dl.image.random_crop(marked, (10, 3, 1))


@pytest.mark.parametrize("name", ["random_flip_left_right", "random_flip_up_down"])
def test_random_flips_are_by_chance(name):
    flipped = IMAGE[:, ::-1] if name.endswith("right") else IMAGE[::-1]
    data = Dataset.from_tensors(encoded(IMAGE, "PNG")).repeat(30)
    data = data.map(lambda c: getattr(dl.image, name)(dl.image.decode_png(c, 3)))
    images = list(data)
    flips = [np.array_equal(image, flipped) for image in images]
    assert 5 < sum(flips) < 25
    assert all(np.array_equal(i, IMAGE) for i, f in zip(images, flips, strict=True) if not f)


@pytest.mark.thorough
def test_random_windows_keep_to_their_ranges():
    def window(_):
        return dl.image.sample_distorted_bounding_box(
            (80, 120, 3), np.array([[[0.2, 0.2, 0.7, 0.8]]], np.float32), area_range=(0.2, 0.6)
        )

    ratios, areas = [], []
    for begin, size, boxes in Dataset.range(100).map(window):
        (top, left), (height, width) = begin[:2], size[:2]
        assert (begin[2], size[2]) == (0, -1)
        assert 0 <= top <= 80 - height and 0 <= left <= 120 - width
        np.testing.assert_allclose(
            boxes[0, 0],
            [top / 80, left / 120, (top + height) / 80, (left + width) / 120],
            rtol=1e-6,
        )
        ratios.append(width / height)
        areas.append(height * width / (80 * 120))
        low, high = (
            np.maximum([top, left], [16, 24]),
            np.minimum([top + height, left + width], [56, 96]),
        )
        assert np.prod(np.maximum(high - low, 0)) >= 0.1 * 40 * 72 * 0.999
    assert min(areas) >= 0.19 and max(areas) <= 0.61 and np.std(areas) > 0.08
    assert min(ratios) > 0.7 and max(ratios) < 1.4 and np.std(ratios) > 0.1


def test_random_windows_by_default():
    given = {"aspect_ratio_range": None, "area_range": None, "max_attempts": None}
    begin, size, _ = dl.image.sample_distorted_bounding_box(
        (8, 8, 3), np.array([[[0.2, 0.2, 0.7, 0.8]]], np.float32), **given, name="window"
    )
    assert (np.asarray(begin)[:2] + np.asarray(size)[:2] <= 8).all()


def test_random_windows_are_the_image_if_none_fits():
    made = dl.image.sample_distorted_bounding_box(
        (80, 8, 3),
        None,
        aspect_ratio_range=(5, 6),
        area_range=(0.9, 1.0),
        use_image_if_no_bounding_boxes=True,
    )
    np.testing.assert_array_equal(made.size, [80, 8, -1])
    with pytest.raises(ValueError, match="use_image_if_no_bounding_boxes"):
        dl.image.sample_distorted_bounding_box((80, 8, 3), None)
    with pytest.raises(ValueError, match="area_range"):
        dl.image.sample_distorted_bounding_box((8, 8, 3), None, area_range=(0.5, 2))


def test_one_step_gives_what_the_steps_give():
    contents = encoded(picture(50, 70))
    window = [5, 7, 30, 41]
    steps = dl.image.resize(dl.image.decode_and_crop_jpeg(contents, window), (16, 20))
    for flip in (False, True):
        made = dl.image.decode_jpeg_resized(contents, (16, 20), window, flip)
        wanted = dl.image.flip_left_right(steps) if flip else steps
        np.testing.assert_array_equal(made, wanted)
    halved = dl.image.resize(dl.image.decode_jpeg(contents, ratio=2), (16, 20))
    np.testing.assert_array_equal(
        dl.image.decode_jpeg_resized(contents, (16, 20), ratio="auto"), halved
    )


def test_pipelines_of_images_run_without_python():
    files = [encoded(picture(40 + k, 60 - k)) for k in range(6)]

    def prepared(contents):
        shape = dl.image.extract_jpeg_shape(contents)
        begin, size, _ = dl.image.sample_distorted_bounding_box(
            shape, use_image_if_no_bounding_boxes=True, seed=3
        )
        window = jax.numpy.concatenate([begin[:2], size[:2]])
        image = dl.image.decode_and_crop_jpeg(contents, window, channels=3)
        image = dl.image.resize(image, (12, 14))
        return dl.image.random_flip_left_right(image, seed=4) / 255

    data = Dataset.from_tensor_slices(files).map(prepared)
    said = data.explain()
    assert "native image.extract_jpeg_shape" in said and "Python" not in said
    assert data.element_spec == dl.TensorSpec((12, 14, 3), np.float32)
    whole = next(iter(data.batch(6)))
    again = Dataset.from_tensor_slices(files).map(prepared, num_parallel_calls=3)
    np.testing.assert_array_equal(next(iter(again.batch(6))), whole)
    assert whole.min() >= 0 and whole.max() <= 1 and whole.std() > 0.1


def test_what_runs_as_python_for_each_image_is_told():
    def prepared(contents):
        image = dl.image.adjust_hue(dl.image.decode_jpeg(contents, channels=3), 0.1)
        return dl.image.resize(image, (4, 4))

    said = Dataset.from_tensor_slices([encoded(picture(20, 20))]).map(prepared).explain()
    assert "native image.decode_jpeg, image.adjust_hue (Python, row by row), image.resize" in said


def test_a_damaged_file_is_named_where_it_stands():
    good = encoded(picture(20, 20))
    data = Dataset.from_tensor_slices([good, good, good[:300], good])
    iterator = iter(data.map(lambda c: dl.image.resize(dl.image.decode_jpeg(c, 3), (4, 4))))
    assert [next(iterator).shape for _ in range(2)] == [(4, 4, 3)] * 2
    with pytest.raises(ValueError, match="image.decode_jpeg: .*byte"):
        next(iterator)
