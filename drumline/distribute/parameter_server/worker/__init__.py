"""What a worker does for the chief: draws batches, computes steps, pushes gradients."""

from drumline.distribute.parameter_server.worker.worker import Worker

__all__ = ["Worker"]
