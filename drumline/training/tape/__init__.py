"""Gradients of what a block of code computes, as ``tf.GradientTape`` takes them."""

from drumline.training.tape import variables as _variables  # noqa: F401 - installs the hook
from drumline.training.tape.gradient_tape import GradientTape
from drumline.training.tape.unconnected import UnconnectedGradients

__all__ = ["GradientTape", "UnconnectedGradients"]
