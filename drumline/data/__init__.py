"""The input pipeline: ``Dataset`` and what belongs to it."""

from typing import Any

from drumline.data import experimental
from drumline.data.dataset import Dataset
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec
from drumline.data.elements.spec import AUTOTUNE, DatasetSpec, TensorSpec
from drumline.data.elements.spec import INFINITE as INFINITE_CARDINALITY
from drumline.data.elements.spec import UNKNOWN as UNKNOWN_CARDINALITY
from drumline.data.engine.iterator import DatasetIterator
from drumline.data.operations.ordering.order import GLOBAL
from drumline.data.operations.packing import Packed
from drumline.data.options import AutotuneOptions, OptimizationOptions, Options, ThreadingOptions
from drumline.data.readers import (
    ArrayRecordDataset,
    FixedLengthRecordDataset,
    TarDataset,
    TextLineDataset,
    TFRecordDataset,
)

__all__ = [
    "AUTOTUNE",
    "GLOBAL",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "ArrayRecordDataset",
    "AutotuneOptions",
    "Dataset",
    "DatasetIterator",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "OptimizationOptions",
    "Options",
    "Packed",
    "RaggedArray",
    "RaggedTensorSpec",
    "TFRecordDataset",
    "TarDataset",
    "TensorSpec",
    "TextLineDataset",
    "ThreadingOptions",
    "experimental",
]

_OF_ORBAX = ("DatasetIteratorHandler", "DatasetIteratorSave", "DatasetIteratorRestore")


def __getattr__(name: str) -> Any:
    """What needs Orbax, which takes long to import and need not be installed."""
    if name not in _OF_ORBAX:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from drumline.data.engine import orbax_handler

    return getattr(orbax_handler, name)
