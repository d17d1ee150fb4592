"""Decoding and resizing are joined in pipelines, and give what they give one after the other."""

import collections
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline import _memory as pool
from tests.image.samples import encoded, picture

FORMS = [
    {"subsampling": 0},
    {"subsampling": 1},
    {"subsampling": 2},
    {"subsampling": 2, "progressive": True},
    {"mode": "L"},
]
FILES = [
    [encoded(picture(height, width, seed), **form) for seed, form in enumerate(FORMS)]
    for height, width in ((1, 1), (19, 33), (61, 47))
]


def _mapped(files, function):
    return dl.data.Dataset.from_tensor_slices(files).map(function).batch(len(files))


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(FILES),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.sampled_from(["bilinear", "bicubic", "area", "lanczos3"]),
    st.booleans(),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 3]),
)
def test_the_bits_are_those_of_both_steps(files, size, method, antialias, ratio, channels):
    def prepared(contents):
        image = dl.image.decode_jpeg(contents, channels=channels, ratio=ratio)
        return dl.image.resize(image, size, method, antialias=antialias)

    ds = _mapped(files, prepared)
    assert "native image.decode_jpeg, image.resize" in ds.explain()
    np.testing.assert_array_equal(next(iter(ds)), np.stack([prepared(file) for file in files]))


def test_batches_of_a_prefetched_parallel_map_take_memory_that_served_before(monkeypatch):
    taken = []
    fresh = pool.fresh
    monkeypatch.setattr(pool, "fresh", lambda nbytes: taken.append(nbytes) or fresh(nbytes))

    def prepared(contents):
        return dl.image.resize(dl.image.decode_jpeg(contents, channels=3), (63, 65))

    files = dl.data.Dataset.from_tensor_slices([FILES[2][0]] * 1280)
    ds = files.map(prepared, num_parallel_calls=2).batch(32).prefetch(1)
    held = collections.deque(maxlen=3)
    for batch in ds:
        held.append(batch)
        time.sleep(0.002)  # Meanwhile others are made.
    own = [nbytes for nbytes in taken if nbytes >= 32 * 63 * 65 * 3 * 4]
    assert 0 < len(own) <= 10  # Of 40 batches.


def test_windows_are_joined_too():
    def prepared(contents):
        image = dl.image.decode_and_crop_jpeg(contents, [3, 5, 40, 31], channels=3)
        return dl.image.resize(image, (24, 20))

    files = FILES[2]
    made = next(iter(_mapped(files, prepared)))
    np.testing.assert_array_equal(made, np.stack([prepared(file) for file in files]))


def test_an_image_that_is_used_elsewhere_is_made():
    def prepared(contents):
        image = dl.image.decode_jpeg(contents, channels=3)
        return dl.image.resize(image, (8, 8)), image

    file = FILES[1][2]
    small, image = next(iter(dl.data.Dataset.from_tensors(file).map(prepared)))
    np.testing.assert_array_equal(image, dl.image.decode_jpeg(file))
    np.testing.assert_array_equal(small, dl.image.resize(image, (8, 8)))


def test_files_keep_the_channels_that_they_have():
    def prepared(contents):
        return dl.image.resize(dl.image.decode_jpeg(contents), (8, 8))

    files = FILES[1]
    images = list(dl.data.Dataset.from_tensor_slices(files).map(prepared))
    assert {image.shape for image in images} == {(8, 8, 3), (8, 8, 1)}
    for image, file in zip(images, files, strict=True):
        np.testing.assert_array_equal(image, prepared(file))


def test_errors_are_those_of_the_first_step():
    def prepared(contents):
        return dl.image.resize(dl.image.decode_jpeg(contents, channels=3), (8, 8))

    elements = iter(dl.data.Dataset.from_tensor_slices([FILES[1][0], b"no"]).map(prepared))
    next(elements)
    with pytest.raises(ValueError, match=r"image\.decode_jpeg: .*FF D8"):
        next(elements)
