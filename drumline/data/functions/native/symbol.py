"""Native operations in traced functions: what stands for strings and arrays of varying shapes.

Python's operators and ``reshape`` on such a symbol record calls of native operations.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import operator
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from drumline._changes import note
from drumline._lazy import jax, jex
from drumline.data.elements.ragged import RaggedArray, RaggedTensorSpec
from drumline.data.elements.rows import single, spec_of_leaf
from drumline.data.elements.spec import LEAF_STRUCTURE, STRING, ElementSpec, TensorSpec, as_array
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import Equal, Index, static_parts


class ValueNeedsPython(TypeError):
    """A traced function looked at the contents of a string, or at an array of unknown shape.

    Args:
        varying: whether it makes arrays whose shapes vary between elements.
        remedy: what to change about the function, so that it does not need to.
    """

    def __init__(self, reason: str, varying: bool = False, remedy: str = ""):
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.varying = varying
        self.remedy = remedy


class NotInDatasetFunction(ValueNeedsPython, NotImplementedError):
    """A native operation is given values of a trace that is not one of a dataset's function."""


class Symbol:
    """Stands for such a value while tracing: for native operations, or to be handed on.

    Strings are compared by ``==`` and ``!=``, and arrays of them indexed, by native operations;
    ``reshape`` to a fixed shape makes a tracer of what varies in shape.

    Attributes:
        spec: of the value.
        handle: a tracer that stands for it in the program; it holds no number of the value.
        maker: the name of the native operation that makes it; empty for a leaf of the element.
    """

    __slots__ = ("handle", "maker", "spec")
    # numpy's arrays then leave comparisons with a symbol to the symbol.
    __array_ufunc__ = None
    spec: TensorSpec
    handle: Any
    maker: str

    def __init__(self, spec: TensorSpec, handle: Any, maker: str = ""):
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "handle", handle)
        object.__setattr__(self, "maker", maker)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Its dimensions; ``None`` for those that vary between elements."""
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype:
        """Of the value; numpy's object dtype for ``bytes``."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.spec.shape)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        if self.spec.is_string:
            raise ValueNeedsPython("the function computes with a string")
        reason = (
            f"the function computes with an array whose shape varies between elements ({self.spec})"
        )
        remedy = ""
        if self.maker == "io.decode_raw":
            remedy = (
                "where all strings have one length, give decode_raw fixed_length=, or "
                ".reshape(...) right behind it, and the function is compiled"
            )
        raise ValueNeedsPython(reason, remedy=remedy)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """Its values in a fixed shape, as a tracer."""

        made = reshaped(self, shape, order)
        return self._refuse() if made is None else made

    def __eq__(self, other: object) -> Any:
        return self._compared(other, negated=False)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, negated=True)

    def _compared(self, other: object, negated: bool) -> Any:

        made = compared(self, other, negated)
        return self._refuse() if made is None else made

    def __getitem__(self, key: Any) -> Any:

        made = indexed(self, key)
        return self._refuse() if made is None else made

    def __array_function__(self, function: Any, _: Any, arguments: Any, named: Any) -> Any:

        made = called(function, *arguments, **named)
        return self._refuse() if made is None else made

    __getattr__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __len__ = __iter__ = __contains__ = __invert__ = __neg__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __matmul__ = _refuse
    __str__ = __repr__ = __format__ = __bytes__ = __hash__ = __setattr__ = _refuse
    __array__ = __int__ = __float__ = __index__ = __fspath__ = _refuse


recorded_results: ContextVar[list[TensorSpec] | None] = ContextVar(
    "drumline_recorded_results", default=None
)
"""Takes the specs of what native operations are said to make, also if the trace then fails."""


@functools.cache
def native() -> jex.Primitive:
    """The primitive that stands for native operations in traced programs."""
    from jax.interpreters import batching, mlir

    primitive = jex.Primitive("native")
    primitive.multiple_results = True
    primitive.def_abstract_eval(_types)
    batching.primitive_batchers[primitive] = _batched
    mlir.register_lowering(primitive, _lowered)
    note(
        "JAX",
        "a primitive of drumline's own: native",
        "it stands for native operations in traced functions of datasets",
        "no setting; nothing of JAX's is replaced",
    )
    return primitive


