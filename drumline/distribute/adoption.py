"""Which strategy a variable belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax

from drumline.training.keras_internals import Variable

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_OWNER = "_drumline_strategy"


def owner_of(variable: Variable) -> Strategy | None:
    """The strategy in whose scope `variable` was made, or whose step adopted it."""
    owner: Strategy | None = vars(variable).get(_OWNER)
    return owner


def set_owner(variable: Variable, strategy: Strategy) -> None:
    """Let `variable` belong to `strategy`."""
    vars(variable)[_OWNER] = strategy


def adopt(variable: Variable, strategy: Strategy) -> None:
    """Let a variable made outside every scope belong to `strategy`, and place it there.

    Raises:
        RuntimeError: if it belongs to another strategy.
    """
    owner = owner_of(variable)
    if owner is not None and owner is not strategy:
        raise RuntimeError(
            f"Variable {variable.path!r} was made in the scope of {owner!r}, but a step of "
            f"{strategy!r} uses it. Make it inside `with strategy.scope():` of the strategy that "
            "runs the step."
        )
    set_owner(variable, strategy)
    if variable._value is not None:
        # Now, also where the step is part of a trace: what is placed is the variable's own array.
        with jax.ensure_compile_time_eval():
            variable._direct_assign(variable._value)
