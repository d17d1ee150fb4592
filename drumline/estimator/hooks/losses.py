"""The losses of a training loop's steps, which are looked at when the device has them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
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

    Reading a number costs a loop some 10 µs, and makes it wait for the step. So where steps are
    short, losses are read in groups: one program makes an array of `GROUP` of them right behind
    their steps, which is read when as many later steps have begun. Where steps are long, a loss is
    read when the next step has begun.

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
        self._unread: deque[tuple[Any, int]] = deque()
        self._group: tuple[Any, list[int]] | None = None
        self._looked_at = time.monotonic()
        self.last: float | None = None

    def add(self, loss: Any, step: int) -> None:
        """Note the loss of a step that has begun; look at earlier ones if it is time.

        Raises:
            NanLossDuringTrainingError: one of these is NaN.
        """
        if self._same_everywhere or not _is_scalar_on_device(loss):
            self.look()
            self._unread.append((loss, step))
            return
        self._unread.append((loss, step))
        if time.monotonic() - self._looked_at > _PATIENCE_S:
            self._look_at(but=1)
        elif len(self._unread) == GROUP:
            self._look_at_group()
            steps = [each for _, each in self._unread]
            self._group = _together(*(each for each, _ in self._unread)), steps
            self._unread.clear()

    def look(self) -> None:
        """Look at all that are left: wait for their steps.

        Raises:
            NanLossDuringTrainingError: one is NaN.
        """
        self._look_at(but=0)

    def _look_at(self, but: int) -> None:
        self._look_at_group()
        while len(self._unread) > but:
            loss, step = self._unread.popleft()
            self._each([float(loss)], [step])

    def _look_at_group(self) -> None:
        if self._group is not None:
            (losses, steps), self._group = self._group, None
            self._each(np.asarray(losses).tolist(), steps)

    def _each(self, losses: Sequence[float], steps: Sequence[int]) -> None:
        self._looked_at = time.monotonic()
        for loss, step in zip(losses, steps, strict=True):
            self.last = loss
            if math.isnan(loss):
                raise NanLossDuringTrainingError
            self._look(loss, step)


def _is_scalar_on_device(loss: Any) -> bool:
    return isinstance(loss, jax.Array) and loss.ndim == 0


@jax.jit
def _together(*losses: Any) -> Any:
    return jax.numpy.stack(losses)
