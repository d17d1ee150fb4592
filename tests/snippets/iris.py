"""What the guides of Estimators load: made-up irises, and the strategy of a machine of two GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

COLUMNS = ["SepalLength", "SepalWidth", "PetalLength", "PetalWidth", "Species"]
SPECIES = ["Setosa", "Versicolor", "Virginica"]
_MEANS = np.float32([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])


def iris(count: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Columns of measures by name, and numbers of species."""
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    rows = generator.normal(_MEANS[labels], 0.25).astype(np.float32)
    return dict(zip(COLUMNS, rows.T, strict=False)), labels


def mirrored(tf: Any) -> Any:
    """What ``tf.distribute.MirroredStrategy()`` is on a machine of two devices."""
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