@dataclasses.dataclass(frozen=True, eq=False)
class Fixed:
    """An argument that is the same for every element."""

    value: np.ndarray
    spec: TensorSpec

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fixed) or self.spec != other.spec:
            return False
        if self.value.dtype == STRING:
            return bool(np.array_equal(self.value, other.value))
        return self.value.tobytes() == other.value.tobytes()

    def __hash__(self) -> int:
        return hash(self.spec)

    def __repr__(self) -> str:
        return repr(self.spec)


@dataclasses.dataclass(frozen=True)
class Call:
    """An operation and its arguments: fixed ones, and specs of those the program computes."""

    operation: NativeOperation
    arguments: tuple[TensorSpec | Fixed, ...]
    results: ElementSpec

    def __hash__(self) -> int:
        return hash((self.operation.name, self.arguments))

    def __repr__(self) -> str:
        return self.operation.name


def record(operation: NativeOperation, arguments: Sequence[Any]) -> Any:
    """Puts a call into the program that is being traced.

    Returns:
        Tracers and symbols, in the structure of the operation's results.
    """
    given = [_argument(value) for value in arguments]
    results = operation.results(*(a.spec if isinstance(a, Fixed) else a for a in given))
    recorded = recorded_results.get()
    if recorded is not None:
        recorded.extend(results.leaves)
    operands = [
        value.handle if isinstance(value, Symbol) else value
        for value, argument in zip(arguments, given, strict=True)
        if not isinstance(argument, Fixed)
    ]
    made = native().bind(
        *operands,
        call=Call(operation, tuple(given), results),
        types=tuple(_type(leaf) for leaf in results.leaves),
    )
    if recorded is None:
        raise NotInDatasetFunction(_misplaced(operation.name))
    leaves = [
        Symbol(leaf, tracer, operation.name) if leaf.is_symbolic else tracer
        for leaf, tracer in zip(results.leaves, made, strict=True)
    ]
    return results.structure.unflatten(leaves)


def _argument(value: Any) -> TensorSpec | Fixed:
    if isinstance(value, Symbol):
        return value.spec
    if isinstance(value, jax.core.Tracer):
        return TensorSpec(value.shape, value.dtype)
    spec = spec_of_leaf(value, static=True)
    held = single(value) if isinstance(value, RaggedArray) else as_array(value).copy()
    held.flags.writeable = False
    return Fixed(held, spec)


def _type(leaf: TensorSpec) -> tuple[tuple[int, ...], str]:
    """What the program sees of a result, as it sees columns of elements: 32 bits by default."""
    if leaf.is_symbolic:
        return (), "uint32"
    return tuple(d or 0 for d in leaf.shape), jax.dtypes.canonicalize_dtype(leaf.dtype).name


def _types(*_: Any, call: Call, types: tuple[tuple[tuple[int, ...], str], ...]) -> list[Any]:
    return [jax.core.ShapedArray(shape, jax.numpy.dtype(name)) for shape, name in types]


def _batched(_: Any, __: Any, *, call: Call, types: Any) -> NoReturn:
    raise NotImplementedError(
        f"dl.{call.operation.name} cannot run inside of jax.vmap: it takes one element's values"
    )


def _lowered(_: Any, *__: Any, call: Call, types: Any) -> NoReturn:
    raise NotImplementedError(_misplaced(call.operation.name))


def _misplaced(name: str) -> str:
    return (
        f"dl.{name} runs in functions given to Dataset.map and the like, and on values outside of "
        "them; not inside of jax.jit, cond, scan or the like"
    )


