"""Folders of images; expected pixels are those of Keras 3.15 with TensorFlow 2.21."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import drumline as dl

SMALL = (np.arange(3 * 6 * 3) * 4).astype(np.uint8).reshape(3, 6, 3)


def written(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        Image.fromarray(SMALL).save(folder / name)
    return folder


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path, "b/1.PNG", "a/0.png", "a/2.bmp", "b/3.gif")


def load(folder, **arguments):
    return dl.datasets.image_dataset_from_directory(
        folder, image_size=(2, 2), shuffle=False, verbose=False, **arguments
    )


@pytest.mark.parametrize(
    ("arguments", "first_channel"),
    [
        ({}, [[30, 66], [138, 174]]),
        ({"crop_to_aspect_ratio": True}, [[33, 51], [141, 159]]),
        ({"pad_to_aspect_ratio": True}, [[84, 120], [0, 0]]),
        ({"interpolation": "NEAREST"}, [[12, 48], [156, 192]]),
        ({"interpolation": "bicubic"}, [[24.088, 60.088], [143.912, 179.912]]),
    ],
)
def test_pixels(folder, arguments, first_channel):
    dataset = load(folder, label_mode=None, **arguments)
    (images,) = dataset
    nearest = arguments == {"interpolation": "NEAREST"}
    assert images.shape == (4, 2, 2, 3)
    assert images.dtype == (np.uint8 if nearest else np.float32)
    whole = images[:3]  # A GIF file has a palette, and so other colors.
    np.testing.assert_allclose(whole[..., 0], [first_channel] * 3, atol=1e-3)
    assert "native io.read_file, image.decode_image" in dataset.explain()


def test_labels_channels_and_layout(tmp_path):
    folder = written(tmp_path, "b/1.PNG", "a/0.png", "a/2.png", "b/3.png")
    dataset = load(folder, batch_size=3, color_mode="rgba", data_format="channels_first")
    (first, labels), (last, _) = dataset
    assert (first.shape, last.shape) == ((3, 4, 2, 2), (1, 4, 2, 2))
    assert labels.tolist() == [0, 0, 1] and labels.dtype == np.int32
    assert (first[:, 3] == 255).all() and dataset.class_names == ["a", "b"]
    training, validation = load(folder, validation_split=0.5, subset="both", batch_size=None)
    assert [int(label) for _, label in training] == [0, 0]
    assert [image.shape for image, _ in validation] == [(2, 2, 3)] * 2
    ((gray, _),) = load(folder, color_mode="grayscale")
    assert gray.shape == (4, 2, 2, 1)


def test_what_is_refused_and_what_is_damaged(folder):
    for arguments, text in (
        ({"color_mode": "cmyk"}, "color_mode must be one of"),
        ({"data_format": "first"}, "data_format must be"),
        ({"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, "cannot both be true"),
        ({"interpolation": "cubic"}, "method must be one of"),
    ):
        with pytest.raises(ValueError, match=text):
            load(folder, **arguments)
    (folder / "a" / "1.png").write_bytes(b"no image")
    iterator = iter(load(folder, batch_size=None))
    next(iterator)
    with pytest.raises(ValueError, match="image.decode_image") as caught:
        next(iterator)
    assert caught.value.element_index == 1
    assert len(list(iterator)) == 3
