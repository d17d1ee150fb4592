"""What a scheduled function is called with, taken apart."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline.distribute.arguments import Form, Identity, take_apart
from drumline.distribute.parameter_server.coordinator.per_worker import (
    PerWorkerDataset,
    PerWorkerIterator,
)
from drumline.distribute.parameter_server.coordinator.remote_value import RemoteValue


@dataclass(frozen=True)
class Place:
    """Stands for a per-worker iterator: whichever it is, the program is the same.

    Attributes:
        index: which of the arguments' iterators it is.
        treedef: the structure of its elements.
        specs: the leaves of their specification.
    """

    index: int
    treedef: Any
    specs: tuple[Any, ...]


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call.

    Attributes:
        form: all but arrays and iterators; it has a `Place` for each of the latter.
        arrays: the arrays, in order.
        iterators: the iterators, in order.
    """

    form: Form
    arrays: list[np.ndarray]
    iterators: list[PerWorkerIterator]

    @property
    def places(self) -> list[Place]:
        """What stands for the iterators."""
        return [
            fixed.value
            for fixed in self.form.fixed
            if isinstance(fixed, Identity) and isinstance(fixed.value, Place)
        ]


def opened(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Take a call's arguments apart; waits for the results of other functions among them.

    Raises:
        TypeError: if one is a dataset, an iterator of this process, or an array of strings.
    """
    iterators: list[PerWorkerIterator] = []

    def as_argument(leaf: Any) -> Any:
        if isinstance(leaf, PerWorkerIterator):
            if not any(each is leaf for each in iterators):
                iterators.append(leaf)
            index = next(i for i, each in enumerate(iterators) if each is leaf)
            leaves, treedef = jax.tree.flatten(leaf.element_spec)
            return Identity(_place(index, treedef, tuple(leaves)))
        if isinstance(leaf, PerWorkerDataset):
            raise TypeError(
                "A scheduled function got a per-worker dataset. Pass an iterator: "
                "`iter(coordinator.create_per_worker_dataset(...))`, once for each pass over it."
            )
        return leaf.fetch() if isinstance(leaf, RemoteValue) else leaf

    tree = jax.tree.map(as_argument, (tuple(args), dict(kwargs)))
    form, arrays = take_apart(*tree)
    return Arguments(form, [np.asarray(array) for array in arrays], iterators)


@functools.lru_cache(maxsize=1024)
def _place(index: int, treedef: Any, specs: tuple[Any, ...]) -> Place:
    return Place(index, treedef, specs)
