"""The learning rates that the original trains each model with, where a flag says nothing else.

Each function takes the rate of the model's entry and how many examples all devices take together
in a step, and returns a number or a schedule of Keras's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops
from keras.optimizers import schedules

IMAGENET_EXAMPLES = 1_281_167
"""Images of ImageNet's training set (ILSVRC 2012)."""

CIFAR10_EXAMPLES = 50_000

Schedule = Callable[[float, int], Any]
"""From a learning rate and the examples of a step to a number or a ``LearningRateSchedule``."""


@keras.saving.register_keras_serializable("drumline.cnn")
class LinearWarmup(schedules.LearningRateSchedule):
    """Rise in a line from 0 to a schedule's first value, then follow the schedule.

    The schedule's steps count from the beginning, not from the end of the rise.

    Args:
        schedule: What is followed.
        warmup_steps: How long the rise is.
        peak: The rate that the rise is towards, and would reach at `warmup_steps`.

    Source: Goyal et al., https://arxiv.org/abs/1706.02677, section 2.2.
    """

    def __init__(self, schedule: Any, warmup_steps: int, peak: float) -> None:
        super().__init__()
        self.schedule, self.warmup_steps, self.peak = schedule, warmup_steps, peak

    def __call__(self, step: Any) -> Any:
        """Return the rate of a step, the first of which is 0."""
        step = ops.cast(step, "float32")
        rising = self.peak * step / max(self.warmup_steps, 1)
        return ops.where(step < self.warmup_steps, rising, self.schedule(step))

    def get_config(self) -> dict[str, Any]:
        """Return what makes an equal schedule."""
        return {
            "schedule": keras.saving.serialize_keras_object(self.schedule),
            "warmup_steps": self.warmup_steps,
            "peak": self.peak,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LinearWarmup:
        """Make a schedule of what `get_config` gave."""
        schedule = keras.saving.deserialize_keras_object(config["schedule"])
        return cls(schedule, config["warmup_steps"], config["peak"])


def constant(learning_rate: float, batch_size: int) -> float:
    """Return the rate, whatever the batch."""
    del batch_size
    return learning_rate


def alexnet_cifar10(learning_rate: float, batch_size: int) -> Any:
    """A tenth after each 100 epochs."""
    steps = 100 * CIFAR10_EXAMPLES // batch_size
    return schedules.ExponentialDecay(learning_rate, max(steps, 1), 0.1, staircase=True)


def resnet_imagenet(learning_rate: float, batch_size: int) -> Any:
    """In proportion to the batch, of 256 at `learning_rate`: five epochs' rise, then four cuts.

    The cuts, each to a tenth, are after 30, 60, 80 and 90 epochs. Where gradients of replicas are
    summed and not averaged, the caller divides the rate by their number.
    """
    peak = learning_rate * batch_size / 256
    epoch = IMAGENET_EXAMPLES / batch_size
    after = [int(epoch * epochs) for epochs in (30, 60, 80, 90)]
    cut = _cut(after, [peak * factor for factor in (1.0, 0.1, 0.01, 0.001, 0.0001)])
    return LinearWarmup(cut, int(5 * epoch), peak)


def resnet_cifar10(learning_rate: float, batch_size: int) -> Any:
    """0.1, 0.01, 0.001 and 0.0002, cut after 82, 123 and 300 epochs, whatever the model's rate."""
    del learning_rate
    epoch = CIFAR10_EXAMPLES // batch_size
    return _cut([epoch * epochs for epochs in (82, 123, 300)], [0.1, 0.01, 0.001, 0.0002])


def densenet_cifar10(learning_rate: float, batch_size: int) -> Any:
    """0.1 to 0.0001 in tenths, cut after 150, 225 and 300 epochs, whatever the model's rate."""
    del learning_rate
    epoch = CIFAR10_EXAMPLES // batch_size
    return _cut([epoch * epochs for epochs in (150, 225, 300)], [0.1, 0.01, 0.001, 0.0001])


def _cut(after: Sequence[int], values: Sequence[float]) -> Any:
    return schedules.PiecewiseConstantDecay(list(after), list(values))
