"""Bounds that a step puts on ids which mostly keep them anyway: looked at once, not computed.

JAX counts negative ids from a table's end, and all are clipped to the table: five operations for
each lookup, where one look at the largest says that there is nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Described = Sequence[Any]
"""An operation: its name, operands and parameters."""

BOUNDED = "bounded"
_VIEWS = frozenset({"broadcast_in_dim", "expand_dims", "reshape", "squeeze"})


def bounded(x: np.ndarray, *, added: int, most: int) -> np.ndarray:
    """``clip(where(x < 0, x + added, x), 0, most)``."""
    if x.size and int(x.view(f"u{x.dtype.itemsize}").max()) <= most:
        return x
    return np.clip(np.where(x < 0, x + x.dtype.type(added), x), 0, most).astype(x.dtype)


def with_bounds_joined(
    operations: Sequence[Described], inputs: int, outputs: Sequence[Sequence[Any]]
) -> list[Described | None]:
    """The operations with `BOUNDED` in the place of those that it does, and None of what is unused.

    Args:
        operations: of an `IdsProgram`.
        inputs: how many values there are before the first operation's.
        outputs: the values that are wanted.
    """
    values = _Values(operations, inputs, outputs)
    for number in range(inputs, inputs + len(operations)):
        values.join(number)
    wanted = values.wanted(outputs)
    return [each if number in wanted else None for number, each in enumerate(values.made, inputs)]


class _Values:
    def __init__(
        self, operations: Sequence[Described], inputs: int, outputs: Sequence[Sequence[Any]]
    ) -> None:
        self.made = list(operations)
        self._inputs = inputs
        operands = [each for operation in operations for each in operation[1]]
        operands += [each for group in outputs for each in group]
        self._uses = Counter(each for each in operands if isinstance(each, int))

    def join(self, number: int) -> None:
        """If the value is clipped at zero and above, have it done in one operation."""
        most, within = self._with_constant(number, "min")
        zero, source = self._with_constant(within, "max")
        if most is None or zero is None or zero[0] != 0 or not zero[1].startswith("int"):
            return
        *views, origin = self._seen_through(source)
        added, start = self._counted_from_end(origin)
        if added is None or any(self._uses[each] != 1 for each in (within, *views, origin)):
            self._set(number, (BOUNDED, [source], {"added": 0, "most": most[0]}))
        else:
            self._set(origin, (BOUNDED, [start], {"added": added[0], "most": most[0]}))
            self._set(number, ("copy", [source], {}))

    def wanted(self, outputs: Sequence[Sequence[Any]]) -> set[int]:
        """All values that those depend on."""
        found: set[int] = set()
        left = [each for group in outputs for each in group]
        while left:
            number = left.pop()
            if isinstance(number, int) and number not in found:
                found.add(number)
                left += self._operation(number)[1]
        return found

    def _operation(self, number: Any) -> Described:
        own = isinstance(number, int) and number >= self._inputs
        return self.made[number - self._inputs] if own else ("", [], {})

    def _set(self, number: int, operation: Described) -> None:
        self.made[number - self._inputs] = operation

    def _with_constant(self, number: Any, name: str) -> tuple[Any, Any]:
        """The constant, an integer, and the value that an operation of that name takes."""
        operation = self._operation(number)
        if operation[0] != name or len(operation[1]) != 2:
            return None, None
        first, second = operation[1]
        for constant, value in ((first, second), (second, first)):
            is_integer = not isinstance(constant, int) and isinstance(constant[0], int)
            if is_integer and isinstance(value, int):
                return constant, value
        return None, None

    def _seen_through(self, number: Any) -> Iterator[int]:
        """A value, those that it is a view of, and at last the one that is none."""
        while self._operation(number)[0] in _VIEWS:
            yield number
            number = self._operation(number)[1][0]
        yield number

    def _counted_from_end(self, number: Any) -> tuple[Any, Any]:
        """What is added to a value where it is negative, and the value."""
        operation = self._operation(number)
        if operation[0] != "select_n" or len(operation[1]) != 3:
            return None, None
        which, start, moved = operation[1]
        below, compared = self._with_constant(which, "lt")
        added, source = self._with_constant(moved, "add")
        if below is None or added is None or below[0] != 0 or not compared == source == start:
            return None, None
        return added, start
