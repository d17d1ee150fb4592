"""Random colors: those of YIQ against Python's own conversion, and the order of changes."""

from __future__ import annotations

import colorsys
import math

import numpy as np
import pytest

import drumline as dl
from drumline.cnn.inputs.colors import (
    BRIGHTNESS,
    CONTRAST,
    HUE,
    SATURATION,
    distort_color,
    with_colors,
)
from drumline.cnn.inputs.colors import (
    turned_in_yiq as turned_rows,
)

RANGES = [(-BRIGHTNESS, BRIGHTNESS), SATURATION, (-HUE, HUE), CONTRAST]
"""Of brightness, saturation, hue and contrast, in the order in which they are drawn."""

IMAGE = np.random.default_rng(2).uniform(0, 1, (7, 5, 3)).astype(np.float32)


def turned_in_yiq(image: np.ndarray, saturation: float, angle: float) -> np.ndarray:
    rows = turned_rows(np.asarray(image).reshape(-1, 3).T, saturation, angle)
    return np.asarray(rows).T.reshape(image.shape)


def test_nothing_changes_by_factors_of_one() -> None:
    for yiq in (False, True):
        for last in (False, True):
            made = with_colors(IMAGE, last, yiq, 0.0, 1.0, 0.0, 1.0)
            np.testing.assert_allclose(made, IMAGE, atol=2e-6)


@pytest.mark.parametrize(("saturation", "angle"), [(1.5, 0.0), (0.5, 0.6), (1.0, -0.6)])
def test_colors_turned_in_yiq_are_those_of_pythons_conversion(
    saturation: float, angle: float
) -> None:
    """``colorsys`` has the coefficients of the FCC, which differ in the second digit."""

    def turned(pixel: np.ndarray) -> tuple[float, float, float]:
        y, i, q = colorsys.rgb_to_yiq(*map(float, pixel))
        chroma = complex(i, q) * saturation * complex(math.cos(angle), math.sin(angle))
        back = np.array([[1, 0.9469, 0.6236], [1, -0.2748, -0.6357], [1, -1.1086, 1.7090]])
        return tuple(back @ [y, chroma.real, chroma.imag])

    wanted = np.array([turned(pixel) for pixel in IMAGE.reshape(-1, 3)]).reshape(IMAGE.shape)
    np.testing.assert_allclose(turned_in_yiq(IMAGE, saturation, angle), wanted, atol=0.05)


def test_gray_has_no_color_to_turn_and_luma_stays() -> None:
    gray = np.broadcast_to(IMAGE[..., :1], IMAGE.shape)
    np.testing.assert_allclose(turned_in_yiq(gray, 1.5, 0.5), gray, atol=2e-3)
    luma = np.array([0.299, 0.587, 0.114])
    made = np.asarray(turned_in_yiq(IMAGE, 0.5, -0.5))
    np.testing.assert_allclose(made @ luma, IMAGE @ luma, atol=1e-5)
    there = turned_in_yiq(turned_in_yiq(IMAGE, 2.0, 0.4), 0.5, -0.4)
    np.testing.assert_allclose(there, IMAGE, atol=1e-5)


def test_the_order_follows_the_position_in_the_batch() -> None:
    """In YIQ, contrast and turning are linear: they commute. In HSV they do not."""
    numbers = (0.1, 1.5, 0.1, 1.5)
    for yiq, apart in ((False, True), (True, False)):
        last, first = (np.asarray(with_colors(IMAGE, k, yiq, *numbers)) for k in (True, False))
        assert (np.abs(last - first).max() > 0.01) == apart

    def colored(position: int) -> object:
        return distort_color(IMAGE, position, False, seed=3)

    made = list(dl.data.Dataset.range(64).map(colored))
    assert all(image.min() >= 0 and image.max() <= 1 for image in made)
    assert len({image.tobytes() for image in made}) == 64


def test_an_image_at_an_even_position_has_its_contrast_changed_last() -> None:
    drawn = dl.data.Dataset.range(2).map(
        lambda _: [dl.random.uniform((), *ends, seed=3) for ends in RANGES]
    )
    made = dl.data.Dataset.range(2).map(lambda k: distort_color(IMAGE, k, False, seed=3))
    for position, (image, numbers) in enumerate(zip(made, drawn, strict=True)):
        wanted, other = (
            np.asarray(with_colors(IMAGE, last, False, *numbers)) for last in (True, False)
        )
        np.testing.assert_allclose(image, (wanted, other)[position], atol=1e-6)
        assert np.abs(wanted - other).max() > 1e-3
