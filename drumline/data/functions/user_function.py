"""The function a user gave: how it is called and named, and what its random draws come from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import Any, Protocol

import numpy as np

from drumline._core import mix64
from drumline._lazy import jax
from drumline.data.elements import precision
from drumline.data.elements.errors import raised_for_good
from drumline.data.elements.seeds import draw_seed, seeds_are_given


class Draws:
    """The numbers drawn for one element, as a context around the call of a function.

    Args:
        key: of the element, uint32 (4,): the first half follows from its position only, the second
            from the operation's seed, too. A tracer where the function is traced.

    Attributes:
        count: how many draws were made.
    """

    def __init__(self, key: Any):
        self.count = 0
        self._key = key
        self._token: Token[Draws | str | None] | None = None

    def next(self, seed: int | None) -> Any:
        """The key (typed, ``threefry2x32``) of the next draw, with another seed if one is given."""
        given = self._key[2:] if seed is None else self._key[:2]
        # Keys of positions are hashes already: one operation makes others of them.
        key = given ^ _halves(mix64((seed or 0) % 2**64, self.count))
        self.count += 1
        return jax.random.wrap_key_data(key, impl="threefry2x32")

    def __enter__(self) -> Draws:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)


def drawn(draw: Callable[[Any], Any], seed: int | None) -> Any:
    """What ``draw`` makes of the next key: an array, or a tracer where a function is traced.

    Outside of a dataset's functions the key is a new one, from Python's ``random``.

    Raises:
        RuntimeError: the function that runs is none that may draw, or a trace that is not a
            dataset's is under way.
    """
    draws = _current.get()
    if isinstance(draws, str):
        raise RuntimeError(
            f"dl.random cannot draw in {draws} where it did not draw for the first element: draw "
            "for every element, or in a map before it"
        )
    if draws is None:
        if precision.is_tracing():
            raise RuntimeError(
                "dl.random draws in functions given to Dataset.map and the like, or outside of "
                "traces; in jax.jit, scan and the like, use jax.random with a key of "
                "dl.random.split()"
            )
        draws = Draws(np.tile(_halves(draw_seed()), 2))
    if precision.is_tracing():
        return draw(draws.next(seed))
    with precision.narrow():
        result = draw(draws.next(seed))
    is_key = jax.dtypes.issubdtype(result.dtype, jax.dtypes.extended)
    return result if is_key else precision.given(np.asarray(result))


def _halves(seed: int) -> np.ndarray:
    return np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF], np.uint32)


def call_without_draws(call: Callable[[], Any], where: str) -> Any:
    """``call()``, in which ``dl.random`` raises, unless draws are provided for already.

    Its draws would be others whenever it runs.
    """
    if _current.get() is not None or seeds_are_given():
        return call()
    token = _current.set(where)
    try:
        return call()
    finally:
        _current.reset(token)


_current: ContextVar[Draws | str | None] = ContextVar("drumline_draws", default=None)


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
