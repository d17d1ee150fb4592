"""A model's training and evaluation steps, compiled over replicas."""
