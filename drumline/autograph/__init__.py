"""Python's control flow over traced values and over datasets."""

from drumline.autograph.conversion import convert, do_not_convert
from drumline.autograph.datasets import with_loops
from drumline.autograph.values import TensorKind, TracedRange

__all__ = ["TensorKind", "TracedRange", "convert", "do_not_convert", "with_loops"]