@dataclasses.dataclass(frozen=True)
class Reshape(NativeOperation):
    """Each element's values in another shape, which is the same for all.

    Attributes:
        shape: of the results.
    """

    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"reshape{self.shape}"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (values,) = arguments
        if values.is_static and math.prod(d or 0 for d in values.shape) != math.prod(self.shape):
            raise ValueError(f"cannot reshape {values} into shape {self.shape}")
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec(self.shape, values.dtype),))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        (column,) = columns
        size = math.prod(self.shape)
        found = _sizes(column, n)
        bad = np.flatnonzero(found != size)
        rows = int(bad[0]) if len(bad) else n
        error = None
        if len(bad):
            error = ValueError(
                f"reshape: an array of {found[rows]} values cannot have the shape {self.shape}"
            )
        if isinstance(column, RaggedArray):
            splits = column.row_splits
            values = column.values[splits[0] : splits[rows]]
        elif isinstance(column, np.ndarray):
            values = column[:rows]
        else:
            parts = [np.asarray(row).reshape(self.shape) for row in column[:rows]]
            dtype = np.asarray(column[0]).dtype if len(column) else None
            values = np.stack(parts) if parts else np.empty((0, *self.shape), dtype)
        return OperationResult([np.ascontiguousarray(values).reshape(rows, *self.shape)], error)


def _sizes(column: Column, n: int) -> np.ndarray:
    """How many values each row has."""
    if isinstance(column, RaggedArray):
        return column.row_lengths() * math.prod(column.values.shape[1:])
    if isinstance(column, np.ndarray):
        return np.full(n, math.prod(column.shape[1:]))
    return np.array([np.size(row) for row in column], np.int64)


def reshaped(symbol: Symbol, shape: Sequence[Any], order: str = "C") -> Any:
    """The symbol's values in another shape, or ``None`` if that is not known or not the same."""
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    if order != "C" or isinstance(symbol.spec, RaggedTensorSpec):
        return None
    try:
        dims = [operator.index(dim) for dim in given]
    except TypeError:
        return None
    if dims.count(-1) == 1 and symbol.spec.is_static:
        known = math.prod(dim for dim in dims if dim != -1)
        total = math.prod(dim or 0 for dim in symbol.spec.shape)
        if known == 0 or total % known:
            return None
        dims[dims.index(-1)] = total // known
    if any(dim < 0 for dim in dims):
        return None
    return record(Reshape(tuple(dims)), (symbol,))


compared_texts: ContextVar[list[str] | None] = ContextVar("drumline_compared_texts", default=None)
"""Takes examples of ``str`` that strings are compared with."""


def compared(symbol: Symbol, other: object, negated: bool) -> Any:
    """Which strings are the same, or ``None`` if one side is no string."""
    if not symbol.spec.is_string or not _is_string(other):
        return None
    if (texts := compared_texts.get()) is not None:
        texts.extend(_str_in(other))
    return record(Equal(negated), (symbol, other))


def indexed(symbol: Symbol, key: Any) -> Any:
    """Strings of an array, or ``None`` if no native operation finds them."""
    parts = static_parts(key, symbol.spec) if symbol.spec.is_string else None
    return None if parts is None else record(Index(parts), (symbol,))


def called(function: Any, *arguments: Any, **named: Any) -> Any:
    """What one of numpy's functions makes of a symbol, or ``None`` if it needs Python for it."""
    if function is np.reshape and isinstance(arguments[0], Symbol):
        shape = inspect.signature(np.reshape).bind(*arguments, **named).arguments
        return reshaped(arguments[0], (shape.get("shape", ()),), shape.get("order") or "C")
    if function is not np.expand_dims:
        return None
    bound = inspect.signature(np.expand_dims).bind(*arguments, **named).arguments
    return _expanded(bound["a"], bound["axis"])


def _expanded(symbol: Any, axis: Any) -> Any:
    rank = symbol.ndim + 1
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return None
    return indexed(symbol, (*[slice(None)] * (axis % rank), None))


def _is_string(value: object) -> bool:
    if isinstance(value, Symbol):
        return value.spec.is_string
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "SUO"
    if isinstance(value, list):
        return bool(value) and all(map(_is_string, value))
    return isinstance(value, str | bytes)


def _str_in(value: object) -> list[str]:
    """The first ``str`` in a value, if there is one."""
    if isinstance(value, Symbol | bytes):
        return []
    items = [value] if isinstance(value, str) else np.asarray(value, object).reshape(-1)
    return [str(item) for item in items if isinstance(item, str)][:1]
