"""The losses of a training loop's steps, which are looked at when the device has them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from drumline.estimator.hooks.training_hooks import NanLossDuringTrainingError

GROUP = 16
"""How many losses are read from the device at once."""

_PATIENCE_S = 0.5
"""After how long a loss is looked at, though no whole group of later ones has begun."""


class Losses:
    """Looks at each step's loss in its order, and does not stop the device for it.

    Reading a number makes a loop wait for the step. So where steps are short, losses are read in
    groups, when as many later steps have begun; one program makes an array of a group, as copying a
    number from an accelerator costs some 10 µs. Where steps are long, a loss is read when the next
    step has begun.

    Args:
        look: is given each loss and its step.
        same_everywhere: whether several processes make the steps. They must find a NaN at the same
            one, and no clock may say at which: each loss is read when the next step has begun.

    Attributes:
        last: the loss that was looked at last; None before the first.
    """

    def __init__(self, look: Callable[[float, int], None], *, same_everywhere: bool):
        self._look = look
        self._same_everywhere = same_everywhere
        self._unread: list[Any] = []
        self._steps: list[int] = []
        self._group: tuple[Any, list[int]] | None = None
        self._in_groups: bool | None = None
        self._in_memory = False
        self._looked_at = time.monotonic()
        self.last: float | None = None

    def add(self, loss: Any, step: int) -> None:
        """Note the loss of a step that has begun; look at earlier ones if it is time.

        Raises:
            NanLossDuringTrainingError: one of these is NaN.
        """
        if self._in_groups is None:
            on_device = isinstance(loss, jax.Array) and loss.ndim == 0
            self._in_groups = on_device and not self._same_everywhere
            self._in_memory = self._in_groups and _platform(loss) == "cpu"
        if not self._in_groups:
            self.look()
        self._unread.append(loss)
        self._steps.append(step)
        if not self._in_groups:
            return
        if time.monotonic() - self._looked_at > _PATIENCE_S:
            self._look_at(but=1)
        elif len(self._steps) == GROUP:
            self._look_at_group()
            losses = self._unread if self._in_memory else _together(*self._unread)
            self._group = losses, self._steps
            self._unread, self._steps = [], []

    def look(self) -> None:
        """Look at all that are left: wait for their steps.

        Raises:
            NanLossDuringTrainingError: one is NaN.
        """
        self._look_at(but=0)

    def _look_at(self, but: int) -> None:
        self._look_at_group()
        count = len(self._steps) - but
        losses, steps = self._unread[:count], self._steps[:count]
        del self._unread[:count], self._steps[:count]
        self._each(losses, steps)

    def _look_at_group(self) -> None:
        if self._group is not None:
            (losses, steps), self._group = self._group, None
            self._each(losses if self._in_memory else np.asarray(losses), steps)

    def _each(self, losses: Iterable[Any], steps: Sequence[int]) -> None:
        for loss, step in zip(losses, steps, strict=True):
            # The conversion of JAX's costs 7 µs where the number is in memory.
            self.last = number = float(np.asarray(loss).item())
            self._looked_at = time.monotonic()
            if math.isnan(number):
                raise NanLossDuringTrainingError
            self._look(number, step)


def _platform(loss: jax.Array) -> str:
    return str(next(iter(loss.devices())).platform)


@jax.jit
def _together(*losses: Any) -> Any:
    return jax.numpy.stack(losses)
