"""Gradients of what a block of code computes, as ``tf.GradientTape`` takes them."""

from drumline.training.tape.gradient_tape import GradientTape, UnconnectedGradients

__all__ = ["GradientTape", "UnconnectedGradients"]
