"""Pictures with the look of photographs, and JPEG files of them that Pillow writes."""

import io

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="samples are written with Pillow")


def picture(height, width, seed=0):
    """uint8 (height, width, 3): smooth colors with some noise."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / 7 + y / 11), np.cos(x / 5 - y / 9), np.sin((x + y) / 13)]
    noise = np.random.default_rng(seed).normal(0, 12, (height, width, 3))
    return np.clip(128 + 95 * np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)


def encoded(pixels, kind="JPEG", mode=None, **options):
    """The bytes of a file."""
    image = Image.fromarray(pixels)
    file = io.BytesIO()
    (image.convert(mode) if mode else image).save(file, kind, **options)
    return file.getvalue()


def decoded(contents, mode=None):
    """The pixels of a file, by Pillow: of JPEG, by libjpeg-turbo's accurate transform."""
    image = Image.open(io.BytesIO(contents))
    pixels = np.asarray(image.convert(mode) if mode else image)
    return pixels[..., None] if pixels.ndim == 2 else pixels
