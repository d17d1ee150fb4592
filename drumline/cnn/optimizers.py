"""Optimizers and learning rates of the flags, as tf_cnn_benchmarks' ``get_optimizer``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import keras
from keras import ops


LOSS_SCALE = 128.0
"""Where float16 is asked for and no scale, as most models of the original have it."""


class Flags(Protocol):
    """The flags that are read here; see `drumline.cnn.flags`."""

    optimizer: str
    momentum: float
    rmsprop_decay: float
    rmsprop_momentum: float
    rmsprop_epsilon: float
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    init_learning_rate: float | None
    piecewise_learning_rate_schedule: str | None
    num_epochs_per_decay: float
    learning_rate_decay_factor: float
    num_learning_rate_warmup_epochs: float
    minimum_learning_rate: float
    gradient_clip: float | None


def learning_rate_of(
    flags: Flags, default: Any, examples_per_epoch: int, batch_size: int
) -> LearningRate:
    """Return the schedule that the flags ask for.

    Args:
        flags: the command line's.
        default: the model's own, a number or a schedule of Keras's.
        examples_per_epoch: of the data.
        batch_size: of all devices that step together.

    Raises:
        ValueError: if flags exclude each other, or the schedule is malformed.
    """
    batches = examples_per_epoch / batch_size
    if flags.piecewise_learning_rate_schedule:
        others = {
            "init_learning_rate": flags.init_learning_rate is not None,
            "learning_rate_decay_factor": flags.learning_rate_decay_factor,
            "minimum_learning_rate": flags.minimum_learning_rate,
            "num_epochs_per_decay": flags.num_epochs_per_decay,
        }
        if given := [name for name, is_given in others.items() if is_given]:
            raise ValueError(
                f"--piecewise_learning_rate_schedule says every rate: leave out --{given[0]}."
            )
        rates, boundaries = _pieces(flags.piecewise_learning_rate_schedule, batches)
        rate, first = _piecewise(rates, boundaries), rates[0]
    elif flags.init_learning_rate is not None:
        first = flags.init_learning_rate
        rate = _decayed(
            first,
            int(batches * flags.num_epochs_per_decay),
            flags.learning_rate_decay_factor,
            flags.minimum_learning_rate,
        )
    else:
        if flags.num_learning_rate_warmup_epochs:
            raise ValueError(
                "--num_learning_rate_warmup_epochs needs a rate to rise to: give "
                "--init_learning_rate or --piecewise_learning_rate_schedule."
            )
        return LearningRate(default if callable(default) else lambda _: default)
    steps = int(batches * flags.num_learning_rate_warmup_epochs)
    return LearningRate(_rising(first, steps, rate) if steps else rate)


@dataclasses.dataclass(eq=False)
class LearningRate(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate as a function of the step.

    Attributes:
        rate: from the step, an integer array of shape [], to the rate, float32.
    """

    rate: Callable[[Any], Any]

    def __call__(self, step: Any) -> Any:
        return ops.cast(self.rate(step), "float32")

    def get_config(self) -> dict[str, Any]:
        """Refused: a function of the command line's flags has no configuration."""
        raise NotImplementedError("The learning rate follows from the flags; keep those instead.")


def _pieces(text: str, batches: float) -> tuple[list[float], list[int]]:
    """The rates of ``rate;epoch;rate`` and the last step of each but the last."""
    parts = text.split(";")
    flag = f"--piecewise_learning_rate_schedule={text}"
    if len(parts) % 2 == 0:
        raise ValueError(f"{flag}: write RATE;EPOCH;RATE, with a rate at each end.")
    try:
        rates = [float(part) for part in parts[::2]]
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None
    try:
        boundaries = [int(int(part) * batches) - 1 for part in parts[1::2]]
    except ValueError:
        raise ValueError(f"{flag}: epochs are whole numbers, got {parts[1::2]}.") from None
    if any(later <= earlier for earlier, later in zip(boundaries, boundaries[1:], strict=False)):
        raise ValueError(f"{flag}: epochs must rise.")
    return rates, boundaries


def _piecewise(rates: list[float], boundaries: list[int]) -> Callable[[Any], Any]:
    def rate(step: Any) -> Any:
        found = ops.convert_to_tensor(rates[0], "float32")
        for boundary, later in zip(boundaries, rates[1:], strict=True):
            found = ops.where(step > boundary, later, found)
        return found

    return rate


def _decayed(first: float, steps: int, factor: float, least: float) -> Callable[[Any], Any]:
    def rate(step: Any) -> Any:
        found = ops.convert_to_tensor(first, "float32")
        if steps > 0 and factor > 0:
            found = found * ops.power(factor, ops.cast(step // steps, "float32"))
            if least:
                found = ops.maximum(found, least)
        return found

    return rate


def _rising(first: float, steps: int, after: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def rate(step: Any) -> Any:
        rising = first * ops.cast(step, "float32") / steps
        return ops.where(step < steps, rising, after(step))

    return rate


def optimizer_of(flags: Flags, learning_rate: LearningRate) -> keras.optimizers.Optimizer:
    """Return the optimizer that the flags ask for.

    Momentum is Nesterov's, as in the original.

    Raises:
        ValueError: if there is none of that name.
    """
    clip: dict[str, Any] = {"clipvalue": flags.gradient_clip}
    if flags.optimizer == "momentum":
        return keras.optimizers.SGD(learning_rate, flags.momentum, nesterov=True, **clip)
    if flags.optimizer == "sgd":
        return keras.optimizers.SGD(learning_rate, **clip)
    if flags.optimizer == "rmsprop":
        return keras.optimizers.RMSprop(
            learning_rate,
            rho=flags.rmsprop_decay,
            momentum=flags.rmsprop_momentum,
            epsilon=flags.rmsprop_epsilon,
            **clip,
        )
    if flags.optimizer == "adam":
        return keras.optimizers.Adam(
            learning_rate, flags.adam_beta1, flags.adam_beta2, flags.adam_epsilon, **clip
        )
    raise ValueError(f"--optimizer={flags.optimizer}: there are momentum, sgd, rmsprop and adam.")
