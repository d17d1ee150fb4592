"""Whether two Python functions are the same function.

A function that is defined again, in a loop or in each call of another one, is another object with
the same code. Whether its compiled program, its cached elements or its snapshot may be used again
depends on what it *reads*: its code and the code inside it, the variables of its closure, the
defaults of its parameters, the globals that the code names, and, for a bound method or a
``functools.partial``, the object and the arguments that are bound. One walker, `reads_of`, lists
them; `components` takes methods and partials apart. Three modes compare them:

============== ========================== ========================== =========================
what           `function_key`             `ValueKeys`                a digest (`data.plan`)
============== ========================== ========================== =========================
for            compiled steps, in one     functions that a dataset's states, caches, snapshots:
               run of a `dl.function`     function defines again     other processes and days
numbers, text  by value and type          by value and type          by value and type
arrays (numpy) by identity                by value                   by value
arrays (jax)   by identity                by identity: immutable     by value
tuples         item by item               item by item               item by item
lists, dicts   by identity                item by item               item by item
functions      defined in another one:    walked; of the libraries   walked; of any installed
               walked; others: identity   in `LIBRARIES`: identity   package: by name
methods        function and object        not comparable             function and object
partials       function and arguments     function and arguments     function and arguments
builtins       by identity                by identity (`LIBRARIES`)  by name, and what is bound
frozen records by identity                field by field             as pickled
other objects  by identity                not comparable             as pickled, or refused
============== ========================== ========================== =========================

**By identity**, something that changes inside (a list, an attribute of an object) still counts as
the same. That is right only where Python runs once and what it saw becomes constants, as within a
traced function; `function_key` gives None otherwise. A global or a closure's variable that is bound
to another object makes another function in all modes.

**By value**, a function is the same if nothing it can read has changed, also inside. So what may
change unseen, as an object's attributes do, cannot be compared: `Incomparable` is raised, and the
function counts as new each time.

**A digest** depends on no address and no order of a hash, so that it is equal in another process.
It holds the bytecode, hence differs between releases of Python; not the names of files, lines and
modules, comments, annotations and docstrings that no code reads.

Names that the code looks up as attributes are no globals: ``x.loss`` does not read a global
``loss``. What ``eval``, ``globals()`` or a string names is not seen in any mode.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import dis
import functools
import pathlib
import sys
from collections.abc import Callable, Hashable, Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Literal

import numpy as np

UNSET: Any = object()
"""The value of a closure's variable that is not assigned yet, and of a global that is missing."""


Read = tuple[Literal["cell", "default", "global"], str, Any, CellType | None]
"""How a function reads something, what it calls it, what it is now, and a closure variable's cell.

The value is `UNSET` where there is none. A plain tuple: lists of them are made for each call of a
step that is defined again.
"""


def reads_of(function: FunctionType) -> list[Read]:
    """List what a function reads: closure, defaults, keyword defaults, and globals by name.

    The order is always the same. What is read is not walked in turn.
    """
    code = function.__code__
    found: list[Read] = []
    if closure := function.__closure__:
        for name, cell in zip(code.co_freevars, closure, strict=True):
            try:
                found.append(("cell", name, cell.cell_contents, cell))
            except ValueError:
                found.append(("cell", name, UNSET, cell))
    if defaults := function.__defaults__:
        names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        for name, value in zip(names, defaults, strict=True):
            found.append(("default", name, value, None))
    if keywords := function.__kwdefaults__:
        for name, value in keywords.items():
            found.append(("default", name, value, None))
    module = function.__globals__
    for name in globals_read(code):
        found.append(("global", name, module.get(name, UNSET), None))  # noqa: PERF401 (few)
    return found


def components(value: Any) -> tuple[Any, ...] | None:
    """Take a partial or a bound method apart.

    Returns:
        Function, arguments and keywords; function and object; None for all else.
    """
    if isinstance(value, functools.partial):
        return (value.func, value.args, value.keywords)
    if isinstance(value, MethodType):
        return (value.__func__, value.__self__)
    return None


_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_GLOBALS = (*_LOADS, "STORE_GLOBAL", "DELETE_GLOBAL")


@functools.lru_cache(maxsize=1024)
def globals_read(code: CodeType) -> tuple[str, ...]:
    """Return the names that `code`, and the code inside it, reads from the module, sorted."""
    return _globals(code, _LOADS)


