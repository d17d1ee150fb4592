"""Compiling a function with the variables it uses, as ``tf.function``."""

from drumline.distribute.functions.function import Function, function

__all__ = ["Function", "function"]
