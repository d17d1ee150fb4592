"""Datasets and iterators of which every worker has its own, as the chief's program holds them.

They are numbers by which workers know the real ones (`commands`), and element specifications. While
a function is traced, a `TracedIterator` stands for each: it gives symbols, and asks for more by
`NeedsMoreDraws` if the function draws more elements than were expected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.coordinator.cluster_coordinator import (
        ClusterCoordinator,
    )


class PerWorkerValues:
    """A value for each worker, as ``tf.distribute.experimental.coordinator.PerWorkerValues``.

    Passed to `ClusterCoordinator.schedule`, each worker uses its own.
    """


class PerWorkerDataset(PerWorkerValues):
    """A dataset on every worker; ``iter`` of it gives an iterator on every worker.

    Attributes:
        number: by which workers know it.
        element_spec: of its elements.
    """

    def __init__(self, coordinator: ClusterCoordinator, number: int, element_spec: Any) -> None:
        self._coordinator = coordinator
        self.number = number
        self.element_spec = element_spec

    def __iter__(self) -> PerWorkerIterator:
        return self._coordinator.iterate(self)


class PerWorkerIterator(PerWorkerValues):
    """An iterator on every worker. A scheduled function draws from it by ``next``.

    Attributes:
        number: by which workers know it.
        dataset: what it goes through.
    """

    def __init__(self, number: int, dataset: PerWorkerDataset) -> None:
        self.number = number
        self.dataset = dataset

    @property
    def element_spec(self) -> Any:
        """Of the elements, a ``TensorSpec`` a leaf."""
        return self.dataset.element_spec

    def __iter__(self) -> PerWorkerIterator:
        return self

    def __next__(self) -> Any:
        raise RuntimeError(
            "A per-worker iterator has its elements on the workers: pass it to "
            "`ClusterCoordinator.schedule`, and call next() in the scheduled function."
        )


class NeedsMoreDraws(BaseException):  # a request, not an error
    """The function draws more elements than were expected. Not an Exception: no handler of the
    user's is to catch it."""

    def __init__(self, argument: int) -> None:
        super().__init__(argument)
        self.argument = argument


class TracedIterator:
    """What stands for a per-worker iterator while a function is traced.

    Args:
        argument: which of the function's iterators it is.
        treedef: the structure of an element.
        elements: the leaves of the elements that there are.
    """

    def __init__(self, argument: int, treedef: Any, elements: list[list[Any]]) -> None:
        self._argument = argument
        self._treedef = treedef
        self._elements = elements
        self.drawn = 0

    def __iter__(self) -> TracedIterator:
        return self

    def __next__(self) -> Any:
        if self.drawn == len(self._elements):
            raise NeedsMoreDraws(self._argument)
        self.drawn += 1
        return jax.tree.unflatten(self._treedef, self._elements[self.drawn - 1])

    def get_next(self) -> Any:
        """The next element; the same as ``next``."""
        return next(self)
