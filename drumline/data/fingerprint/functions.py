"""Digests of functions and classes: their code, and all that it reads."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

from drumline.data.fingerprint.digest import Digest, put
from drumline.data.fingerprint.libraries import is_library, qualified_name

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME"}
_NOT_CODE = {
    "__dict__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__qualname__",
    "__annotations__",
    "__annotate_func__",
    "__annotations_cache__",
    "__firstlineno__",
    "__static_attributes__",
}


@put.register(types.FunctionType)
def _function(value: types.FunctionType, into: Digest) -> None:
    if is_library(value.__module__):
        into.write("library", qualified_name(value).encode())
        return

    def add() -> None:
        with into.within(f"the function {value.__qualname__}"):
            put(value.__code__, into)
            put((value.__defaults__, value.__kwdefaults__), into)
            for name, read in _variables(value):
                with into.within(f"the variable {name!r}"):
                    put((name, read), into)

    into.compound(value, add)


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The variables outside that the function reads, with their present values."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # defined later, and not yet
            yield name, None
    for name in sorted(set(_globals(function.__code__))):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _globals(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals(constant)


@put.register(types.CodeType)
def _code(value: types.CodeType, into: Digest) -> None:
    named = value.co_argcount + value.co_kwonlyargcount
    put(
        (
            value.co_code,
            value.co_consts,
            value.co_names,
            value.co_varnames[:named],
            value.co_freevars,
            (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount),
            value.co_flags,
            value.co_exceptiontable,
        ),
        into,
    )


@put.register(types.MethodType)
def _method(value: types.MethodType, into: Digest) -> None:
    put((value.__func__, value.__self__), into)


@put.register(functools.partial)
def _partial(value: functools.partial, into: Digest) -> None:
    put((value.func, value.args, value.keywords), into)


@put.register(types.BuiltinFunctionType)
def _builtin(value: types.BuiltinFunctionType, into: Digest) -> None:
    into.write("builtin", qualified_name(value).encode())
    if not isinstance(value.__self__, types.ModuleType | None):
        put(value.__self__, into)


@put.register(types.ModuleType)
def _module(value: types.ModuleType, into: Digest) -> None:
    into.write("module", value.__name__.encode())


@put.register(staticmethod)
@put.register(classmethod)
def _unbound(value: Any, into: Digest) -> None:
    put(value.__func__, into)


@put.register(property)
def _property(value: property, into: Digest) -> None:
    put((value.fget, value.fset), into)


@put.register(type)
def _class(value: type, into: Digest) -> None:
    if is_library(value.__module__):
        into.write("class", qualified_name(value).encode())
        return
    # A script's module has another name when it is imported.
    into.write("class", value.__qualname__.encode())

    def add() -> None:
        put(value.__bases__, into)
        for name, part in sorted(vars(value).items()):
            if name not in _NOT_CODE and not isinstance(part, types.GetSetDescriptorType):
                put((name, part), into)

    into.compound(value, add)
