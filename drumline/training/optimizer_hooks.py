"""Hooks by which optimizers give their gradients to code that updates in their place."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from jax.ad_checkpoint import checkpoint_name

UpdateInterceptor = Callable[[Any, Sequence[Any], Sequence[Any]], None]
"""Takes an optimizer, gradients and their variables, in the place of the optimizer's update."""

SeedListener = Callable[[Any], None]
"""Is called with a `keras.random.SeedGenerator`'s state when it is drawn from."""

_taker: contextvars.ContextVar[UpdateInterceptor | None] = contextvars.ContextVar(
    "drumline_update_interceptor", default=None
)
_seeds: contextvars.ContextVar[SeedListener | None] = contextvars.ContextVar(
    "drumline_seeds_noted", default=None
)


def update_interceptor() -> UpdateInterceptor | None:
    """Who takes the gradients of the outermost optimizer; None where optimizers update."""
    return _taker.get()


def note_draw(state: Any) -> None:
    """Say that a seed generator with the variable `state` is drawn from."""
    note = _seeds.get()
    if note is not None:
        note(state)


@contextlib.contextmanager
def intercept_optimizer_updates(taker: UpdateInterceptor, seeds: SeedListener) -> Iterator[None]:
    """Within the block `taker` is called instead of an optimizer's ``apply``.

    Args:
        taker: called with the optimizer, the gradients and the variables.
        seeds: called with the state of each seed generator that is drawn from.
    """
    tokens = _taker.set(taker), _seeds.set(seeds)
    try:
        yield
    finally:
        _taker.reset(tokens[0])
        _seeds.reset(tokens[1])


_MARK = "drumline gradient "


class GradientMarks:
    """Marks in a trace where optimizers are given the gradients of variables.

    A mark is an operation that gives its operand. That of a gradient which is not summed over the
    replicas stands for the sum: whoever asks for such has to put it in its place.

    Args:
        variables: whose gradients are marked.
        unreduced: the positions among them of those whose gradients are not summed.

    Attributes:
        unreduced: see above.
        made: the positions of the variables whose gradients were marked, in order.
    """

    def __init__(self, variables: Sequence[Any], unreduced: Collection[int]) -> None:
        self._positions = {id(variable): i for i, variable in enumerate(variables)}
        self.unreduced = frozenset(unreduced)
        self.made: list[int] = []

    @contextlib.contextmanager
    def marking(self) -> Iterator[None]:
        """Within the block optimizers make these marks."""
        token = _marks.set(self)
        try:
            yield
        finally:
            _marks.reset(token)

    def is_summed(self, variable: Any) -> bool:
        """Whether the gradient of `variable` is to be summed over the replicas."""
        return self._positions.get(id(variable)) not in self.unreduced

    def marked(self, variable: Any, gradient: Any) -> Any:
        """`gradient`, marked as that of `variable`."""
        position = self._positions.get(id(variable))
        if position is None:
            return gradient
        self.made.append(position)
        return checkpoint_name(gradient, f"{_MARK}{position}")

    @staticmethod
    def position_of(eqn: Any) -> int | None:
        """The position of the variable whose gradient an equation marks; None if it marks none."""
        name = str(eqn.params["name"]) if eqn.primitive.name == "name" else ""
        return int(name.removeprefix(_MARK)) if name.startswith(_MARK) else None


_marks: contextvars.ContextVar[GradientMarks | None] = contextvars.ContextVar(
    "drumline_gradient_marks", default=None
)


def gradient_marks() -> GradientMarks | None:
    """The marks that are to be made, if any."""
    return _marks.get()
