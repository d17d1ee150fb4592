"""``tf.experimental.ExtensionType``: classes of tensors that users declare by annotated fields.

A value is a node of JAX's pytrees. In drumline's structures, as of datasets, it is a named tuple of
its tensors (`ExtensionColumns`), whose class knows all else: the extension type, its fields that
are no tensors, and the ranks, from which follows whether a row of it was batched.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax

from drumline.compat.composite.dispatch import handles
from drumline.compat.composite.extension_fields import (
    ImmutableDict,
    check_annotation,
    converted,
)
from drumline.compat.ops import control_flow, elementwise
from drumline.compat.values.boundary import map_structure, register, unwrap, wrap
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.convert import convert
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.specs import ArraySpec, RaggedSpec, TypeSpec
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.spec import TensorSpec

_RESERVED = ("self", "Spec", "_type_spec")


_FROZEN_MARK = "_drumline_frozen"


def _is_frozen(instance: Any) -> bool:
    return _FROZEN_MARK in vars(instance)


class _Leaf(NamedTuple):
    """Stands for a tensor in what is known of a value."""

    rank: int | None


class _Known(NamedTuple):
    """What is known of a value besides its tensors: its class, and its fields' structure."""

    cls: type
    fields: tuple[Any, ...]


def _set(instance: Any, fields: Mapping[str, Any]) -> Any:
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    object.__setattr__(instance, _FROZEN_MARK, True)
    return instance


class _DeclaredFields(type):
    """Makes classes of annotated fields; their objects are converted, checked and frozen."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        instance: Any = super().__call__(*args, **kwargs)
        instance._finish()
        return instance


class _Frozen:
    """Attributes can be set in ``__init__`` alone."""

    _of_spec: ClassVar[bool] = False

    @classmethod
    def _field_types(cls) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {}

    def __init__(self, *args: Any, **kwargs: Any):
        kinds, defaults = self._field_types(), self._defaults()
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters: list[inspect.Parameter] = []
        for name in kinds:
            default = defaults.get(name, inspect.Parameter.empty)
            # One without a default after one that has it can only be passed by name.
            if default is inspect.Parameter.empty and any(p.name in defaults for p in parameters):
                kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, kind, default=default))
        bound = inspect.Signature(parameters).bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    def _finish(self) -> None:
        kinds = self._field_types()
        given = vars(self)
        missing = {name for name in kinds if name not in given}
        if missing:
            raise ValueError(f"Missing required fields: {missing}")
        for name, kind in kinds.items():
            object.__setattr__(self, name, converted(given[name], kind, name, self._of_spec))
        object.__setattr__(self, _FROZEN_MARK, True)

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_frozen(self) or name not in self._field_types():
            raise AttributeError(
                f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionType."
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if _is_frozen(self):
            raise AttributeError(
                f"Cannot mutate attribute `{name}` outside the custom constructor of ExtensionType."
            )
        object.__delattr__(self, name)

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self._field_types()}
        if self._of_spec:
            values = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return f"{type(self).__qualname__}({shown})"


class ExtensionTypeSpec(_Frozen, TypeSpec, metaclass=_DeclaredFields):
    """What values of an extension type are to be: its fields, with specs in place of tensors."""

    _of_spec = True
    _value_type: ClassVar[Any] = None

    @classmethod
    def _field_types(cls) -> dict[str, Any]:
        found: dict[str, Any] = cls._value_type._field_types()
        return found

    @property
    def value_type(self) -> type:
        """The extension type."""
        kind: type = self._value_type
        return kind

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or what another spec describes, is as this spec says."""
        try:
            other = spec_of(spec_or_value)
        except TypeError:
            return False
        if type(other) is not type(self):
            return False
        mine, others = _taken(self), _taken(other)
        return _without_ranks(mine[0]) == _without_ranks(others[0]) and all(
            a.is_compatible_with(b) for a, b in zip(mine[1], others[1], strict=True)
        )

    def most_specific_compatible_type(self, other: Any) -> Any:
        """A spec that both are instances of.

        Raises:
            ValueError: there is none.
        """
        if type(other) is not type(self):
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        mine, others = _taken(self), _taken(other)
        if _without_ranks(mine[0]) != _without_ranks(others[0]):
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        pairs = zip(mine[1], others[1], strict=True)
        return _made(mine[0], [a.most_specific_compatible_type(b) for a, b in pairs], True)

    def _batch(self, batch_size: int | None) -> Any:
        known, leaves = _taken(self)
        return _made(_moved(known, batch_size, True), [_batched(x, batch_size) for x in leaves], 1)

    def _unbatch(self) -> Any:
        known, leaves = _taken(self)
        return _made(_moved(known, None, False), [_unbatched(x) for x in leaves], True)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _taken(self) == _taken(other)

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))


