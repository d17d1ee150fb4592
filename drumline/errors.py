"""Errors, as ``tf.errors``."""

from drumline.data.errors import DataLossError

__all__ = ["DataLossError"]
