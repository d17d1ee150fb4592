"""Errors, as ``tf.errors``."""

from drumline.data.elements.errors import (
    CsvError,
    DataLossError,
    IteratorStateError,
    WorkerDiedError,
)

__all__ = ["CsvError", "DataLossError", "IteratorStateError", "WorkerDiedError"]
