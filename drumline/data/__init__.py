"""The input pipeline: ``Dataset`` and what belongs to it.

Importing it loads nothing but this file: each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drumline.data import experimental
    from drumline.data.dataset import Dataset
    from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec
    from drumline.data.elements.spec import AUTOTUNE, DatasetSpec, TensorSpec
    from drumline.data.elements.spec import INFINITE as INFINITE_CARDINALITY
    from drumline.data.elements.spec import UNKNOWN as UNKNOWN_CARDINALITY
    from drumline.data.engine.iterator import DatasetIterator
    from drumline.data.operations.ordering.order import GLOBAL
    from drumline.data.operations.packing import Packed
    from drumline.data.options import (
        AutotuneOptions,
        OptimizationOptions,
        Options,
        ThreadingOptions,
    )
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

_FROM = {
    "dataset": ("Dataset",),
    "elements.ragged": ("RaggedArray", "RaggedTensorSpec"),
    "elements.spec": ("AUTOTUNE", "DatasetSpec", "TensorSpec"),
    "engine.iterator": ("DatasetIterator",),
    "operations.ordering.order": ("GLOBAL",),
    "operations.packing": ("Packed",),
    "options": ("AutotuneOptions", "OptimizationOptions", "Options", "ThreadingOptions"),
    # Orbax takes long to import and need not be installed.
    "engine.orbax_handler": (
        "DatasetIteratorHandler",
        "DatasetIteratorRestore",
        "DatasetIteratorSave",
    ),
    "readers": (
        "ArrayRecordDataset",
        "FixedLengthRecordDataset",
        "TarDataset",
        "TextLineDataset",
        "TFRecordDataset",
    ),
}
_RENAMED = {"INFINITE_CARDINALITY": "INFINITE", "UNKNOWN_CARDINALITY": "UNKNOWN"}
_MODULES = {name: module for module, names in _FROM.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import what is asked for, once."""
    value: Any
    if name in _MODULES:
        value = getattr(importlib.import_module(f"drumline.data.{_MODULES[name]}"), name)
    elif name in _RENAMED:
        value = getattr(importlib.import_module("drumline.data.elements.spec"), _RENAMED[name])
    elif name == "experimental":
        return importlib.import_module("drumline.data.experimental")
    else:
        raise AttributeError(f"module 'drumline.data' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
