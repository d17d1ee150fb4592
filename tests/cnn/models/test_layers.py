"""Local response normalization and dropped paths against their formulas in float64."""

from __future__ import annotations

from typing import Any

import jax
import keras
import numpy as np
import pytest

from drumline.cnn.models import LocalResponseNormalization
from drumline.cnn.models.layers import DropPath, TrainingProgress

OPTIONS = {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.75}


def normalized(x: np.ndarray) -> np.ndarray:
    """By a loop over channels, which are last."""
    result = np.empty(x.shape)
    for channel in range(x.shape[-1]):
        window = x[..., max(channel - 2, 0) : channel + 3].astype("float64")
        result[..., channel] = x[..., channel] / (1.5 + 0.3 * (window**2).sum(-1)) ** 0.75
    return result


@pytest.mark.parametrize("channels", [1, 3, 8])
def test_normalizes_over_channels(channels: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4, channels)).astype("float32")
    expected = normalized(x)
    np.testing.assert_allclose(LocalResponseNormalization(**OPTIONS)(x), expected, rtol=1e-5)
    first = LocalResponseNormalization(axis=1, **OPTIONS)(np.moveaxis(x, 3, 1))
    np.testing.assert_allclose(np.moveaxis(np.asarray(first), 1, 3), expected, rtol=1e-5)


def test_gradients_are_those_of_differences() -> None:
    layer = LocalResponseNormalization(**OPTIONS)
    x = np.random.default_rng(1).normal(size=(1, 1, 2, 6))
    found = jax.grad(lambda value: (layer(value) ** 2).sum())(x.astype("float32"))
    for index in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[index] = 1e-6
        slope = ((normalized(x + step) ** 2).sum() - (normalized(x - step) ** 2).sum()) / 2e-6
        assert found[index] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_half_precision_sums_in_float32() -> None:
    layer = LocalResponseNormalization(**OPTIONS, dtype="mixed_float16")
    found = layer(np.full((1, 1, 1, 4), 300.0, "float16"))
    assert found.dtype == "float16" and np.isfinite(np.asarray(found)).all()


@pytest.mark.parametrize(
    "layer",
    [LocalResponseNormalization(**OPTIONS, axis=1), DropPath(0.6), TrainingProgress(100)],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_are_made_again_from_their_settings(layer: Any) -> None:
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert type(again) is type(layer) and again.get_config() == layer.get_config()


def test_a_negative_radius_is_refused() -> None:
    with pytest.raises(ValueError, match="depth_radius=-1"):
        LocalResponseNormalization(depth_radius=-1)


def test_progress_counts_batches_of_training_up_to_one() -> None:
    layer = TrainingProgress(4)
    x = np.zeros((2, 1), "float32")
    assert float(layer(x)) == 0.0
    seen = [float(layer(x, training=True)) for _ in range(6)]
    assert seen == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    assert float(layer(x, training=False)) == 1.0


def test_paths_are_dropped_more_often_with_progress() -> None:
    layer = DropPath(0.6)
    x = np.ones((20_000, 2, 1, 1), "float32")
    np.testing.assert_array_equal(layer((x, np.float32(1)), training=False), x)
    np.testing.assert_array_equal(layer((x, np.float32(0)), training=True), x)
    for progress, keep in ((0.5, 0.8), (1.0, 0.6)):
        found = np.asarray(layer((x, np.float32(progress)), training=True))
        assert (found[:, 0] == found[:, 1]).all(), "an example as a whole"
        kept = found[:, 0, 0, 0] != 0
        np.testing.assert_allclose(found[kept], 1 / keep, rtol=1e-6)
        assert kept.mean() == pytest.approx(keep, abs=0.015)
