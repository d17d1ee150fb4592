"""Fields of extension types: what annotations allow, and values converted to what they say."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from drumline.compat.values import dtypes
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.convert import convert
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.specs import ArraySpec, TypeSpec
from drumline.compat.values.tensor import Tensor

_MAPPINGS = (collections.abc.Mapping, dict)
_UNIONS = (typing.Union, types.UnionType)
_PLAIN = (int, float, str, bytes, bool, type(None), dtypes.DType, TensorShape)


class ImmutableDict(Mapping[str, Any]):
    """A mapping that stays as it is: the value of a field annotated as ``Mapping``."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values))

    def __repr__(self) -> str:
        return f"ImmutableDict({self._values})"


def check_annotation(kind: Any, where: str) -> None:
    """Refuse an annotation that no field of an extension type has.

    Raises:
        TypeError: it is not one of tensors, plain values, and tuples, mappings and unions of them.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (tuple, *_UNIONS) or origin in _MAPPINGS:
        for each in arguments:
            if each is not Ellipsis:
                check_annotation(each, where)
        return
    known = kind is None or (
        isinstance(kind, type) and issubclass(kind, (*_PLAIN, Tensor, CompositeTensor, TypeSpec))
    )
    if not known or arguments:
        shown = repr(kind.__name__) if isinstance(kind, type) and not arguments else kind
        raise TypeError(
            f"In field {where!r}: Unsupported type annotation {shown}: use tf.Tensor, composite "
            "tensors, extension types, int, float, bool, str, bytes, tf.DType, tf.TensorShape, "
            "or Tuple, Mapping, Union and Optional of these"
        )


def converted(value: Any, kind: Any, path: str, of_spec: bool) -> Any:
    """A field's value as its annotation says.

    Args:
        value: what was given.
        kind: the annotation.
        path: of the field, for messages.
        of_spec: specs stand in place of tensors.

    Raises:
        TypeError: the value is not of that kind.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in _UNIONS:
        return _of_union(value, arguments, path, of_spec)
    if origin is tuple:
        return _of_tuple(value, arguments, path, of_spec)
    if origin in _MAPPINGS:
        if not isinstance(value, Mapping):
            raise TypeError(f"{path}: expected mapping, got {type(value).__name__!r}")
        return ImmutableDict(
            {
                converted(key, arguments[0], f"{path}.<key>", of_spec): converted(
                    each, arguments[1], f"{path}[{key!r}]", of_spec
                )
                for key, each in value.items()
            }
        )
    if kind is Tensor:
        return _of_tensor(value, path, of_spec)
    if kind is TensorShape or kind is dtypes.DType:
        make = TensorShape if kind is TensorShape else dtypes.as_dtype
        try:
            return make(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{path}: expected {kind.__name__}, got {type(value).__name__!r}"
            ) from error
    wanted = type(None) if kind is None else kind
    if of_spec and issubclass(wanted, CompositeTensor):
        if isinstance(value, TypeSpec) and issubclass(value.value_type, wanted):
            return value
        raise TypeError(
            f"{path}: expected a TypeSpec of {wanted.__name__}, got {type(value).__name__!r}"
        )
    if not isinstance(value, wanted):
        raise TypeError(f"{path}: expected {wanted.__qualname__!r}, got {type(value).__name__!r}")
    return value


def _of_tensor(value: Any, path: str, of_spec: bool) -> Any:
    if of_spec:
        if isinstance(value, ArraySpec):
            return value
        raise TypeError(f"{path}: expected a TensorSpec, got {type(value).__name__!r}")
    if type(value) is Tensor:
        return value
    try:
        if value is None or isinstance(value, CompositeTensor):
            raise TypeError("it is no dense tensor")
        return Tensor(convert(value))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{path}: expected a Tensor, got {type(value).__name__!r}") from error


def _of_union(value: Any, kinds: tuple[Any, ...], path: str, of_spec: bool) -> Any:
    for kind in kinds:
        try:
            return converted(value, kind, path, of_spec)
        except TypeError:
            continue
    names = ", ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise TypeError(f"{path}: expected one of {names}, got {type(value).__name__!r}")


def _of_tuple(value: Any, kinds: tuple[Any, ...], path: str, of_spec: bool) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{path}: expected tuple, got {type(value).__name__!r}")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    elif len(kinds) != len(value):
        raise TypeError(f"{path}: expected tuple with length {len(kinds)}, got {value!r:.80}")
    return tuple(
        converted(each, kind, f"{path}[{i}]", of_spec)
        for i, (each, kind) in enumerate(zip(value, kinds, strict=True))
    )