class _ExtensionMeta(_DeclaredFields):
    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]):
        super().__init__(name, bases, namespace)
        if not any(isinstance(base, _ExtensionMeta) for base in bases):
            return
        own = inspect.get_annotations(cls)
        for field in own:
            if field in _RESERVED:
                raise ValueError(
                    f"The field annotations for {name} are invalid. Field {field!r} is reserved."
                )
        for field, kind in own.items():
            if not isinstance(kind, (str, typing.ForwardRef)) and not _has_forward(kind):
                check_annotation(kind, field)
        declared = namespace.get("Spec")
        body = {"_value_type": cls, "__module__": cls.__module__}
        bases_of_spec: tuple[Any, ...] = (ExtensionTypeSpec,)
        if declared is not None:
            skipped = ("__dict__", "__weakref__")
            body |= {k: v for k, v in vars(declared).items() if k not in skipped}
        body["__qualname__"] = f"{cls.__qualname__}.Spec"
        cls.Spec = _DeclaredFields(f"{name}.Spec", bases_of_spec, body)
        if not _is_abstract(cls):
            jax.tree_util.register_pytree_node(cls, _flattened, _unflattened)


def _is_abstract(cls: type) -> bool:
    """Whether it is one of the two classes that users' classes inherit from."""
    return cls.__module__ == __name__


def _has_forward(kind: Any) -> bool:
    return any(
        isinstance(each, (str, typing.ForwardRef)) or _has_forward(each)
        for each in typing.get_args(kind)
    )


class ExtensionType(_Frozen, CompositeTensor, metaclass=_ExtensionMeta):
    """A class of tensors and other values, as ``tf.experimental.ExtensionType``.

    Annotations declare the fields: `Tensor`, composite tensors, extension types, Python's plain
    values, dtypes, shapes, and ``Tuple``, ``Mapping``, ``Union`` and ``Optional`` of these. Values
    are converted to them, then ``__validate__`` may refuse them; objects do not change. They pass
    through ``tf.function``, gradients, control flow and strategies.

    Raises:
        TypeError: a value is not as its annotation says.
        AttributeError: a field is set after construction.

    Example:
        >>> class Masked(ExtensionType):
        ...     values: Tensor
        ...     mask: Tensor
        >>> Masked([1, 2], [True, False]).values.shape
        TensorShape([2])
    """

    remedy = "register what it does by tf.experimental.dispatch_for_api, or pass its fields"
    Spec: ClassVar[Any] = ExtensionTypeSpec

    def __init__(self, *args: Any, **kwargs: Any):
        if _is_abstract(type(self)):
            raise AssertionError(
                f"Cannot create an instance of {type(self).__name__} because "
                f"{type(self).__name__} is an abstract base class."
            )
        super().__init__(*args, **kwargs)

    @classmethod
    def _annotated(cls) -> list[str]:
        names: dict[str, None] = {}
        for base in reversed(cls.__mro__):
            if isinstance(base, _ExtensionMeta) and not _is_abstract(base):
                names |= dict.fromkeys(inspect.get_annotations(base))
        return list(names)

    @classmethod
    def _field_types(cls) -> dict[str, Any]:
        known: dict[str, Any] | None = cls.__dict__.get("_known_types")
        if known is None:
            found: dict[str, Any] = {}
            for base in cls.__mro__:
                if isinstance(base, _ExtensionMeta) and not _is_abstract(base):
                    # Forward references to the class itself work wherever it is declared.
                    found = typing.get_type_hints(base, localns={base.__name__: base}) | found
            known = {name: found[name] for name in cls._annotated()}
            for name, kind in known.items():
                check_annotation(kind, name)
            cls._known_types = known  # type: ignore[attr-defined]
        return known

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {name: getattr(cls, name) for name in cls._annotated() if hasattr(cls, name)}

    def _finish(self) -> None:
        super()._finish()
        self.__validate__()

    def __validate__(self) -> None:
        """Refuse field values that do not fit each other; nothing is refused by default."""

    @property
    def _type_spec(self) -> Any:
        known, leaves = _taken(self)
        return _made(known, [spec_of(leaf) for leaf in leaves], True)

    def __eq__(self, other: object) -> Any:
        if type(other) is not type(self):
            return False
        mine, others = _taken(self), _taken(other)
        if mine[0] != others[0] or self._type_spec != other._type_spec:
            return False
        from drumline.compat.ops.math.reductions import reduce_all

        result: Any = True
        for a, b in zip(mine[1], others[1], strict=True):
            result = elementwise.logical_and(result, reduce_all(elementwise.equal(a, b)))
        return result if type(result) is Tensor else Tensor(convert(result))

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return elementwise.logical_not(same) if type(same) is Tensor else not same

    __hash__ = None  # type: ignore[assignment]


