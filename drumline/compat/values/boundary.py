"""Between user code and drumline: `wrap` makes tensors of a nested value's arrays, `unwrap` undoes.

Each class of the look-alike that stands for one of drumline's says so once, by `register`. Where a
user's function is called by drumline, it is passed as `from_core(function)`, which wraps what it is
given and unwraps what it returns.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from drumline.autograph import ControlFlow, TensorKind, convert
from drumline.compat.values.tensor import Tensor, wrap_leaf
from drumline.data.functions.native.symbol import ValueNeedsPython

_TO_USER: list[tuple[type, Callable[[Any], Any]]] = []
_TO_CORE: list[tuple[type, Callable[[Any], Any]]] = []


def register(
    core: type | None,
    to_user: Callable[[Any], Any] | None,
    user: type | None,
    to_core: Callable[[Any], Any] | None,
) -> None:
    """State which class of the look-alike stands for which of drumline's.

    A class is found before those that it inherits from, in whatever order they are stated.

    Args:
        core: drumline's class.
        to_user: makes a value of the look-alike of one.
        user: the look-alike's class.
        to_core: makes a value of drumline's of one.
    """
    if core is not None and to_user is not None:
        _insert(_TO_USER, core, to_user)
    if user is not None and to_core is not None:
        _insert(_TO_CORE, user, to_core)


def _insert(
    table: list[tuple[type, Callable[[Any], Any]]], cls: type, make: Callable[[Any], Any]
) -> None:
    bases = (place for place, (other, _) in enumerate(table) if issubclass(cls, other))
    table.insert(next(bases, len(table)), (cls, make))


def map_structure(function: Callable[[Any], Any], value: Any) -> Any:
    """`function` of each leaf of nested tuples, lists, namedtuples and mappings, in their order."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(map_structure(function, each) for each in value)
    if kind is dict:
        return {key: map_structure(function, each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        if getattr(value, "is_tensor_leaf", False):
            return function(value)
        return kind(*(map_structure(function, each) for each in value))
    if isinstance(value, collections.abc.Mapping) and not hasattr(value, "iloc"):
        pairs = [(key, map_structure(function, each)) for key, each in value.items()]
        if isinstance(value, collections.defaultdict):
            return type(value)(value.default_factory, pairs)
        return kind(pairs)
    return function(value)


def _wrapped(leaf: Any) -> Any:
    for core, to_user in _TO_USER:
        if isinstance(leaf, core):
            return to_user(leaf)
    if type(leaf) is bytes:  # a scalar string, as datasets yield it
        return Tensor(leaf)
    return wrap_leaf(leaf)


def _unwrapped(leaf: Any) -> Any:
    if type(leaf) is Tensor:
        return leaf._value
    for user, to_core in _TO_CORE:
        if isinstance(leaf, user):
            return to_core(leaf)
    return leaf


def wrap(value: Any) -> Any:
    """A nested value of drumline's as users of the look-alike see it."""
    return map_structure(_wrapped, value)


def unwrap(value: Any) -> Any:
    """A nested value of the look-alike as drumline takes it."""
    return map_structure(_unwrapped, value)


class Growing(NamedTuple):
    """How values are handled whose structure depends on what was written to them.

    Attributes:
        started: gives what a name holds before a traced loop the structure that a step leaves, or
            None if it cannot have it.
        common: returns what gives either of two branches' values one structure, or None.
    """

    started: Callable[[Any, Any], Any]
    common: Callable[[Any, Any], Callable[[Any], Any] | None]


GROWING: dict[type, Growing] = {}
"""Classes whose values a branch or a step may leave in another structure, or longer."""

_MARK = "_drumline_of_arrays"


def from_core(function: Callable[..., Any]) -> Callable[..., Any]:
    """The user's function of tensors as one of arrays, one and the same for the same function.

    drumline compiles once for a function; it sees the user's in the closure of this one. That of a
    bound method is a method bound to the same object, which is equal to that of the next call.
    """
    if isinstance(function, types.MethodType):
        return types.MethodType(_of_arrays(function.__func__, 1), function.__self__)
    return _of_arrays(function, 0)


def _of_arrays(function: Callable[..., Any], skip: int) -> Callable[..., Any]:
    """The function of arrays, whose first ``skip`` arguments are passed as they are.

    It is known to the user's function as long as anything else holds it, such as the compiled step
    that was made of it. One that is defined in a function may be another one in each step: if it
    held the function of arrays, which holds it, only the garbage collector would free them, and
    the batches in their closures. Decorators copy attributes: what belongs to another function is
    not used.
    """
    known = getattr(function, _MARK, None)
    found = known() if known is not None else None
    if found is not None and found.__wrapped__ is function:
        made: Callable[..., Any] = found
        return made
    target = with_control_flow(function)

    def of_arrays(*args: Any, **kwargs: Any) -> Any:
        given = (*args[:skip], *map(wrap, args[skip:]))
        return unwrap(target(*given, **{name: wrap(value) for name, value in kwargs.items()}))

    for name in ("__name__", "__doc__", "__module__"):
        if hasattr(function, name):
            setattr(of_arrays, name, getattr(function, name))
    of_arrays.__wrapped__ = function  # type: ignore[attr-defined]  # whose name messages give
    name = getattr(function, "__qualname__", type(function).__name__)
    of_arrays.__qualname__ = name if "<locals>" in name else f"{name}.<locals>.of_arrays"
    with contextlib.suppress(AttributeError, TypeError):  # builtins have no attributes
        # Not setattr: a layer of Keras's would look for layers in it.
        object.__setattr__(function, _MARK, _WeakFunction(of_arrays))
    return of_arrays


class _WeakFunction(weakref.ref[Callable[..., Any]]):
    """A weak reference that is left out where a function is pickled with its attributes."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _nothing, ()


def _nothing() -> None:
    """What is known of a function that was pickled."""


class _Tensors(TensorKind):
    """How converted control flow knows the look-alike's tensors."""

    instead_of_lists = "Write to a tf.TensorArray of the final size."

    def unwrap(self, tree: Any) -> Any:
        return unwrap(tree)

    def wrap(self, tree: Any) -> Any:
        return wrap(tree)

    def is_traced(self, value: Any) -> bool:
        return isinstance(value._value if type(value) is Tensor else value, jax.core.Tracer)

    def require(self, passed: Any, failed: Callable[[], Exception]) -> None:
        from drumline.compat.ops.host import when_it_runs

        when_it_runs(passed, failed)

    def refused(self, reason: str) -> Exception:
        return ValueNeedsPython(reason)

    def unlike(self, reason: str, one: Any, other: Any) -> Exception:
        """Whatever TensorFlow's conditions and loops take runs as Python: other sizes."""
        grows = any(map(_grows, jax.tree.leaves((one, other), is_leaf=_grows)))
        arrays = hasattr(one, "dtype") and hasattr(other, "dtype")
        if grows or (arrays and one.dtype == other.dtype):
            return ValueNeedsPython(reason)
        return TypeError(reason)

    def started(self, start: Any, after: Any) -> Any:
        pairs, treedef = _pairs(start, after)
        made = [GROWING[type(a)].started(a, b) if _grows(a) else a for a, b in pairs]
        alike = treedef is not None and all(each is not None for each in made)
        return treedef.unflatten(made) if alike else None

    def common(self, one: Any, other: Any) -> Callable[[Any], Any] | None:
        functions: list[Callable[[Any], Any]] = []
        pairs, treedef = _pairs(one, other)
        for a, b in pairs:
            function = GROWING[type(a)].common(a, b) if _grows(a) else _identity
            if function is None:
                return None
            functions.append(function)

        def give(value: Any) -> Any:
            leaves = jax.tree.leaves(value, is_leaf=_grows)
            made = [function(leaf) for function, leaf in zip(functions, leaves, strict=True)]
            return treedef.unflatten(made)

        return None if treedef is None else give


def _grows(value: Any) -> bool:
    return type(value) in GROWING


def _identity(value: Any) -> Any:
    return value


def _pairs(one: Any, other: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The leaves, side by side, of two trees that differ in what grows alone, and their structure.

    Of others none, and None.
    """
    treedef: Any
    leaves, treedef = jax.tree.flatten(one, is_leaf=_grows)
    others, structure = jax.tree.flatten(other, is_leaf=_grows)
    if treedef != structure:
        return [], None
    pairs = list(zip(leaves, others, strict=True))
    same = all(type(a) is type(b) for a, b in pairs if _grows(a) or _grows(b))
    return (pairs, treedef) if same else ([], None)


_TENSORS = _Tensors()
CONTROL_FLOW = ControlFlow(_TENSORS, lambda function: with_control_flow(function))
"""Conditions and loops over tensors, for the functions of the look-alike that have them."""


def with_control_flow(function: Callable[..., Any], loops: Any = None) -> Callable[..., Any]:
    """Convert ``if``, ``while`` and ``for`` over tensors, so that the function can be traced.

    Args:
        function: the user's.
        loops: stages its loops over datasets; see `drumline.autograph.convert`.
    """
    return convert(function, _TENSORS, loops)


def of_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of drumline's as one of tensors: takes and gives tensors."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("name", None)
        given = map_structure(_argument, unwrap(args)), map_structure(_argument, unwrap(kwargs))
        return wrap(function(*given[0], **given[1]))

    return call


def _argument(leaf: Any) -> Any:
    """A leaf as drumline's functions take it: scalar strings as bytes."""
    is_text = isinstance(leaf, np.ndarray) and leaf.ndim == 0 and leaf.dtype == object
    return leaf.item() if is_text else leaf
