"""How functions of tensors take composite ones: ragged, sparse, and classes that users declare.

The table gives users `dispatching(function)`: a call with a composite tensor among its arguments
goes to what was registered for the function and the class, by `handles` within this package, or by
users through ``tf.experimental.dispatch_for_api``. All other calls go to the function itself.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.dtypes import DType
from drumline.compat.values.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = frozenset({Tensor, np.ndarray, int, float, bool, str, bytes, type(None), DType})
_HANDLERS: dict[tuple[type, str], Callable[..., Any]] = {}
_ELEMENTWISE: dict[int, set[str]] = {1: set(), 2: set()}
_PUBLIC: dict[Any, Callable[..., Any]] = {}
_OF_USERS: dict[Any, list[tuple[dict[str, Any], Callable[..., Any]]]] = {}
_OF_ARITY: dict[int, list[tuple[tuple[Any, ...], Callable[..., Any]]]] = {1: [], 2: []}

_ONE = (
    "cast saturate_cast zeros_like ones_like identity stop_gradient abs clip_by_value relu "
    "relu6 elu selu silu gelu leaky_relu dropout lower upper strip regex_replace "
    "regex_full_match as_string to_number to_hash_bucket to_hash_bucket_fast "
    "to_hash_bucket_strong substr length unicode_transcode unicode_script encode_base64 "
    "decode_base64 round check_numerics invert logical_not"
)
_ELEMENTWISE[1].update(_ONE.split())
_ELEMENTWISE[2].update(("truediv", "divide", "complex"))


def is_composite(value: Any) -> bool:
    """Whether it is a composite tensor, or a list or tuple with one in it."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(each, CompositeTensor) for each in value)
    return isinstance(value, CompositeTensor)


def _has_composite(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    for value in args:
        if type(value) not in _PLAIN and is_composite(value):
            return True
    return bool(kwargs) and any(
        type(value) not in _PLAIN and is_composite(value) for value in kwargs.values()
    )


def dispatching(function: Any) -> Any:
    """The function for users, one and the same for the same function; what is none as it is.

    Args:
        function: of tensors.
    """
    if not inspect.isfunction(function) or function.__name__.startswith("nest_"):
        return function
    if hasattr(function, "_drumline_dispatches"):
        return function
    found = _PUBLIC.get(function)
    if found is not None:
        return found

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _has_composite(args, kwargs):
            return _dispatched(function, call, args, kwargs)
        return function(*args, **kwargs)

    call._drumline_dispatches = True  # type: ignore[attr-defined]
    _PUBLIC[function] = call
    return call


def arity_of(function: Any) -> int:
    """1 or 2 for functions of one or two tensors element by element, 0 for others."""
    function = getattr(function, "__wrapped__", function)
    marked: int = getattr(function, "elementwise", 0)
    for arity, names in _ELEMENTWISE.items():
        if function.__name__ in names:
            return arity
    return marked


def handles(cls: type, names: str) -> Callable[[F], F]:
    """Decorate what functions of the look-alike, of these names, do with a composite class.

    Args:
        cls: the class.
        names: of the functions in their modules, separated by spaces.
    """

    def decorate(handler: F) -> F:
        for name in names.split():
            _HANDLERS[cls, name] = handler
        return handler

    return decorate


def _composites(values: Any) -> list[CompositeTensor]:
    found = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += [each for each in value if isinstance(each, CompositeTensor)]
        elif isinstance(value, CompositeTensor):
            found.append(value)
    return found


def _dispatched(
    function: Callable[..., Any],
    public: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    for kinds_of, target in _OF_USERS.get(public, ()):
        try:
            bound = inspect.signature(target).bind(*args, **kwargs).arguments
        except TypeError:
            continue
        if all(name in bound and _fits(bound[name], kind) for name, kind in kinds_of.items()):
            return target(*args, **kwargs)
    arity = arity_of(function)
    if arity:
        for kinds, target in _OF_ARITY[arity]:
            if len(args) >= arity and all(map(_fits, args, kinds)):
                return target(_with(public, args[arity:], kwargs), *args[:arity])
    composites = _composites((*args, *kwargs.values()))
    for composite in composites:
        if composite.handlers:
            importlib.import_module(composite.handlers)
        for cls in type(composite).__mro__:
            handler = _HANDLERS.get((cls, function.__name__))
            if handler is not None:
                return handler(*args, **kwargs)
    for composite in composites:
        general = composite.elementwise(arity) if arity else None
        if general is not None:
            return general(function, *args, **kwargs)
    raise TypeError(
        f"tf {function.__name__} takes no {type(composites[0]).__name__}: "
        f"{composites[0].remedy or 'convert it to a dense tensor first'}"
    )


def _with(function: Callable[..., Any], rest: Any, named: Any) -> Callable[..., Any]:
    """A function of tensors alone, with the other arguments that it was called with."""
    if not rest and not named:
        return function
    return functools.wraps(function)(lambda *tensors: function(*tensors, *rest, **named))


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is as an annotation says: a class, a union of them, or a list of one."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (list, typing.List):  # noqa: UP006 (users write both)
        return isinstance(value, (list, tuple)) and all(_fits(x, arguments[0]) for x in value)
    if arguments:
        return any(_fits(value, each) for each in arguments)
    if kind is Any:
        return True
    return isinstance(value, kind) if isinstance(kind, type) else False


def dispatch_for_api(api: Any, *signatures: Any) -> Callable[[F], F]:
    """Decorate what a function does with classes of the user's, as in TensorFlow.

    Args:
        api: the function, as ``tf.concat``.
        signatures: dicts from parameters' names to classes; the target's annotations by default.

    Raises:
        ValueError: the function is not one that dispatches, or no parameter says a class.
    """
    if not hasattr(api, "_drumline_dispatches"):
        raise ValueError(f"{api} does not support dispatch")

    def decorate(target: F) -> F:
        hints = {k: v for k, v in typing.get_type_hints(target).items() if k != "return"}
        for signature in signatures or (hints,):
            names = list(inspect.signature(target).parameters)
            named = {names[k] if isinstance(k, int) else k: v for k, v in signature.items()}
            if not named:
                raise ValueError("dispatch_for_api: give a signature, or annotate the parameters")
            _OF_USERS.setdefault(api, []).append((named, target))
        return target

    return decorate


def dispatch_for_unary_elementwise_apis(x_type: Any) -> Callable[[F], F]:
    """Decorate what functions of one tensor, element by element, do with a class.

    Args:
        x_type: the class; the decorated function takes the function and the value.
    """

    def decorate(handler: F) -> F:
        _OF_ARITY[1].append(((x_type,), handler))
        return handler

    return decorate


def dispatch_for_binary_elementwise_apis(x_type: Any, y_type: Any) -> Callable[[F], F]:
    """Decorate what functions of two tensors, element by element, do with two classes.

    Args:
        x_type: of the first.
        y_type: of the second; the decorated function takes the function and the two values.
    """

    def decorate(handler: F) -> F:
        _OF_ARITY[2].append(((x_type, y_type), handler))
        return handler

    return decorate


def unregister_dispatch_for(dispatch_target: Callable[..., Any]) -> None:
    """Undo what ``dispatch_for_...`` did for a function.

    Raises:
        ValueError: it was not registered.
    """
    found = False
    registered: list[Any] = [*_OF_USERS.values(), *_OF_ARITY.values()]
    for targets in registered:
        kept = [pair for pair in targets if pair[1] is not dispatch_target]
        found |= len(kept) < len(targets)
        targets[:] = kept
    if not found:
        raise ValueError(f"Function {dispatch_target} was not registered with a `@dispatch_for`")
