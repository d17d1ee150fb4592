"""Class weights as sample weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import keras
import numpy as np


def require_targets_alone(element: Any) -> None:
    """Check that elements have the form that class weights apply to.

    Raises:
        ValueError: if an element has sample weights, no targets, or several target arrays.
    """
    _, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
    if sample_weight is not None:
        raise ValueError("`class_weight` and a dataset with sample weights exclude each other.")
    if y is None or len(jax.tree.leaves(y)) != 1:
        raise ValueError("`class_weight` needs one array of targets in each element.")


def weigh_classes(batch: Any, class_weight: Mapping[int, float]) -> tuple[Any, Any, np.ndarray]:
    """Return ``(x, y, sample_weight)`` with each row's weight that of its class, 1 by default.

    Args:
        batch: ``(x, y)``; `y` one array of class ids, of shape (n,) or (n, 1), or of one-hot
            rows, of shape (n, classes).
        class_weight: weights by class id.
    """
    x, y, _ = keras.utils.unpack_x_y_sample_weight(batch)
    classes = _class_ids(np.asarray(jax.tree.leaves(y)[0]))
    found, rows = np.unique(classes, return_inverse=True)
    weights = np.array([class_weight.get(int(c), 1.0) for c in found], keras.backend.floatx())
    return x, y, weights[rows.reshape(-1)]


def _class_ids(y: np.ndarray) -> np.ndarray:
    if y.ndim > 1:
        y = np.argmax(y, axis=-1) if y.shape[-1] != 1 else np.squeeze(y, axis=-1)
    return np.round(y).astype(np.int64)
