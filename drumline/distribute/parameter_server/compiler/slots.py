"""What goes into a step's program and what comes out of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

InputKind = Literal["dense", "rows", "inverse", "rows_by_id", "argument", "state"]
OutputKind = Literal[
    "gradient", "row_gradient", "row_gradient_by_id", "add", "assign", "state", "result"
]


@dataclass(frozen=True)
class Input:
    """One array that a program takes.

    Attributes:
        kind: ``"dense"``: a variable's value; ``"rows"``: the rows of a table that the step looks
            up, each once, padded to the number of its ids; ``"inverse"``: for each id of that table
            where its row is among them; ``"rows_by_id"``, in the place of both: for each id its
            row; ``"argument"``: an array of the step's arguments; ``"state"``: a random
            generator's state, which each worker has its own of.
        key: the variable's key; None for arguments.
        index: which of the arguments' arrays; None for others.
        shape: of the array.
        dtype: its name.
    """

    kind: InputKind
    key: str | None
    index: int | None
    shape: tuple[int, ...]
    dtype: str

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Input:
        """What `to_json` described."""
        return cls(**{**value, "shape": tuple(value["shape"])})


@dataclass(frozen=True)
class Output:
    """One array that a program gives.

    Attributes:
        kind: ``"gradient"``: of a variable; ``"row_gradient"``: of the rows of a table, in the
            order in which they were given; ``"row_gradient_by_id"``: of the row of each id, those
            of one row to be summed; ``"add"``: what to add to a variable; ``"assign"``: its new
            value; ``"state"``: the next state of a random generator; ``"result"``: an array that
            the step returned.
        key: the variable's key; None for results.
        index: which of the results; None for others.
        optimizer: for gradients, the number of the optimizer that applies them.
        shape: of the array.
        dtype: its name.
    """

    kind: OutputKind
    key: str | None
    index: int | None
    optimizer: int | None
    shape: tuple[int, ...]
    dtype: str

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Output:
        """What `to_json` described."""
        return cls(**{**value, "shape": tuple(value["shape"])})