@functools.lru_cache(maxsize=1024)
def globals_named(code: CodeType) -> frozenset[str]:
    """Return the names that `code`, and the code inside it, reads, assigns or deletes there."""
    return frozenset(_globals(code, _GLOBALS))


def _globals(code: CodeType, operations: tuple[str, ...]) -> tuple[str, ...]:
    names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in operations
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(_globals(constant, operations))
    return tuple(sorted(names))


def copy_function(
    function: FunctionType,
    *,
    closure: tuple[CellType, ...] | None,
    code: CodeType | None = None,
    bindings: dict[str, Any] | None = None,
    defaults: tuple[Any, ...] | None = None,
    kwdefaults: dict[str, Any] | None = None,
) -> FunctionType:
    """Copy a function, with another closure and what else is given; None leaves what it has."""
    copy = FunctionType(
        function.__code__ if code is None else code,
        function.__globals__ if bindings is None else bindings,
        function.__name__,
        function.__defaults__ if defaults is None else defaults,
        closure,
    )
    copy.__kwdefaults__ = function.__kwdefaults__ if kwdefaults is None else kwdefaults
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    return copy


def frozen(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a Python function with its closure and the globals it names held fixed.

    Objects are not copied, only the names' bindings; other callables are returned as they are.
    """
    if not isinstance(function, FunctionType):
        return function
    names = globals_named(function.__code__)
    bindings = {k: v for k, v in function.__globals__.items() if k in names or k.startswith("__")}
    cells = function.__closure__
    closure = None if cells is None else tuple(_copied_cell(cell) for cell in cells)
    return copy_function(function, closure=closure, bindings=bindings)


def _copied_cell(cell: CellType) -> CellType:
    try:
        return CellType(cell.cell_contents)
    except ValueError:
        return cell


def definition_of(fn: Callable[..., Any]) -> FunctionType | None:
    """Return the Python function that `fn` is, or is a partial of; None if there is none."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn if isinstance(fn, FunctionType) else None


# By identity.

_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic)

_python_runs_once: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "drumline_python_runs_once", default=False
)


@contextlib.contextmanager
def python_runs_once() -> Iterator[None]:
    """Let `function_key` compare functions by identity in the block.

    What the block's Python sees becomes constants of a program, as within a traced function: that
    a list or an object changes inside between two runs of the block is not expected to be seen.
    """
    token = _python_runs_once.set(True)
    try:
        yield
    finally:
        _python_runs_once.reset(token)


def function_key(fn: Callable[..., Any]) -> FunctionKey | None:
    """Return what is equal for functions that one ``def`` made, if they read the same objects.

    Returns:
        None for callables that are neither functions nor partials of them, and outside of
        `python_runs_once`: there, what a function closes over may have changed inside between two
        calls.
    """
    if not _python_runs_once.get() or definition_of(fn) is None:
        return None
    return FunctionKey(fn)


class FunctionKey:
    """What a function reads, compared by identity, but for constants; it is held for as long.

    Args:
        fn: a function, a bound method or a partial.
    """

    __slots__ = ("_hash", "_keys", "_names", "_values")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._names: list[str] = []
        self._values: list[Any] = []
        self._collect("", fn, set())
        self._keys = tuple(map(_identity, self._values))
        self._hash = hash(self._keys)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionKey) and self._keys == other._keys

    def parts(self) -> list[tuple[str, Hashable, Any]]:
        """Return each part's name, what it is compared by, and the part."""
        return list(zip(self._names, self._keys, self._values, strict=True))

    def _add(self, name: str, value: Any) -> None:
        self._names.append(name)
        self._values.append(value)

    def _collect(self, name: str, value: Any, seen: set[int]) -> None:
        if (inner := components(value)) is not None:
            self._add(name, type(value))
            value = inner
            if len(inner) == 3:
                function, arguments, keywords = inner
                value = (function, arguments, tuple(keywords.items()))
        if isinstance(value, tuple):
            self._add(name, type(value))
            self._add(name, len(value))
            for part in value:
                self._collect(name, part, seen)
            return
        if not isinstance(value, FunctionType) or "<locals>" not in value.__qualname__:
            self._add(name, value)
            return
        if id(value) in seen:
            return
        seen.add(id(value))
        self._add(name, value.__code__)
        self._add(name, value.__globals__)
        for kind, part, held, cell in reads_of(value):
            if kind == "global":
                self._add(part, held)
            else:
                self._collect(part, cell if held is UNSET else held, seen)


