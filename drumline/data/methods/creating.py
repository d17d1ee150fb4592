"""Methods that make datasets from what the user holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from drumline.data import construct
from drumline.data.methods.planned import Planned, named


class Creating(Planned):
    """Constructors."""

    @classmethod
    def from_tensor_slices(cls, tensors: Any, name: str | None = None) -> Self:
        """Elements are the rows of the arrays in ``tensors``, which are not copied.

        Args:
            tensors: a nested structure of arrays (n, ...), or of lists of numbers, strings or
                datasets. Elements have a dataset, then, where a list of datasets is.

        Raises:
            ValueError: a leaf is a scalar or a dataset, or first dimensions differ.
            TypeError: a leaf is no array of numbers or strings, or the datasets of a list have
                elements of different structures or dtypes.
        """
        return cls(named(construct.slices(tensors), name))

    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> Self:
        """One element: ``tensors`` itself, in which leaves may be datasets."""
        return cls(named(construct.tensors(tensors), name))

    @classmethod
    def range(cls, *args: int, output_type: Any = np.int64, name: str | None = None) -> Self:
        """The integers of Python's ``range(*args)``, as ``output_type``.

        Raises:
            ValueError: an integer does not fit ``output_type``, or the step is zero.
        """
        return cls(named(construct.integers(args, output_type), name))

    @classmethod
    def from_generator(
        cls,
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Self:
        """Elements are what iterating over ``generator(*args)`` yields, in every epoch anew.

        Args:
            generator: a callable that returns an iterable.
            output_types: the older spelling of ``output_signature``: a nested structure of dtypes,
            output_shapes: and the shapes of the leaves, in the same structure.
            args: arguments of the generator, which get there as arrays.
            output_signature: a nested structure of ``TensorSpec``. Each element is checked against
                it; numbers are converted within their kind. An element that does not fit raises
                when it is its turn, with its index.
            name: shown by ``explain()``.

        An iterator's ``restore`` runs the generator again up to the position.

        Raises:
            TypeError: neither a signature nor types with shapes are given, or both are.
            ValueError: the shapes do not have the structure of the types.
        """
        signature = construct.signature(output_types, output_shapes, output_signature)
        return cls(named(construct.generator(generator, signature, args or ()), name))