class BatchableExtensionType(ExtensionType):
    """An `ExtensionType` whose values datasets batch and cut into rows.

    All tensors have the batch's dimension first; fields that are ``tf.TensorShape`` get it, too.
    """


def _taken(value: Any) -> tuple[Any, list[Any]]:
    """What is known of a value or spec, and its tensors or their specs."""
    leaves: list[Any] = []

    def take(each: Any) -> Any:
        if isinstance(each, (ExtensionType, ExtensionTypeSpec)):
            cls = each._value_type if isinstance(each, ExtensionTypeSpec) else type(each)
            return _Known(cls, tuple(take(getattr(each, name)) for name in cls._field_types()))
        if isinstance(each, (Tensor, CompositeTensor, TypeSpec)):
            leaves.append(each)
            return _Leaf(getattr(getattr(each, "shape", None), "rank", None))
        if isinstance(each, ImmutableDict):
            return (ImmutableDict, tuple((key, take(each[key])) for key in sorted(each)))
        if type(each) is tuple:
            return (tuple, tuple(map(take, each)))
        # An unknown shape is equal to that of no dimensions.
        return (type(each), each, repr(each)) if isinstance(each, TensorShape) else (None, each)

    return take(value), leaves


def _made(known: Any, leaves: Any, of_spec: Any) -> Any:
    """The value or spec of what is known and its tensors, which are not checked."""
    rest = iter(leaves)

    def make(each: Any) -> Any:
        if isinstance(each, _Known):
            instance = object.__new__(each.cls.Spec if of_spec else each.cls)  # type: ignore[attr-defined]
            names = each.cls._field_types()  # type: ignore[attr-defined]
            return _set(instance, dict(zip(names, map(make, each.fields), strict=True)))
        if isinstance(each, _Leaf):
            return next(rest)
        if each[0] is ImmutableDict:
            return ImmutableDict({key: make(part) for key, part in each[1]})
        return tuple(map(make, each[1])) if each[0] is tuple else each[1]

    return make(known)


def _mapped(known: Any, of_leaf: Callable[[_Leaf], Any], of_shape: Callable[[Any], Any]) -> Any:
    if isinstance(known, _Known):
        return _Known(known.cls, tuple(_mapped(x, of_leaf, of_shape) for x in known.fields))
    if isinstance(known, _Leaf):
        return of_leaf(known)
    if known[0] is ImmutableDict:
        return (ImmutableDict, tuple((k, _mapped(x, of_leaf, of_shape)) for k, x in known[1]))
    if known[0] is tuple:
        return (tuple, tuple(_mapped(x, of_leaf, of_shape) for x in known[1]))
    if known[0] is TensorShape:
        shape = of_shape(known[1])
        return (TensorShape, shape, repr(shape))
    return known


def _without_ranks(known: Any) -> Any:
    return _mapped(known, lambda leaf: _Leaf(None), lambda shape: TensorShape(()))


def _moved(known: Any, size: int | None, batched: bool) -> Any:
    """What is known of a batch of values, or of a row of one."""
    if not issubclass(known.cls, BatchableExtensionType):
        raise TypeError(
            f"{known.cls.__name__} cannot be batched or cut into rows: make it a "
            "tf.experimental.BatchableExtensionType"
        )

    def leaf(each: _Leaf) -> _Leaf:
        return _Leaf(None if each.rank is None else each.rank + (1 if batched else -1))

    def shape(each: Any) -> Any:
        if each.rank is None:
            return each
        return TensorShape([size, *each] if batched else each[1:])

    return _mapped(known, leaf, shape)


