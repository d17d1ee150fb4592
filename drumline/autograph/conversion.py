"""Which functions are converted, and the code that was made of each."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar

from drumline._function_identity import is_library
from drumline.autograph.rewriter import convertible, rewrite_function, rewrite_lambda
from drumline.autograph.runtime import ControlFlow
from drumline.autograph.source import (
    LOOPS,
    RUNTIME,
    code_of,
    definition_of_source,
    function_of,
    lambda_of_source,
)
from drumline.autograph.values import TensorKind

_AS_WRITTEN = "__drumline_do_not_convert__"
_F = TypeVar("_F", bound=Callable[..., Any])
_codes: dict[types.CodeType, types.CodeType | None] = {}
_is_library = functools.lru_cache(maxsize=1024)(is_library)


_ARRAYS = TensorKind()


class _NoData:
    """The loops of a function that stages none: datasets are iterated over as they are."""

    def over_data(self, iterable: Any) -> bool:
        return False


def do_not_convert(function: _F) -> _F:
    """Leave a function as it is written, also where a converted function calls it."""
    setattr(function, _AS_WRITTEN, True)
    return function


def convert(
    function: Callable[..., Any], values: TensorKind | None = None, loops: Any = None
) -> Callable[..., Any]:
    """Convert a function, and those it calls, so that control flow may be over traced values.

    A concrete condition runs Python's own branch. A traced one makes ``if`` a `jax.lax.cond` and
    ``for`` and ``while`` a scan or a `jax.lax.while_loop` over the names that are assigned.
    ``break``, ``continue``, early ``return``, ``and``, ``or``, ``not``, ``assert``, chained
    comparisons and conditional expressions are converted, and so are the user's functions that it
    calls. Functions of installed packages, generators, coroutines, and functions without source
    stay as they are. As ``tf.autograph.to_graph``.

    Args:
        function: a function, method, lambda, partial, or an object with ``__call__``.
        values: what knows tensors; by default JAX's arrays.
        loops: stages loops over datasets, as `with_loops` takes it; None iterates over them.

    Returns:
        The converted function, or `function` itself if it is not to be converted.

    Example:
        >>> import jax
        >>> def size(x):
        ...     if x < 10:
        ...         return 0
        ...     return 1
        >>> int(jax.jit(convert(size))(12))
        1
    """
    given = _ARRAYS if values is None else values
    added = _without_data(given) if loops is None else _added(given, loops)
    converted: Callable[..., Any] = _converted(function, added)
    return converted


def _added(values: TensorKind, loops: Any) -> dict[str, Any]:
    """What converted functions, and those that they call, see besides."""

    def of(callee: Any) -> Any:
        return _converted(callee, added)

    added = {RUNTIME: ControlFlow(values, of), LOOPS: loops}
    return added


@functools.lru_cache(maxsize=64)
def _without_data(values: TensorKind) -> dict[str, Any]:
    """The same for all functions that stage no loops: it refers to itself, so is made once."""
    return _added(values, _NoData())


def converted_source(function: Callable[..., Any]) -> str:
    """Return the source that `convert` runs in the place of a function's.

    Raises:
        ValueError: there is no source, or the function is a generator or a coroutine.
    """
    plain = getattr(function, "python_function", function)
    plain = getattr(plain, "__func__", plain)
    if not isinstance(plain, types.FunctionType):
        raise ValueError(f"{function!r:.60} is no Python function; only these have source to show.")
    definition = _definition(plain)
    if definition is None:
        raise ValueError(
            f"{plain.__qualname__} cannot be converted: its source was not found, or it is a "
            "generator or a coroutine."
        )
    return ast.unparse(ast.fix_missing_locations(definition))


def _converted(function: Any, added: dict[str, Any]) -> Any:
    kind = type(function)
    if kind is types.FunctionType:
        if RUNTIME in function.__code__.co_freevars or hasattr(function, _AS_WRITTEN):
            return function
        if _is_library(function.__module__):
            return function
        code = _code(function)
        if code is None:
            return function
        made = function_of(function, code, added)
        made.__dict__.update(function.__dict__)
        made.__doc__ = function.__doc__
        return made
    if kind is types.MethodType:
        made = _converted(function.__func__, added)
        same = made is function.__func__
        return function if same else types.MethodType(made, function.__self__)
    if kind is functools.partial:
        made = _converted(function.func, added)
        if made is function.func:
            return function
        return functools.partial(made, *function.args, **function.keywords)
    if isinstance(function, type) or hasattr(function, _AS_WRITTEN):
        return function
    call = getattr(kind, "__call__", None)  # noqa: B004 (the function, to be converted)
    if type(call) is types.FunctionType and not _is_library(call.__module__):
        made = _converted(call, added)
        return function if made is call else types.MethodType(made, function)
    return function


def _code(function: types.FunctionType) -> types.CodeType | None:
    code = function.__code__
    if code not in _codes:
        _codes[code] = _made(function)
    return _codes[code]


def _made(function: types.FunctionType) -> types.CodeType | None:
    definition = _definition(function)
    return None if definition is None else code_of(function, definition, (RUNTIME, LOOPS))


def _definition(function: types.FunctionType) -> ast.FunctionDef | ast.Lambda | None:
    """The rewritten syntax tree of a function; None if it is not to be converted."""
    if function.__name__ == "<lambda>" or function.__code__.co_name == "<lambda>":
        expression = lambda_of_source(function)
        if expression is not None:
            rewrite_lambda(expression)
        return expression
    definition = definition_of_source(function)
    if definition is None or not convertible(definition):
        return None
    rewrite_function(definition)
    return definition
