"""What a dataset says about itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from drumline.datasets.split_expression import resolve_split


@dataclasses.dataclass(frozen=True)
class SplitInfo:
    """One split, or what a split expression selects.

    Attributes:
        name: the split's name, or the expression.
        num_examples: how many examples it has.
    """

    name: str
    num_examples: int


class Splits(Mapping[str, SplitInfo]):
    """The splits of a dataset by name; subscripting takes split expressions too.

    ``info.splits["train[:80%]"].num_examples`` says how many examples that is.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        return dict(self._sizes)

    @property
    def total_num_examples(self) -> int:
        """The number of examples of all splits together."""
        return sum(self._sizes.values())

    def __getitem__(self, expression: str) -> SplitInfo:
        ranges = resolve_split(expression, self._sizes)
        return SplitInfo(expression, sum(part.stop - part.start for part in ranges))

    def __contains__(self, name: object) -> bool:
        return name in self._sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return f"Splits({self._sizes})"


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """A dataset's description, as ``tfds.core.DatasetInfo``.

    Attributes:
        name: its name, as `load` takes it.
        splits: its splits and their sizes.
        features: a ``TensorSpec`` for each column of an example, by name.
        supervised_keys: the names of input and target, which ``as_supervised`` yields.
        description: what the data are and how the splits were made.
        source: where the data come from.
        citation: whom to cite.
    """

    name: str
    splits: Splits
    features: Mapping[str, Any]
    supervised_keys: tuple[str, str] | None
    description: str
    source: str
    citation: str = ""