def _identity(value: Any) -> Hashable:
    if isinstance(value, np.generic):
        return type(value), value.dtype, value.tobytes()
    return (type(value), repr(value)) if isinstance(value, _CONSTANTS) else id(value)


# By value.

LIBRARIES = frozenset(("jax", "jaxlib", "numpy", "ml_dtypes", "drumline", "builtins", "math"))
"""Packages whose functions and classes do not change, for comparison by value."""

_PLAIN = (bool, int, str, bytes, type(None))
_SMALL = 4096
"""Bytes of arrays that are part of a key; of larger ones a copy is kept to compare with."""

DEEPEST = 8
"""How many functions and containers within each other are compared by value."""


class Incomparable(Exception):
    """Something that may have another value later, unseen."""


LIFTED: Hashable = object()
"""Stands in a key for a value that was lifted out of it."""


class ValueKeys:
    """Makes keys of functions that are equal where all that the functions read has equal values.

    Args:
        immutable: types whose objects never change, and are compared by identity.
        shared: the ids of functions and cells that are not defined with each function.
        lift: called with what is neither shared nor a function. If it returns something else than
            None, that is put into the list that `key` was given, and `LIFTED` into the key in its
            place.
    """

    def __init__(
        self,
        immutable: tuple[type, ...] = (),
        shared: frozenset[int] = frozenset(),
        lift: Callable[[Any], Any] = lambda value: None,
    ) -> None:
        self._immutable = immutable
        self._shared = shared
        self._lift = lift
        self._copies: dict[int, tuple[np.ndarray, np.ndarray, Hashable]] = {}

    def key(self, function: Callable[..., Any], lifted: list[Any]) -> Hashable:
        """Return a key of a function, which holds on to what it compares by identity.

        Args:
            function: it, a partial, or a container of functions.
            lifted: where what `lift` returned is put, in the order of the walk.

        Raises:
            Incomparable: it reads something that cannot be compared by value.
        """
        return self._key(function, 0, id(function) not in self._shared, lifted)

    def _key(self, value: Any, depth: int, fresh: bool, lifted: list[Any]) -> Hashable:
        if depth > DEEPEST:
            raise Incomparable
        if isinstance(value, FunctionType):
            if in_libraries(value):
                return _Same(value)
            read = read_values(value, fresh, self._shared)
            return (value.__code__, *[self._key(v, depth + 1, own, lifted) for v, own in read])
        if fresh and (found := self._lift(value)) is not None:
            lifted.append(found)
            return LIFTED
        if isinstance(value, _PLAIN):
            return (type(value), value)
        if isinstance(value, float | complex):
            return (type(value), repr(value))
        if isinstance(value, np.ndarray | np.generic):
            return self._key_of_array(value)
        if isinstance(value, ModuleType | type | np.dtype) or in_libraries(value):
            return _Same(value)
        if isinstance(value, self._immutable):
            return _Same(value)
        if isinstance(value, tuple | list):
            return (type(value), *[self._key(item, depth + 1, fresh, lifted) for item in value])
        if isinstance(value, dict):
            keys = [self._key(key, depth + 1, False, lifted) for key in value]
            items = [self._key(item, depth + 1, fresh, lifted) for item in value.values()]
            return (type(value), *keys, *items)
        if type(value) is functools.partial:
            inner = components(value) or ()
            return (type(value), *(self._key(part, depth + 1, fresh, lifted) for part in inner))
        if not fresh and _is_frozen_record(value):
            fields = vars(value).values()
            return (_Same(type(value)), *(self._key(f, depth + 1, False, lifted) for f in fields))
        raise Incomparable

    def _key_of_array(self, value: Any) -> Hashable:
        array = np.asarray(value)
        if array.dtype == object or array.nbytes <= _SMALL:
            return bytes_key(array)
        known = self._copies.get(id(value))
        if known is None or not _same_bytes(array, known[1]):
            # The first is kept alive, so that no other gets its id.
            known = self._copies[id(value)] = (value, array.copy(), _Same(object()))
        return known[2]


