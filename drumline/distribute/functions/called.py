"""Which compiled functions are called, and their programs: for those who draw them."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from drumline.distribute.functions.program import FunctionProgram

_watching: contextvars.ContextVar[tuple[CalledFunctions, ...]] = contextvars.ContextVar(
    "drumline_called_functions", default=()
)


class CalledFunctions:
    """The programs of the compiled functions that are called within the context."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[str, FunctionProgram, list[Any]]] = {}

    def __enter__(self) -> CalledFunctions:
        _watching.set((*_watching.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _watching.set(tuple(each for each in _watching.get() if each is not self))

    def programs(self) -> Iterator[tuple[str, Any]]:
        """For each function and form of its arguments its name, and its program as a jaxpr."""
        names: dict[str, int] = {}
        for name, program, shapes in self._seen.values():
            names[name] = names.get(name, 0) + 1
            yield f"{name}_{names[name]}" if names[name] > 1 else name, program.jaxpr(shapes)

    def add(self, name: str, program: FunctionProgram, arrays: Sequence[Any]) -> None:
        """Note a call."""
        if id(program) not in self._seen:
            shapes = [jax.ShapeDtypeStruct(np.shape(a), jax.numpy.result_type(a)) for a in arrays]
            self._seen[id(program)] = name, program, shapes


def note_call(
    function: Callable[..., Any], program: FunctionProgram, arrays: Sequence[Any]
) -> None:
    """Say that a function is called."""
    for watcher in _watching.get():
        watcher.add(getattr(function, "__name__", type(function).__name__), program, arrays)