def _batched(spec: Any, size: int | None) -> Any:
    if isinstance(spec, RaggedSpec):
        return RaggedSpec(TensorShape([size, *spec.shape]), spec.dtype, spec.ragged_rank + 1)
    return ArraySpec(
        None if spec.shape.rank is None else [size, *spec.shape], spec.dtype, spec.name
    )


def _unbatched(spec: Any) -> Any:
    shape = None if spec.shape.rank is None else TensorShape(tuple(spec.shape)[1:])
    if isinstance(spec, RaggedSpec) and spec.ragged_rank > 1:
        return RaggedSpec(shape, spec.dtype, spec.ragged_rank - 1)
    return ArraySpec(shape, spec.dtype)


def _flattened(value: Any) -> tuple[list[Any], Any]:
    known, leaves = _taken(value)
    return leaves, _mapped(known, lambda leaf: _Leaf(None), lambda shape: shape)


def _unflattened(known: Any, leaves: Any) -> Any:
    return _made(known, leaves, False)


class ExtensionColumns:
    """The base of the named tuples that stand for extension types in drumline's structures."""

    __slots__ = ()
    known: ClassVar[Any]
    is_tensor_leaf = True


_COLUMNS: dict[Any, Any] = {}


def _columns(known: Any, leaves: list[Any]) -> Any:
    if known not in _COLUMNS:
        fields = [(f"tensor_{i}", Any) for i in range(len(leaves))]
        held = NamedTuple("held", fields)  # type: ignore[misc]
        body = {"__slots__": (), "known": known}
        _COLUMNS[known] = type(
            f"{known.cls.__name__}ExtensionColumns", (ExtensionColumns, held), body
        )
    return _COLUMNS[known](*map(unwrap, leaves))


def _to_columns(value: Any) -> Any:
    return _columns(*_taken(value))


def rows_of(value: ExtensionType) -> Any:
    """The columns of a batch, as datasets slice them: their class knows a row."""
    known, leaves = _taken(value)
    return _columns(_moved(known, None, False), leaves)


def _to_user(columns: Any) -> Any:
    known, leaves = columns.known, [wrap(each) for each in columns]
    of_spec = any(isinstance(each, TensorSpec) for each in columns) or any(
        isinstance(each, TypeSpec) for each in leaves
    )
    grown, size = _growth(known, leaves)
    for _ in range(abs(grown)):
        known = _moved(known, size, grown > 0)
    return _made(known, leaves, of_spec)


def require_rows_of(spec: Any) -> None:
    """Refuse to cut batches into rows that were not made of rows, if they have shapes as fields.

    The class of their columns knows the shape of the batch, and would not know that of another.

    Args:
        spec: of a dataset's elements, as drumline has it.

    Raises:
        NotImplementedError: there is such a type.
    """
    if isinstance(spec, ExtensionColumns):
        shapes: list[Any] = []

        def note(shape: Any) -> Any:
            shapes.append(shape)
            return shape

        _mapped(spec.known, lambda leaf: leaf, note)
        if any(shape.rank for shape in shapes):
            raise NotImplementedError(
                f"unbatch: {spec.known.cls.__name__} has a tf.TensorShape, and its batches come "
                "whole from the dataset's source: make the dataset by from_tensor_slices"
            )
    elif isinstance(spec, Mapping):
        for part in spec.values():
            require_rows_of(part)
    elif isinstance(spec, (list, tuple)):
        for part in spec:
            require_rows_of(part)


def _growth(known: Any, leaves: list[Any]) -> tuple[int, int | None]:
    """By how many dimensions the tensors of a value are more than its class knows."""
    ranks: list[Any] = []
    _mapped(known, lambda leaf: ranks.append(leaf.rank), lambda shape: shape)
    for rank, leaf in zip(ranks, leaves, strict=True):
        shape = getattr(leaf, "shape", None)
        if rank is not None and isinstance(shape, TensorShape) and shape.rank is not None:
            return shape.rank - rank, (shape[0] if shape.rank else None)
    return 0, None


