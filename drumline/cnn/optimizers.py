"""Optimizers and learning rates of the flags, as tf_cnn_benchmarks' ``get_optimizer``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from drumline.compat.v1.optimizers import FormerMomentum, FormerRMSProp

LOSS_SCALE = 128.0
"""Where float16 is asked for and no scale, as most models of the original have it."""


def learning_rate_of(
    flags: Any, default: Any, examples_per_epoch: int, batch_size: int
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
    warmup_steps = int(batches * flags.num_learning_rate_warmup_epochs)
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
        return LearningRate(rates, boundaries, warmup_steps=warmup_steps)
    if flags.init_learning_rate is not None:
        decay_steps = int(batches * flags.num_epochs_per_decay)
        if flags.num_epochs_per_decay and not decay_steps:
            raise ValueError(
                f"--num_epochs_per_decay={flags.num_epochs_per_decay:g} is less than a step, which "
                f"has {batch_size} of an epoch's {examples_per_epoch} images."
            )
        return LearningRate(
            [flags.init_learning_rate],
            decay_steps=decay_steps,
            decay_factor=flags.learning_rate_decay_factor,
            least=flags.minimum_learning_rate,
            warmup_steps=warmup_steps,
        )
    if flags.num_learning_rate_warmup_epochs:
        raise ValueError(
            "--num_learning_rate_warmup_epochs needs a rate to rise to: give "
            "--init_learning_rate or --piecewise_learning_rate_schedule."
        )
    if callable(default):
        return LearningRate([], schedule=default)
    return LearningRate([float(default)])


@keras.saving.register_keras_serializable(package="drumline.cnn")
class LearningRate(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises at first, and falls piece by piece or in stairs.

    Args:
        rates: one more than `boundaries`; one if there are none.
        boundaries: the last step of each rate but the last.
        decay_steps: after so many steps the rate is multiplied by `decay_factor`; 0 for never.
        decay_factor: 0 for none.
        least: what the rate never falls below.
        warmup_steps: steps in which the rate rises from 0 to the first of `rates`.
        schedule: in the place of all else.
    """

    def __init__(
        self,
        rates: Sequence[float],
        boundaries: Sequence[int] = (),
        *,
        decay_steps: int = 0,
        decay_factor: float = 0.0,
        least: float = 0.0,
        warmup_steps: int = 0,
        schedule: Any = None,
    ) -> None:
        self._rates = list(rates)
        self._boundaries = list(boundaries)
        self._decay_steps = decay_steps
        self._decay_factor = decay_factor
        self._least = least
        self._warmup_steps = warmup_steps
        self._schedule = schedule

    def __call__(self, step: Any) -> Any:
        """Return the rate of a step, float32 of shape []."""
        if self._schedule is not None:
            return ops.cast(self._schedule(step), "float32")
        rate = ops.convert_to_tensor(self._rates[0], "float32")
        for boundary, later in zip(self._boundaries, self._rates[1:], strict=True):
            rate = ops.where(step > boundary, later, rate)
        if self._decay_steps > 0 and self._decay_factor > 0:
            stairs = ops.cast(step // self._decay_steps, "float32")
            rate = ops.maximum(rate * ops.power(self._decay_factor, stairs), self._least)
        if self._warmup_steps:
            rising = self._rates[0] * ops.cast(step, "float32") / self._warmup_steps
            rate = ops.where(step < self._warmup_steps, rising, rate)
        return rate

    def get_config(self) -> dict[str, Any]:
        """Return the arguments."""
        schedule = self._schedule
        return {
            "rates": self._rates,
            "boundaries": self._boundaries,
            "decay_steps": self._decay_steps,
            "decay_factor": self._decay_factor,
            "least": self._least,
            "warmup_steps": self._warmup_steps,
            "schedule": None if schedule is None else keras.saving.serialize_keras_object(schedule),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRate:
        """Make one of what `get_config` returned."""
        schedule = config["schedule"]
        if schedule is not None:
            schedule = keras.saving.deserialize_keras_object(schedule)
        return cls(**{**config, "schedule": schedule})


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
    if any(not 0 <= rate < math.inf for rate in rates):
        raise ValueError(f"{flag}: rates are finite numbers from 0 on.")
    try:
        boundaries = [int(int(part) * batches) - 1 for part in parts[1::2]]
    except ValueError:
        raise ValueError(f"{flag}: epochs are whole numbers, got {parts[1::2]}.") from None
    if any(later <= earlier for earlier, later in itertools.pairwise(boundaries)):
        raise ValueError(f"{flag}: epochs must rise.")
    return rates, boundaries


def optimizer_of(flags: Any, learning_rate: LearningRate) -> keras.optimizers.Optimizer:
    """Return the optimizer that the flags ask for.

    Momentum is Nesterov's, as in the original, and it and RMSProp are those of TensorFlow 1: the
    rate is no part of momentum, and RMSProp's mean of squares begins at 1.

    Raises:
        ValueError: if there is none of that name.
    """
    clip: dict[str, Any] = {"clipvalue": flags.gradient_clip}
    if flags.optimizer == "momentum":
        return FormerMomentum(learning_rate, flags.momentum, nesterov=True, **clip)
    if flags.optimizer == "sgd":
        return keras.optimizers.SGD(learning_rate, **clip)
    if flags.optimizer == "rmsprop":
        return FormerRMSProp(
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
