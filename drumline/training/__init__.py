"""Variables, gradients and compiled functions: what a training loop written by hand is made of."""
