"""Values of many variables in one list, so that a step costs the same however many it writes.

A compiled step takes the old values of its variables as a list and returns the new ones as
another. Putting 3,000 of them into 3,000 variables one by one takes longer than many a step. A
`VariableBuffer` holds the list; the variables look their values up in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from drumline._changes import full_name, note
from drumline.training.cut_values import SLOT, CutValue, as_read, held
from drumline.training.keras_internals import Variable

_OWNED = "_drumline_owned"


class VariableBuffer:
    """The values of a list of variables, which nothing else refers to: they may be donated.

    A variable is in one buffer at a time. Making a buffer ends the buffers its variables were in.

    Args:
        variables: the variables.
        enter: for a variable what it holds, as the step takes it.
        leave: for a variable what the step left, as it holds it.

    Attributes:
        ended: whether another buffer has taken over some of the variables.
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        enter: Callable[[Variable, Any], Any] | None = None,
        leave: Callable[[Variable, Any], Any] | None = None,
    ) -> None:
        self.ended = False
        self._enter = enter or _itself
        self._leave = leave or _itself
        self._variables = list(variables)
        for variable in self._variables:
            slot = vars(variable).get(SLOT)
            if slot is not None:
                slot[0].end()
        self._values: list[Any] = []
        self._foreign: set[int] = set()
        # One by one: what a variable held is let go of before the next one is copied.
        for index, variable in enumerate(self._variables):
            self._values.append(self._enter(variable, _own(variable)))
            state = vars(variable)
            state[SLOT] = (self, index)
            if "_value" in state:
                state["_value"] = None

    def take(self) -> list[Any]:
        """The values, for a step that uses them up and then puts new ones in their place."""
        for index in self._foreign:
            copy = jnp.copy(self._values[index])
            self._values[index] = self._enter(self._variables[index], copy)
        self._foreign.clear()
        return self._values

    @property
    def values(self) -> list[Any]:
        """What the last step left, which the next one uses up."""
        return self._values

    def put(self, values: list[Any]) -> None:
        """Replace the values of all variables by new ones, which nothing else refers to."""
        self._values = values

    def value(self, index: int) -> Any:
        """The value of one variable."""
        return self._leave(self._variables[index], self._values[index])

    def replace(self, index: int, value: Any) -> None:
        """Take the new value of one variable, which others may hold as well."""
        self._foreign.add(index)  # first: an interrupt between the two costs a copy
        self._values[index] = value.rows if type(value) is CutValue else value

    def end(self) -> None:
        """Give every variable its value back."""
        self.ended = True
        for index, variable in enumerate(self._variables):
            state = vars(variable)
            slot = state.get(SLOT)
            if slot is None or slot[0] is not self:  # interrupted before
                continue
            value = self._leave(variable, self._values[index])
            if index not in self._foreign:
                state[_OWNED] = value
            state["_value"] = value
            del state[SLOT]
        self._values, self._leave = [], _itself  # copies on other devices are not kept


def _own(variable: Variable) -> Any:
    """Return the variable's value, or its rows, in an array that nothing else refers to."""
    value = held(variable)
    owned = vars(variable).pop(_OWNED, None) is value
    if type(value) is CutValue:
        value = value.rows
    return value if owned or not isinstance(value, jax.Array) else jnp.copy(value)


def _itself(variable: Variable, value: Any) -> Any:
    return value


class _ValueOrSlot:
    """The attribute ``_value`` of Keras's variables: their own, or what their buffer holds."""

    def __get__(self, variable: Any, owner: Any = None) -> Any:
        if variable is None:
            return self
        state = variable.__dict__
        slot = state.get(SLOT)
        try:
            value = state["_value"] if slot is None else slot[0].value(slot[1])
        except KeyError:
            raise AttributeError(
                f"{type(variable).__name__!r} object has no attribute '_value'"
            ) from None
        if type(value) is CutValue:
            return as_read(value)
        return value

    def __set__(self, variable: Any, value: Any) -> None:
        slot = variable.__dict__.get(SLOT)
        if slot is None:
            variable.__dict__["_value"] = value
        else:
            slot[0].replace(slot[1], value)


def _state(variable: Any) -> dict[str, Any]:
    """What a copy of a variable, or its pickle, consists of."""
    state = {name: value for name, value in vars(variable).items() if name not in (SLOT, _OWNED)}
    if "_value" in state:
        state["_value"] = variable._value
    return state


def install() -> None:
    """Let Keras's variables look their values up in buffers. Calling it again does nothing."""
    if not isinstance(vars(Variable).get("_value"), _ValueOrSlot):
        Variable._value = _ValueOrSlot()
        Variable.__getstate__ = _state
        for name in ("_value", "__getstate__"):
            note(
                "Keras",
                full_name(Variable, name),
                "variables are donated to a step together, and look up their values in its results",
                "no setting; variables of no drumline step hold their values as ever",
            )
