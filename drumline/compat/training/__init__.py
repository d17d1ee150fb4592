"""Variables, gradients, compiled functions and modules of tensors."""
