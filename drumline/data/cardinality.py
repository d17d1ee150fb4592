"""Cardinalities of datasets, with the constants of ``tf.data``."""

from typing import Final

INFINITE: Final = -1
"""The dataset never ends (``tf.data.INFINITE_CARDINALITY``)."""

UNKNOWN: Final = -2
"""The number of elements is known only after iterating (``tf.data.UNKNOWN_CARDINALITY``)."""


def is_known(cardinality: int) -> bool:
    """Whether ``cardinality`` is a number of elements rather than a marker."""
    return cardinality >= 0
