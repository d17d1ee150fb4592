"""What comparisons with TensorFlow share: functions by name, and tensors that are to be equal."""

from __future__ import annotations

from typing import Any

import numpy as np


def named(module: Any, name: str) -> Any:
    """The function of a module, or of a namespace in it."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def compare(mine: Any, other: Any, rtol: float = 1e-6) -> None:
    """Require equal dtypes and shapes, and values that are close."""
    assert mine.dtype.name == other.dtype.name and mine.shape.as_list() == other.shape.as_list()
    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=rtol, atol=rtol)
