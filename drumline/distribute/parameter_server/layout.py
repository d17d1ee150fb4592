"""Where a variable lies: which server keeps which of its rows.

On which servers the parts of new variables go: to one after the other.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drumline.distribute.parameter_server.partitioners import Partitioner


@dataclass(frozen=True)
class ShardLayout:
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
    parts: tuple[ShardLayout, ...]

    def part_shape(self, part: ShardLayout) -> tuple[int, ...]:
        """The shape of what `part` holds."""
        return (part.stop - part.start, *self.shape[1:]) if self.shape else ()

    def part_name(self, part: ShardLayout) -> str:
        """What the servers call `part`."""
        return f"{self.key}/{part.index}"

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Layout:
        """What `to_json` described."""
        parts = tuple(ShardLayout(**part) for part in value["parts"])
        return cls(value["key"], value["path"], tuple(value["shape"]), value["dtype"], parts)


class RoundRobin:
    """Gives each part to the next server, as TensorFlow's parameter-server strategy does.

    Args:
        num_servers: how many parameter servers there are.
        partitioner: into how many parts variables are cut; None leaves each whole.
        prefix: what the variables' keys begin with.
    """

    def __init__(self, num_servers: int, partitioner: Partitioner | None, prefix: str = "") -> None:
        self._prefix = prefix
        self._num_servers = num_servers
        self._partitioner = partitioner
        self._variables = itertools.count()
        self._next = 0
        self._lock = threading.Lock()

    def place(self, path: str, shape: Sequence[int], dtype: str) -> Layout:
        """The layout of a new variable.

        Raises:
            ValueError: if the partitioner cuts along another axis than the first.
        """
        shape = tuple(shape)
        cuts = _even_cuts(shape[0] if shape else 1, self._shards(path, shape, dtype))
        with self._lock:
            key = f"{self._prefix}{next(self._variables)}:{path}"
            parts = tuple(
                ShardLayout((self._next + index) % self._num_servers, index, start, stop)
                for index, (start, stop) in enumerate(cuts)
            )
            self._next = (self._next + len(parts)) % self._num_servers
        return Layout(key, path, shape, dtype, parts)

    def _shards(self, path: str, shape: tuple[int, ...], dtype: str) -> int:
        if self._partitioner is None or not shape or shape[0] == 0:
            return 1
        counts = list(self._partitioner(shape, dtype, axis=0))
        if len(counts) != len(shape) or any(count != 1 for count in counts[1:]):
            raise ValueError(
                f"The partitioner cuts variable {path!r} of shape {shape} into {counts} parts "
                "along its axes. Parameter servers cut along axis 0 alone: return "
                f"[n{', 1' * (len(shape) - 1)}]."
            )
        if not 1 <= counts[0] <= shape[0]:
            raise ValueError(
                f"The partitioner cuts the {shape[0]} rows of variable {path!r} into {counts[0]} "
                "parts; there must be 1 to as many parts as rows."
            )
        return int(counts[0])


def _even_cuts(rows: int, parts: int) -> list[tuple[int, int]]:
    """The first parts get one row more where rows do not divide, as in TensorFlow."""
    small, larger = divmod(rows, parts)
    cuts, start = [], 0
    for index in range(parts):
        stop = start + small + (index < larger)
        cuts.append((start, stop))
        start = stop
    return cuts
