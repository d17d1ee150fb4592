"""Resized images are scaled while they are at hand, to the bits of separate steps."""

import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from tests.image.samples import encoded, picture

FILES = [encoded(picture(61, 47, seed), subsampling=0) for seed in range(5)]
MEAN = np.array([121.3, 115.7, 101.9], np.float32)
DEVIATION = np.array([58.4, 57.1, 57.6], np.float32)

FORMS = {
    "/ 255": lambda x: x / 255,
    "* 0.00392157": lambda x: x * (1 / 255),
    "/ 127.5, - 1": lambda x: x / 127.5 - 1,
    "* 0.00392157, + 0.5": lambda x: x * (1 / 255) + 0.5,
    "- [121.3, 115.7, 101.9], / [58.4, 57.1, 57.6]": lambda x: (x - MEAN) / DEVIATION,
    "+ 3, * [58.4, 57.1, 57.6]": lambda x: (x + 3) * DEVIATION,
}


def _resized(contents):
    return dl.image.resize(dl.image.decode_jpeg(contents, channels=3), (24, 21))


def _made(function, files=FILES):
    ds = dl.data.Dataset.from_tensor_slices(files).map(function).batch(len(files))
    return ds.explain(), next(iter(ds))


@pytest.mark.parametrize("shown", FORMS)
def test_the_bits_are_those_of_a_program(shown):
    form = FORMS[shown]
    images = np.stack([_resized(file) for file in FILES])
    text, made = _made(lambda file: form(_resized(file)))
    assert f"native image.decode_jpeg, image.resize, {shown}\n" in text
    np.testing.assert_allclose(made, form(images), rtol=1e-6, atol=1e-6)
    options = dl.data.Options()
    options.experimental_optimization.native_arithmetic = False
    compiled = dl.data.Dataset.from_tensor_slices(images).map(form).batch(len(FILES))
    compiled = compiled.with_options(options)
    assert "compiled" in compiled.explain()
    np.testing.assert_array_equal(made, next(iter(compiled)))


@pytest.mark.parametrize(
    "form",
    [
        lambda x: x / 3 / 7,  # XLA divides once.
        lambda x: x / 1e38,
        lambda x: 1 - x,
        lambda x: x / x,
        lambda x: x - jnp.arange(3, dtype=jnp.float32),
        lambda x: x * jnp.zeros(3, jnp.float32),
        lambda x: jnp.split(x, 3)[0],
        lambda x: x - np.arange(21, dtype=np.float32)[:, None],
        lambda x: (x / 255).astype(jnp.bfloat16),
        lambda x: jnp.clip(x / 255, 0, 1),
    ],
)
def test_other_programs_are_compiled(form):
    text, made = _made(lambda file: form(_resized(file)))
    assert "compiled for blocks" in text
    images = np.stack([_resized(file) for file in FILES])
    options = dl.data.Options()
    options.experimental_optimization.native_arithmetic = False
    compiled = dl.data.Dataset.from_tensor_slices(images).map(form).batch(len(FILES))
    compiled = compiled.with_options(options)
    np.testing.assert_array_equal(made, next(iter(compiled)))


def test_images_of_other_files_are_scaled_too():
    files = [dl.image.encode_png(picture(9, 7, seed)) for seed in range(3)]

    def prepared(contents):
        return dl.image.resize(dl.image.decode_png(contents, channels=3), (8, 8)) / 255

    text, made = _made(prepared, files)
    assert "image.decode_png, image.resize, / 255" in text
    np.testing.assert_allclose(made, np.stack([prepared(f) for f in files]), rtol=1e-6)


def test_an_image_that_is_used_elsewhere_stays_as_it_is():
    def prepared(contents):
        image = _resized(contents)
        return image, image / 255

    _, (image, scaled) = _made(prepared)
    np.testing.assert_array_equal(image, np.stack([_resized(file) for file in FILES]))
    np.testing.assert_allclose(scaled, image / 255, rtol=1e-6)


def test_errors_name_the_operation():
    ds = dl.data.Dataset.from_tensor_slices([FILES[0], b"\xff\xd8no"]).map(
        lambda file: _resized(file) / 255
    )
    with pytest.raises(ValueError, match=r"image\.decode_jpeg: .*"):
        list(ds)