def spec_of(value: Any) -> Any:
    """The ``tf.TypeSpec`` of a value, as ``tf.type_spec_from_value``.

    Args:
        value: a tensor, composite tensor, value of an extension type, array, or what makes one.

    Raises:
        TypeError: there is none.
    """
    if isinstance(value, TypeSpec):
        return value
    if isinstance(value, CompositeTensor) and hasattr(value, "_type_spec"):
        return value._type_spec
    if type(value) is not Tensor:
        if hasattr(value, "element_spec"):
            from drumline.compat.data.dataset import DatasetStructure

            return DatasetStructure(value.element_spec)
        try:
            value = Tensor(convert(value))
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Could not build a TypeSpec for {value!r:.80} of unsupported type {type(value)}."
            ) from error
    return ArraySpec(value.shape, value.dtype)


def tensors_within(value: Any) -> list[Any]:
    """The tensors of a value of an extension type, or their specs of its spec."""
    return _taken(value)[1]


def with_parts(value: Any, parts: Any, of_spec: bool = False) -> Any:
    """The value, or spec, with other tensors, or specs."""
    return _made(_taken(value)[0], parts, of_spec)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a value of an extension type, or of its spec, by their names."""
    cls = value._value_type if isinstance(value, ExtensionTypeSpec) else type(value)
    return {name: getattr(value, name) for name in cls._field_types()}


def with_fields(cls: Any, fields: Mapping[str, Any], of_spec: bool = False) -> Any:
    """A value of an extension type, or its spec, of fields that are not checked."""
    return _set(object.__new__(cls.Spec if of_spec else cls), fields)


def _expanded(tree: Any) -> Any:
    """Nested values with tuples of tensors in place of extension types."""
    return map_structure(
        lambda x: (
            tuple(tensors_within(x)) if isinstance(x, (ExtensionType, ExtensionTypeSpec)) else x
        ),
        tree,
    )


def _restored(like: Any, tree: Any, move: Callable[[Any], Any] = lambda known: known) -> Any:
    """Undo `_expanded` for values in the structure of others."""
    if isinstance(like, (ExtensionType, ExtensionTypeSpec)):
        return _made(move(_taken(like)[0]), tree, False)
    if isinstance(like, (list, tuple)):
        parts = [_restored(a, b, move) for a, b in zip(like, tree, strict=True)]
        return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)
    if isinstance(like, Mapping):
        return {key: _restored(each, tree[key], move) for key, each in like.items()}
    return tree


@handles(ExtensionType, "while_loop")
def _while_loop(cond: Any, body: Any, loop_vars: Any, *args: Any, **kwargs: Any) -> Any:
    def step(*parts: Any) -> Any:
        result = body(*_restored(tuple(loop_vars), parts))
        return _expanded(tuple(result) if isinstance(result, (list, tuple)) else (result,))

    def goes_on(*parts: Any) -> Any:
        return cond(*_restored(tuple(loop_vars), parts))

    found = control_flow.while_loop(goes_on, step, _expanded(tuple(loop_vars)), *args, **kwargs)
    return _restored(loop_vars, found)


@handles(ExtensionType, "map_fn")
def _map_fn(
    fn: Any,
    elems: Any,
    dtype: Any = None,
    fn_output_signature: Any = None,
    **kwargs: Any,
) -> Any:
    signature = dtype if fn_output_signature is None else fn_output_signature
    wanted = elems if signature is None else signature
    results: list[Any] = []
    rows: list[int] = []
    map_structure(lambda leaf: rows.append(int(leaf.shape[0])), _expanded(elems))

    def of_parts(parts: Any) -> Any:
        result = fn(_restored(elems, parts, lambda known: _moved(known, None, False)))
        results.append(map_structure(lambda x: x._type_spec if _is_one(x) else None, result))
        return _expanded(result)

    kinds = (
        map_structure(lambda leaf: leaf.dtype, _expanded(wanted))
        if signature is None
        else (_expanded(signature))
    )
    found = control_flow.map_fn(of_parts, _expanded(elems), fn_output_signature=kinds, **kwargs)
    like = results[-1] if results else wanted
    return _restored(like, found, lambda known: _moved(known, rows[0], True))


def _is_one(value: Any) -> bool:
    return isinstance(value, ExtensionType)


spec_of.__name__ = spec_of.__qualname__ = "type_spec_from_value"

register(ExtensionColumns, _to_user, ExtensionType, _to_columns)
register(None, None, ExtensionTypeSpec, _to_columns)
