"""An optimizer's update of one variable, compiled, as it was sent to the servers."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline._core import UpdateRule
from drumline.distribute.parameter_server.compiler.container import unsealed
from drumline.distribute.parameter_server.compiler.exporting import digest_of, load_program
from drumline.distribute.parameter_server.server.errors import (
    PartMismatchError,
    RequestError,
    UnknownRuleError,
)
from drumline.distribute.parameter_server.server.requests import dtype_of, field
from drumline.distribute.parameter_server.server.row_update import RowUpdate

LEARNING_RATE = "learning_rate"


@dataclass(frozen=True)
class Slot:
    """What an optimizer keeps beside a variable.

    Attributes:
        name: as the optimizer calls it.
        shape: None if it has the variable's.
        dtype: of its elements.
        initial: the value of all of its elements at first.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: np.dtype
    initial: float

    @classmethod
    def from_json(cls, header: dict[str, Any]) -> Slot:
        """The slot that a request describes."""
        shape = header.get("shape")
        if shape != "rows" and not isinstance(shape, (list, tuple)):
            raise RequestError(f"A slot's shape is {shape!r}; pass 'rows' or a list of sizes.")
        return cls(
            field(header, "name", str),
            None if shape == "rows" else tuple(shape),
            dtype_of(field(header, "dtype", str)),
            float(header.get("initial", 0.0)),
        )

    def to_json(self) -> dict[str, Any]:
        """As `from_json` takes it."""
        return {
            "name": self.name,
            "shape": "rows" if self.shape is None else list(self.shape),
            "dtype": self.dtype.name,
            "initial": self.initial,
        }


class Rule:
    """A compiled update ``(value, slots, gradient, iteration, learning rate) -> (value, slots)``.

    A sparse rule is for any number of rows of a table, and treats each by itself: it is called with
    rows in pieces, and with further rows whose results are not used.

    Args:
        name: what parts call it.
        sparse: whether it is for rows of a table.
        slots: what it keeps beside a variable.
        program: what `programs.export_function` made of the update.
        formula: the same update of float32 arrays in place, if there is one.

    Raises:
        RequestError: if the formula needs other slots.
    """

    def __init__(
        self,
        name: str,
        sparse: bool,
        slots: Sequence[Slot],
        program: bytes,
        formula: UpdateRule | None = None,
    ) -> None:
        self.name = name
        self.sparse = sparse
        self.slots = tuple(slots)
        self.formula = formula
        self._program = program
        load_program(program)  # which says what is wrong with one that cannot run here
        exported = jax.export.deserialize(bytearray(unsealed(program)))
        self._value = exported.in_avals[0]
        if formula is not None:
            self._check_formula(formula)
        self._digest = digest_of(exported)
        self._reads_rate = len(exported.in_avals) - 1 in exported.module_kept_var_idx
        self._learning_rate: np.float32 | None = None
        self._lock = threading.Lock()
        self._compiled: dict[tuple[int, ...], Callable[..., Any]] = {}

    def _check_formula(self, formula: UpdateRule) -> None:
        kinds = [(None, self._value.dtype), *((slot.shape, slot.dtype) for slot in self.slots)]
        if kinds != [(None, np.float32)] * (1 + formula.slots):
            raise RequestError(
                f"The rule {self.name!r} came with a formula of {formula.slots} slots, for float32 "
                f"alone; it has the slots {self.slots} of {self._value.dtype}. Send it without."
            )

    def is_same(self, other: Rule) -> bool:
        """Whether both are the same program with the same slots."""
        return (self.sparse, self.slots, self._digest) == (
            other.sparse,
            other.slots,
            other._digest,
        )

    @property
    def learning_rate(self) -> np.float32:
        """The learning rate of the next updates.

        Raises:
            UnknownRuleError: if none was set, and the program is not one with a schedule.
        """
        if self._learning_rate is None and not self._reads_rate:
            return np.float32(0)
        if self._learning_rate is None:
            raise UnknownRuleError(
                f"The rule {self.name!r} has no learning rate yet; send one, with 'hyper'."
            )
        return self._learning_rate

    def require_learning_rate(self) -> None:
        """Raise as `learning_rate` does."""
        self.learning_rate  # noqa: B018

    def set_values(self, values: dict[str, Any]) -> None:
        """Set the learning rate of the updates from now on.

        Raises:
            RequestError: if there is anything else to set.
        """
        unknown = sorted(set(values) - {LEARNING_RATE})
        if unknown:
            raise RequestError(f"A rule has no values {unknown}; there is {LEARNING_RATE!r} alone.")
        if LEARNING_RATE in values:
            self._learning_rate = np.float32(values[LEARNING_RATE])

    def check(self, part: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Make sure that the rule can update a part.

        Raises:
            PartMismatchError: if its program is for another shape or dtype.
        """
        value = self._value
        skipped = 1 if self.sparse else 0
        if value.shape[skipped:] == shape[skipped:] and len(value.shape) == len(shape):
            if value.dtype == dtype:
                return
        raise PartMismatchError(
            f"The rule {self.name!r} updates values of shape {value.shape} and dtype "
            f"{value.dtype}; the part {part!r} has {shape} and {dtype}. Send it a rule of its own."
        )

    @functools.cached_property
    def row_update(self) -> RowUpdate:
        """How a sparse rule updates tables."""
        return RowUpdate(self, tuple(self._value.shape[1:]), np.dtype(self._value.dtype))

    def compiled(self, donated: tuple[int, ...]) -> Callable[..., Any]:
        """The update as a function of value, slots, gradient, iteration and learning rate.

        Args:
            donated: which of its arguments may be overwritten.

        Returns:
            A function of arrays that gives the list of the new value and slots.
        """
        function = self._compiled.get(donated)
        if function is None:
            with self._lock:
                function = self._compiled.setdefault(donated, load_program(self._program, donated))
        return function
