"""Methods that put datasets together."""

from __future__ import annotations

from typing import Any, Self

from drumline.data.methods.arguments import count_of
from drumline.data.methods.planned import Planned, merged_options, named
from drumline.data.plan import combining
from drumline.data.spec import ElementSpec, merge_leaf
from drumline.data.structure import flatten


class Combining(Planned):
    """What makes one dataset of several, and ``enumerate``."""

    @classmethod
    def zip(cls, *args: Any, datasets: Any = None, name: str | None = None) -> Self:
        """Elements at the same position side by side; ends with the shortest.

        Args:
            args: datasets, or one nested structure of datasets, whose shape elements take.
            datasets: the same as one argument.
            name: shown by ``explain()``.
        """
        if args and datasets is not None:
            raise TypeError("zip: give the datasets in order, or as `datasets`, not both")
        given = datasets if datasets is not None else args[0] if len(args) == 1 else args
        leaves, structure = flatten(given)
        for leaf in leaves:
            if not isinstance(leaf, Planned):
                raise TypeError(f"zip takes datasets, got {type(leaf).__name__}")
        if not leaves:
            raise ValueError("zip needs at least one dataset")
        options = merged_options(leaves)
        plan = combining.Zip(tuple(d._plan for d in leaves), structure)
        return cls(named(plan, name), options)

    def enumerate(self, start: int = 0, name: str | None = None) -> Self:
        """Pairs ``(number, element)`` with int64 numbers from ``start``."""
        return self._with(
            combining.Enumerate((self._plan,), count_of(start, "enumerate", "start")), name
        )

    def concatenate(self, dataset: Planned, name: str | None = None) -> Self:
        """This dataset's elements, then the other's.

        Raises:
            TypeError: structures, dtypes or ranks differ, or it is no dataset.
        """
        if not isinstance(dataset, Planned):
            raise TypeError(f"concatenate takes a dataset, got {type(dataset).__name__}")
        spec = merged_spec(self._plan.spec, dataset._plan.spec)
        options = merged_options((self, dataset))
        plan = combining.Concatenate((self._plan, dataset._plan), spec)
        return type(self)(named(plan, name), options)


def merged_spec(first: ElementSpec, second: ElementSpec) -> ElementSpec:
    """The narrowest spec of elements of both."""
    if first.structure == second.structure:
        leaves = [merge_leaf(a, b) for a, b in zip(first.leaves, second.leaves, strict=True)]
        found = [leaf for leaf in leaves if leaf is not None]
        if len(found) == len(leaves):
            return first.with_leaves(found)
    raise TypeError(
        f"concatenate: elements must have the same structure, dtypes and ranks; the first has "
        f"{first.tree()}, the second {second.tree()}"
    )
