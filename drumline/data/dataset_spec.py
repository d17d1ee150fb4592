"""A leaf of an element that is itself a dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.spec import STRING, ElementSpec, TensorSpec, merge_leaf
from drumline.data.structure import flatten


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class DatasetSpec(TensorSpec):
    """Says what the elements of a dataset inside a dataset look like, as ``tf.data.DatasetSpec``.

    Among a dataset's leaves it takes the place of a ``TensorSpec``; a column of such leaves holds
    ``Dataset`` objects.

    Attributes:
        element: the spec of the inner dataset's elements.
    """

    element: ElementSpec = dataclasses.field(kw_only=True)

    def __init__(self, element_spec: Any, dataset_shape: Sequence[int] = ()):
        """Takes a nested structure of specs, as ``Dataset.element_spec`` gives it.

        Raises:
            ValueError: ``dataset_shape`` is not that of a single dataset.
        """
        if tuple(dataset_shape):
            raise ValueError(
                "DatasetSpec: arrays of datasets do not exist; leave dataset_shape out"
            )
        if not isinstance(element_spec, ElementSpec):
            leaves, structure = flatten(element_spec)
            element_spec = ElementSpec(structure, tuple(leaves))
        super().__init__((), STRING)
        object.__setattr__(self, "element", element_spec)

    @property
    def element_spec(self) -> Any:
        """The specs of the inner dataset's elements, in their structure."""
        return self.element.tree()

    @property
    def is_string(self) -> bool:
        return False

    @property
    def nbytes(self) -> int | None:
        return None

    def accepts(self, shape: Sequence[int], dtype: np.dtype) -> bool:
        return not shape and dtype == STRING

    def batched(self, size: int | None) -> TensorSpec:
        raise TypeError(
            f"datasets cannot be stacked: a leaf is {self!r}; make its elements arrays first, with "
            "flat_map(lambda window: window.batch(n))"
        )

    def merged(self, other: TensorSpec) -> TensorSpec | None:
        if not isinstance(other, DatasetSpec):
            return None
        element = merged_element(self.element, other.element)
        return None if element is None else DatasetSpec(element)

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"


def merged_element(a: ElementSpec, b: ElementSpec) -> ElementSpec | None:
    """The narrowest spec of elements of both, or ``None`` if there is none."""
    if a == b:
        return a
    if a.structure != b.structure:
        return None
    leaves = [merge_leaf(x, y) for x, y in zip(a.leaves, b.leaves, strict=True)]
    found = [leaf for leaf in leaves if leaf is not None]
    return a.with_leaves(found) if len(found) == len(leaves) else None


def has_datasets(spec: ElementSpec) -> bool:
    """Whether some leaf is a dataset."""
    return any(isinstance(leaf, DatasetSpec) for leaf in spec.leaves)
