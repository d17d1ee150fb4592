"""Compiling a function with the variables it uses, as ``tf.function``."""

from drumline.distribute.functions.called import CalledFunctions
from drumline.distribute.functions.function import Function, function

__all__ = ["CalledFunctions", "Function", "function"]
