"""The function a user gave to ``map`` or ``filter``: how it is called and named."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from drumline.data.elements.errors import raised_for_good
from drumline.data.functions.draws import Draws, call_without_draws


class Lifted(Protocol):
    """Values of a function's closure that are given with each element instead.

    Attributes:
        weak: the leaves of what it is called with that are numbers of Python's.
    """

    @property
    def weak(self) -> frozenset[int]: ...

    def bound(self, values: Sequence[Any]) -> Callable[..., Any]:
        """The function with these values."""


_WITH_STATE = ("scan", "reduce")


@dataclasses.dataclass(frozen=True)
class UserFunction:
    """A user's function and the operation it was given to (``"map"`` or ``"filter"``).

    Attributes:
        keyed: whether it draws by ``dl.random``: elements come with the key of their position
            beside them.
        lifted: the values of its closure that come beside elements (and their keys), if any do.
    """

    function: Callable[..., Any]
    operation: str
    keyed: bool = False
    lifted: Lifted | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"{self.operation} takes a function, got {self.function!r:.60}")

    def __call__(self, element: Any) -> Any:
        """Calls it with an element: a plain tuple is spread over the arguments, as in tf.data."""
        if self.lifted is not None:
            element, values = element
            bound = self.lifted.bound(values)
            return dataclasses.replace(self, function=bound, lifted=None)(element)
        if not self.keyed:
            return call_without_draws(lambda: self._call(element), self.where)
        if self.operation in _WITH_STATE:
            state, (value, key) = element
            value = (state, value)
        else:
            value, key = element
        with Draws(key):
            return self._call(value)

    def _call(self, element: Any) -> Any:
        arguments = element if type(element) is tuple else (element,)
        try:
            result = self.function(*arguments)
        except StopIteration as stop:
            raise raised_for_good(stop) from stop
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                given = "one argument" if len(arguments) == 1 else f"{len(arguments)} arguments"
                error.add_note(
                    f"drumline: {self.where} is called with {given}; what is a tuple is spread "
                    "over them"
                )
            raise
        return tuple(result) if self._is_tuple(result, element, arguments) else result

    def _is_tuple(self, result: Any, element: Any, arguments: tuple[Any, ...]) -> bool:
        """Whether a list that was returned means a tuple, as it does for ``tf.data``.

        What was made of elements that are lists stays one: it is how these people write columns.
        So does a list that was handed on.
        """
        if type(result) is not list:
            return False
        if self.operation == "map":
            return type(element) is not list and all(result is not given for given in arguments)
        # The new state and the result; or the new state in the structure of the old one.
        return self.operation == "scan" or (
            self.operation == "reduce" and type(element[0]) is tuple
        )

    @property
    def weak(self) -> frozenset[int]:
        """The leaves it is called with that adopt the dtype of what they meet."""
        return frozenset() if self.lifted is None else self.lifted.weak

    @functools.cached_property
    def name(self) -> str:
        """Its name and where it is defined, for messages and ``explain()``."""
        name = getattr(self.function, "__qualname__", None) or type(self.function).__name__
        return f"{name.split('<locals>.')[-1]}{place_of(self.function)}"

    @functools.cached_property
    def where(self) -> str:
        """The operation with the function, for error notes."""
        return f"{self.operation}({self.name})"


def place_of(function: Callable[..., Any]) -> str:
    """Where Python code begins, ``" (file.py:12)"``; nothing for what is not written in Python."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return f" ({_file(code.co_filename)}:{code.co_firstlineno})" if code else ""


def _file(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]
