"""Errors, as ``tf.errors``."""

from drumline.data.errors import DataLossError, WorkerDiedError

__all__ = ["DataLossError", "WorkerDiedError"]
