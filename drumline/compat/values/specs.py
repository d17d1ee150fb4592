"""``tf.TensorSpec`` and the like: what a tensor of a dataset or a signature is to be."""

from __future__ import annotations

from typing import Any

from drumline.compat.values import dtypes
from drumline.compat.values.boundary import register
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import RaggedTensorSpec
from drumline.data.elements.spec import TensorSpec


class TypeSpec:
    """The base of all specs, as ``tf.TypeSpec``."""

    @property
    def value_type(self) -> type:
        """The class of what it describes."""
        raise NotImplementedError

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or what another spec describes, is as this spec says."""
        raise NotImplementedError


class ArraySpec(TypeSpec):
    """Shape and dtype of a tensor, as ``tf.TensorSpec``.

    Args:
        shape: the dimensions, None for unknown ones; None if their number is unknown.
        dtype: of the elements.
        name: for signatures.
    """

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None):
        self.shape = TensorShape(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.name = name

    @property
    def value_type(self) -> type:
        """`Tensor`."""
        return Tensor

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> ArraySpec:
        """The spec of a tensor."""
        return cls(tensor.shape, tensor.dtype, name)

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> ArraySpec:
        """The spec of what another one describes, with its name unless one is given."""
        return cls(spec.shape, spec.dtype, name or getattr(spec, "name", None))

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor, or those of another spec, have this dtype and may have this shape."""
        other = spec_or_tensor
        return bool(self.dtype == other.dtype) and self.shape.is_compatible_with(other.shape)

    def most_specific_compatible_type(self, other: ArraySpec) -> ArraySpec:
        """A spec that both are instances of.

        Raises:
            ValueError: there is none.
        """
        if self.dtype != other.dtype:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        if self.shape.rank != other.shape.rank:
            return ArraySpec(None, self.dtype)
        pairs = zip(self.shape, other.shape, strict=True)
        return ArraySpec([a if a == b else None for a, b in pairs], self.dtype)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, ArraySpec) and type(other) is type(self)
        return same and (self.shape, self.dtype) == (other.shape, other.dtype)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


class RaggedSpec(TypeSpec):
    """What a ragged tensor is to be, as ``tf.RaggedTensorSpec``.

    Args:
        shape: the dimensions, None for ragged and unknown ones.
        dtype: of the values.
        ragged_rank: how many dimensions are ragged.
        row_splits_dtype: int64 always here.
    """

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = dtypes.int64,
    ):
        self.shape = TensorShape(shape)
        self.dtype = dtypes.as_dtype(dtype)
        if ragged_rank is None:
            ragged_rank = (self.shape.rank or 1) - 1
        self.ragged_rank = ragged_rank
        self.row_splits_dtype = dtypes.as_dtype(row_splits_dtype)

    @property
    def flat_values_spec(self) -> Any:
        """None: the values are a tensor of `dtype`."""
        return None

    @property
    def value_type(self) -> type:
        """The class of ragged tensors."""
        from drumline.compat.composite.ragged import RaggedTensor

        return RaggedTensor

    @classmethod
    def from_value(cls, value: Any) -> RaggedSpec:
        """The spec of a ragged tensor."""
        kind = dtypes.of_array(value.splits.dtype)
        return cls(value.shape, value.dtype, value.ragged_rank, kind)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a ragged tensor, or those of another spec, are as this spec says."""
        other: Any = spec_or_value
        kinds: Any = (RaggedSpec, self.value_type)
        if not isinstance(other, kinds):
            return False
        same = bool(self.dtype == other.dtype) and self.ragged_rank == other.ragged_rank
        return same and self.shape.is_compatible_with(other.shape)

    def most_specific_compatible_type(self, other: Any) -> RaggedSpec:
        """A spec that both are instances of.

        Raises:
            ValueError: there is none.
        """
        known = isinstance(other, RaggedSpec) and self.ragged_rank == other.ragged_rank
        if not known or self.dtype != other.dtype:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        shape = ArraySpec(self.shape).most_specific_compatible_type(ArraySpec(other.shape)).shape
        return RaggedSpec(shape, self.dtype, self.ragged_rank, self.row_splits_dtype)

    def __repr__(self) -> str:
        parts = f"{self.shape!r}, {self.dtype!r}, {self.ragged_rank}, {self.row_splits_dtype!r}"
        return f"RaggedTensorSpec({parts})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSpec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.ragged_rank))


ArraySpec.__name__ = ArraySpec.__qualname__ = "TensorSpec"
RaggedSpec.__name__ = RaggedSpec.__qualname__ = "RaggedTensorSpec"


def _ragged(spec: RaggedTensorSpec) -> RaggedSpec:
    return RaggedSpec(spec.shape, spec.dtype, getattr(spec, "ragged_rank", 1))


def _to_core(spec: ArraySpec) -> TensorSpec:
    if spec.shape.rank is None:
        raise TypeError(f"{spec} has an unknown number of dimensions; give the shape with None")
    return TensorSpec(tuple(spec.shape), spec.dtype.dtype)


register(
    RaggedTensorSpec,
    _ragged,
    RaggedSpec,
    lambda spec: RaggedTensorSpec(tuple(spec.shape), spec.dtype.dtype),
)
register(TensorSpec, lambda spec: ArraySpec(spec.shape, spec.dtype), ArraySpec, _to_core)
register(None, None, dtypes.DType, lambda dtype: dtype.dtype)
register(None, None, TensorShape, tuple)
