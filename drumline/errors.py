"""Errors, as ``tf.errors``."""

from drumline.data.errors import CsvError, DataLossError, WorkerDiedError

__all__ = ["CsvError", "DataLossError", "WorkerDiedError"]
