"""Where a variable lies: which server keeps which of its rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Part:
    """The piece of a variable that one parameter server keeps.

    Attributes:
        server: the number of the server's task.
        index: the number of the part in its variable.
        start: its first row of axis 0.
        stop: the row after its last. A scalar has the one part ``(0, 1)``.
    """

    server: int
    index: int
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """A variable's place on the parameter servers.

    Attributes:
        key: what the cluster calls it; no two variables of a strategy share one.
        path: what its user calls it.
        shape: of the whole variable.
        dtype: as Keras names it.
        parts: in the order of their rows, without gaps.
    """

    key: str
    path: str
    shape: tuple[int, ...]
    dtype: str
    parts: tuple[Part, ...]

    def part_shape(self, part: Part) -> tuple[int, ...]:
        """The shape of what `part` holds."""
        return (part.stop - part.start, *self.shape[1:]) if self.shape else ()

    def part_name(self, part: Part) -> str:
        """What the servers call `part`."""
        return f"{self.key}/{part.index}"

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Layout:
        """What `to_json` described."""
        parts = tuple(Part(**part) for part in value["parts"])
        return cls(value["key"], value["path"], tuple(value["shape"]), value["dtype"], parts)
