"""Activations, losses, convolutions and pools of networks."""
