"""Elements drawn from several datasets: by chance, by a dataset of choices, or by class."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from drumline.data.cardinality import INFINITE, UNKNOWN
from drumline.data.plan.node import Node, Specified
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import LEAF_STRUCTURE


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn(Specified):
    """Elements of several datasets, each time of one of them.

    Attributes:
        stop_on_empty: whether it ends when a dataset that is drawn from has.
    """

    stop_on_empty: bool

    def among(self, datasets: Sequence[Node], choices: int) -> int:
        """The cardinality, if there are ``choices`` draws."""
        sizes = [node.cardinality for node in datasets]
        if choices == 0 or all(size == 0 for size in sizes):
            return 0
        if choices != INFINITE:
            return UNKNOWN
        unending = [size == INFINITE for size in sizes]
        endless = all(unending) if self.stop_on_empty else any(unending)
        return INFINITE if endless else UNKNOWN


@dataclasses.dataclass(frozen=True, eq=False)
class Sample(Drawn):
    """Draws by chance.

    Attributes:
        weights: of the datasets; ``None``: the last input gives weights for each draw.
        seed: always set here, drawn when the user gave none.
        rerandomize: whether each epoch, and each pass of a ``repeat``, draws anew.
    """

    weights: tuple[float, ...] | None
    seed: int
    rerandomize: bool
    name: ClassVar[str] = "sample_from_datasets"

    @property
    def datasets(self) -> tuple[Node, ...]:
        """Those that elements are taken of."""
        return self.inputs if self.weights is not None else self.inputs[:-1]

    @property
    def cardinality(self) -> int:
        choices = INFINITE if self.weights is not None else self.inputs[-1].cardinality
        return self.among(self.datasets, choices)

    def arguments(self) -> str:
        weights = "a dataset" if self.weights is None else list(self.weights)
        return (
            f"weights={weights}, stop_on_empty_dataset={self.stop_on_empty}, "
            f"rerandomize_each_iteration={self.rerandomize}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Choose(Drawn):
    """Takes the dataset whose number the first input gives."""

    name: ClassVar[str] = "choose_from_datasets"

    @property
    def cardinality(self) -> int:
        return self.among(self.inputs[1:], self.inputs[0].cardinality)

    def arguments(self) -> str:
        return f"stop_on_empty_dataset={self.stop_on_empty}"


@dataclasses.dataclass(frozen=True, eq=False)
class ByClass(Node):
    """Something about elements ``(class, data)``.

    Attributes:
        target: the shares that the classes shall have.
        initial: the shares that they have; ``None`` if these are counted on the way.
    """

    target: tuple[float, ...]
    initial: tuple[float, ...] | None

    def arguments(self) -> str:
        initial = "counted" if self.initial is None else list(self.initial)
        return f"target_dist={list(self.target)}, initial_dist={initial}"


@dataclasses.dataclass(frozen=True, eq=False)
class Thin(ByClass):
    """Drops elements at random, so many of each class that the shares are right."""

    seed: int
    name: ClassVar[str] = "reject"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return inner if inner in (0, INFINITE) else UNKNOWN


@dataclasses.dataclass(frozen=True, eq=False)
class OriginalShare(ByClass):
    """After each element, which share need not be thinned: a pair of weights."""

    name: ClassVar[str] = "share of the original"

    @property
    def spec(self) -> ElementSpec:
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((2,), np.float64),))
