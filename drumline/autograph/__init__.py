"""Python's control flow over traced values and over datasets."""

from drumline.autograph.conversion import convert, converted_source, do_not_convert
from drumline.autograph.datasets import with_loops
from drumline.autograph.runtime import ControlFlow
from drumline.autograph.values import TensorKind, TracedRange

__all__ = [
    "ControlFlow",
    "TensorKind",
    "TracedRange",
    "convert",
    "converted_source",
    "do_not_convert",
    "with_loops",
]
