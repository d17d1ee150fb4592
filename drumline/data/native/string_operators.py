"""Python's operators on strings in traced functions."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from drumline.data.native.call import record
from drumline.data.native.comparing import Equal
from drumline.data.native.indexing import Index, static_parts
from drumline.data.native.reshaping import reshaped
from drumline.data.native.symbol import Symbol

_texts: ContextVar[list[str] | None] = ContextVar("drumline_texts", default=None)


def compared(symbol: Symbol, other: object, negated: bool) -> Any:
    """Which strings are the same, or ``None`` if one side is no string."""
    if not symbol.spec.is_string or not _is_string(other):
        return None
    if (texts := _texts.get()) is not None:
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


@contextlib.contextmanager
def compared_texts() -> Iterator[list[str]]:
    """Examples of ``str`` that strings are compared with meanwhile."""
    texts: list[str] = []
    token = _texts.set(texts)
    try:
        yield texts
    finally:
        _texts.reset(token)


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
