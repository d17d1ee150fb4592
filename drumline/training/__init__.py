"""Variables, gradients and compiled functions: what a training loop written by hand is made of."""

from drumline.training import variable_buffer
from drumline.training.tape import GradientTape, UnconnectedGradients
from drumline.training.value_and_grad import value_and_grad

variable_buffer.install()

__all__ = ["GradientTape", "UnconnectedGradients", "value_and_grad"]
