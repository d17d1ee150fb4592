"""Calls of native operations in traced programs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend import core as jex
from jax.interpreters import batching, mlir

from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.rows import single, spec_of_leaf
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec, as_array
from drumline.data.native.operation import NativeOperation
from drumline.data.native.symbol import Symbol, is_symbolic

_recorded: ContextVar[list[TensorSpec] | None] = ContextVar("drumline_recorded", default=None)

native = jex.Primitive("native")
native.multiple_results = True


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


@contextlib.contextmanager
def recorded_results() -> Iterator[list[TensorSpec]]:
    """The specs of what operations are said to make meanwhile, also if the trace then fails."""
    recorded: list[TensorSpec] = []
    token = _recorded.set(recorded)
    try:
        yield recorded
    finally:
        _recorded.reset(token)


def record(operation: NativeOperation, arguments: Sequence[Any]) -> Any:
    """Puts a call into the program that is being traced.

    Returns:
        Tracers and symbols, in the structure of the operation's results.
    """
    given = [_argument(value) for value in arguments]
    results = operation.results(*(a.spec if isinstance(a, Fixed) else a for a in given))
    if (recorded := _recorded.get()) is not None:
        recorded.extend(results.leaves)
    operands = [
        value.handle if isinstance(value, Symbol) else value
        for value, argument in zip(arguments, given, strict=True)
        if not isinstance(argument, Fixed)
    ]
    made = native.bind(
        *operands,
        call=Call(operation, tuple(given), results),
        types=tuple(_type(leaf) for leaf in results.leaves),
    )
    leaves = [
        Symbol(leaf, tracer, operation.name) if is_symbolic(leaf) else tracer
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
    if is_symbolic(leaf):
        return (), "uint32"
    return tuple(d or 0 for d in leaf.shape), jax.dtypes.canonicalize_dtype(leaf.dtype).name


@native.def_abstract_eval
def _types(*_: Any, call: Call, types: tuple[tuple[tuple[int, ...], str], ...]) -> list[Any]:
    return [ShapedArray(shape, jax.numpy.dtype(name)) for shape, name in types]


def _batched(_: Any, __: Any, *, call: Call, types: Any) -> NoReturn:
    raise NotImplementedError(
        f"dl.{call.operation.name} cannot run inside of jax.vmap: it takes one element's values"
    )


def _lowered(_: Any, *__: Any, call: Call, types: Any) -> NoReturn:
    raise NotImplementedError(
        f"dl.{call.operation.name} runs in functions given to Dataset.map and the like, and on "
        "values outside of them; not inside of jax.jit, cond, scan or the like"
    )


batching.primitive_batchers[native] = _batched
mlir.register_lowering(native, _lowered)
