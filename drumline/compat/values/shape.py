"""`TensorShape` and its dimensions, as ``tf.TensorShape`` and ``tf.compat.v1.Dimension``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, cast

import numpy as np


class Dimension:
    """A size that may be unknown, as ``tf.compat.v1.Dimension``: what `TensorShape.dims` lists.

    What is computed of an unknown one is unknown, and what it is compared with gives None.

    Args:
        value: a number of at least 0, another dimension, or None for an unknown one.

    Raises:
        TypeError: it is no integer.
        ValueError: it is negative.

    Example:
        >>> import drumline.compat.tf as tf
        >>> (tf.TensorShape([None, 3]).dims[1] * 2).value
        6
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any):
        value = value.value if isinstance(value, Dimension) else value
        try:
            self._value = None if value is None else operator.index(value)
        except TypeError:
            raise TypeError(
                "Dimension value must be integer or None or have an __index__ method, got value "
                f"{value!r} with type {type(value)!r}"
            ) from None
        if self._value is not None and self._value < 0:
            raise ValueError(f"Dimension {self._value} must be >= 0")

    @property
    def value(self) -> int | None:
        """The number; None if it is unknown."""
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        """Whether both can be one number."""
        other = Dimension(other)
        return None in (self.value, other.value) or self.value == other.value

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ``ValueError`` unless `is_compatible_with`."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {Dimension(other)} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """What is known of a number that is both.

        Raises:
            ValueError: no number can be both.
        """
        other = Dimension(other)
        self.assert_is_compatible_with(other)
        return other if self.value is None else self

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return self._value  # type: ignore[return-value]  # Python raises for an unknown one

    __index__ = __int__

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: 'Dimension': use the value of {self!r}")

    def __repr__(self) -> str:
        return f"Dimension({self._value!r})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dimension, (self._value,)

    def __truediv__(self, other: Any) -> Dimension:
        raise TypeError(
            f"unsupported operand type(s) for /: 'Dimension' and '{type(other).__name__}', please "
            "use // instead"
        )

    def __rtruediv__(self, other: Any) -> Dimension:
        raise TypeError(
            f"unsupported operand type(s) for /: '{type(other).__name__}' and 'Dimension', please "
            "use // instead"
        )


def _install_operators() -> None:
    """Give `Dimension` its arithmetic and its comparisons."""

    def operating(function: Callable[[Any, Any], Any], known: Any, swapped: bool = False) -> Any:
        def operate(self: Dimension, given: Any) -> Any:
            try:
                other = Dimension(given)
            except (TypeError, ValueError):
                return NotImplemented
            if self.value is None or other.value is None:
                return known(None)
            pair = (other.value, self.value) if swapped else (self.value, other.value)
            return known(function(*pair))

        return operate

    for name in ("add", "sub", "mul", "floordiv", "mod"):
        function = getattr(operator, name)
        setattr(Dimension, f"__{name}__", operating(function, Dimension))
        setattr(Dimension, f"__r{name}__", operating(function, Dimension, swapped=True))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Dimension, f"__{name}__", operating(getattr(operator, name), lambda found: found))


_install_operators()


class TensorShape(tuple[int | None, ...]):
    """The dimensions of a tensor, None for unknown ones; ``TensorShape(None)`` if none is known.

    It is a tuple, so that numpy, JAX and Keras take it for a shape.

    Args:
        dims: the dimensions, another shape, one dimension, or None.
    """

    _unknown: bool = False

    def __new__(cls, dims: Any = None) -> TensorShape:
        if isinstance(dims, TensorShape):
            return dims
        if dims is None:
            self = super().__new__(cls, ())
            self._unknown = True
            return self
        if isinstance(dims, (int, np.integer)):
            dims = (dims,)
        return super().__new__(cls, map(_dimension, dims))

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if it is unknown."""
        return None if self._unknown else len(self)

    ndims = rank

    @property
    def dims(self) -> list[Dimension] | None:
        """The dimensions; None if their number is unknown."""
        return None if self._unknown else list(map(Dimension, self))

    def as_list(self) -> list[int | None]:
        """The dimensions.

        Raises:
            ValueError: their number is unknown.
        """
        if self._unknown:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self)

    def num_elements(self) -> int | None:
        """The product of the dimensions; None if one is unknown."""
        if not self.is_fully_defined():
            return None
        return int(np.prod(cast(Any, tuple(self)), dtype=np.int64))

    def is_fully_defined(self) -> bool:
        """Whether all dimensions are known."""
        return not self._unknown and None not in tuple(self)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor can have both shapes."""
        other = TensorShape(other)
        if self._unknown or other._unknown:
            return True
        return len(self) == len(other) and all(
            a is None or b is None or a == b for a, b in zip(self, other, strict=True)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ``ValueError`` unless `is_compatible_with`."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def concatenate(self, other: Any) -> TensorShape:
        """The dimensions of both, one behind the other."""
        other = TensorShape(other)
        if self._unknown or other._unknown:
            return TensorShape(None)
        return TensorShape((*self, *other))

    def merge_with(self, other: Any) -> TensorShape:
        """What is known of a tensor that has both shapes.

        Raises:
            ValueError: none can have both.
        """
        other = TensorShape(other)
        if self._unknown or other._unknown:
            return other if self._unknown else self
        self.assert_is_compatible_with(other)
        return TensorShape([b if a is None else a for a, b in zip(self, other, strict=True)])

    def with_rank(self, rank: int) -> TensorShape:
        """The shape, known to have so many dimensions.

        Raises:
            ValueError: it has another number.
        """
        return self.merge_with([None] * rank)

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """The shape, if it has at least so many dimensions; else ``ValueError``."""
        if not self._unknown and len(self) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def assert_has_rank(self, rank: int) -> None:
        """Raise ``ValueError`` unless it may have so many dimensions."""
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_is_fully_defined(self) -> None:
        """Raise ``ValueError`` unless all dimensions are known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        if self._unknown:
            return TensorShape(None) if isinstance(key, slice) else None
        found = super().__getitem__(key)
        return TensorShape(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __bool__(self) -> bool:
        return not self._unknown

    def __eq__(self, other: object) -> bool:
        if other is None:
            return self._unknown
        if not isinstance(other, Iterable):
            return False
        try:
            other = TensorShape(other)
        except TypeError:
            return False
        if self._unknown or other._unknown:
            return self._unknown and other._unknown
        return tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return "TensorShape(None)" if self._unknown else f"TensorShape({list(self)})"

    def __str__(self) -> str:
        if self._unknown:
            return "<unknown>"
        return "(" + ", ".join(map(str, self)) + ("," if len(self) == 1 else "") + ")"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (None if self._unknown else list(self),)


def _dimension(given: Any) -> int | None:
    if given is None:
        return None
    if isinstance(given, Dimension):
        return given.value
    try:
        number = operator.index(given)
    except TypeError:
        import jax  # where a program is exported, sizes are expressions of its own

        if jax.export.is_symbolic_dim(given):
            return None
        raise
    if number < 0:
        if number == -1:
            return None
        raise ValueError(f"Dimension {number} must be >= 0")
    return number