def read_values(
    function: FunctionType, fresh: bool, shared: frozenset[int]
) -> list[tuple[Any, bool]]:
    """List what a function reads as `ValueKeys` walks it, and whether each may be lifted.

    Args:
        function: it.
        fresh: whether it may be defined again with each call.
        shared: see `ValueKeys`.

    Raises:
        Incomparable: a variable of its closure is not assigned yet.
    """
    own = fresh and id(function) not in shared
    found = []
    for kind, _, value, cell in reads_of(function):
        if value is UNSET:
            if kind == "cell":
                raise Incomparable
        elif cell is None:
            found.append((value, own and kind == "default"))
        else:
            found.append((value, own and id(cell) not in shared))
    return found


def shared_by(outer: Callable[..., Any]) -> frozenset[int]:
    """Return the ids of the functions and the cells that `outer` reads, and its own.

    What a function that `outer` defines reads beside these belongs to one call of `outer`.
    """
    found: set[int] = set()
    _visit(outer, found, 0)
    return frozenset(found)


def _visit(value: Any, found: set[int], depth: int) -> None:
    if depth > DEEPEST or id(value) in found:
        return
    if isinstance(value, functools.partial):
        for item in (value.func, *value.args, *value.keywords.values()):
            _visit(item, found, depth + 1)
    elif isinstance(value, MethodType):
        _visit(value.__func__, found, depth + 1)
    elif isinstance(value, FunctionType) and not in_libraries(value):
        found.add(id(value))
        for kind, _, part, cell in reads_of(value):
            if cell is not None:
                found.add(id(cell))
            if kind != "global":
                _visit(part, found, depth + 1)


def bytes_key(array: np.ndarray) -> Hashable:
    """Return a key of an array that is equal for arrays of the same dtype, shape and bytes.

    Raises:
        Incomparable: it holds objects other than byte strings, or very many.
    """
    if array.dtype != object:
        return (np.ndarray, array.dtype.str, array.shape, array.tobytes())
    if array.size > _SMALL or not all(isinstance(item, bytes) for item in array.flat):
        raise Incomparable
    return (np.ndarray, array.shape, tuple(array.flat))


def _same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(_bits(a), _bits(b)))


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def in_libraries(value: Any) -> bool:
    """Whether it is a function or class of one of `LIBRARIES`."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module.partition(".")[0] not in LIBRARIES:
        return False
    return isinstance(getattr(value, "__name__", None), str)


@dataclasses.dataclass(frozen=True, eq=False)
class _Same:
    """Equal to another of the same object, which stays alive with it."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _is_frozen_record(value: Any) -> bool:
    """Whether it is of a frozen dataclass, and its attributes are its fields and nothing more."""
    kind = type(value)
    parameters = vars(kind).get("__dataclass_params__")
    if parameters is None or not parameters.frozen or not hasattr(value, "__dict__"):
        return False
    fields = [field.name for field in dataclasses.fields(kind)]
    # What else a class has may be computed, of something that changes.
    own = (name for base in kind.__mro__[:-1] for name in vars(base) if name not in fields)
    return list(vars(value)) == fields and all(name in _OF_RECORDS for name in own)


@dataclasses.dataclass(frozen=True)
class _Record:
    """A class that has what every frozen dataclass has."""


_OF_RECORDS = frozenset((*vars(_Record), "__match_args__", "__annotations__", "__replace__"))


# For digests.

_INSTALLED = {"site-packages", "dist-packages"}


def is_library(module: str | None) -> bool:
    """Whether a module is Python's own, an installed package's or drumline's.

    What a digest holds of their functions and classes is the name.
    """
    root = (module or "").partition(".")[0]
    if root in sys.stdlib_module_names or root == "drumline":
        return root != "__main__"
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is not None and not _INSTALLED.isdisjoint(pathlib.PurePath(file).parts)


def digested_parts(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """List the variables outside that a digest of a function holds, with their present values.

    One of the closure that is not assigned yet counts as None; a global that is missing is left
    out, as are builtins. Defaults are not among them.
    """
    for kind, name, value, _ in reads_of(function):
        if kind == "cell":
            yield name, None if value is UNSET else value
        elif kind == "global" and value is not UNSET:
            yield name, value


def digested_code(code: CodeType) -> tuple[Any, ...]:
    """Return what a digest holds of code: all that has an effect, and no names of files or lines.

    The order is that of the digests on disk.
    """
    named = code.co_argcount + code.co_kwonlyargcount
    return (
        code.co_code,
        code.co_consts,
        code.co_names,
        code.co_varnames[:named],
        code.co_freevars,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        code.co_flags,
        code.co_exceptiontable,
    )
