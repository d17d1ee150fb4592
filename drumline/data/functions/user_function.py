"""The function a user gave: how it is called and named, and what its random draws come from.

While it runs as Python, `as_python` makes silent changes of numbers errors: numpy gives 0 for
``5 // np.int64(0)`` and ``5 % np.int64(0)``, with a warning, where TensorFlow, Python and compiled
functions raise (floats are divided as in IEEE 754 everywhere: inf or nan); ``jax.numpy`` makes
int32 of int64, and another number of one that does not fit, unless 64-bit types are enabled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar, Token
from typing import Any, Protocol

import numpy as np

from drumline._core import mix64
from drumline._lazy import jax
from drumline.data.elements import precision
from drumline.data.elements.errors import raised_for_good
from drumline.data.elements.precision import WIDE
from drumline.data.elements.seeds import draw_seed, seeds_are_given
from drumline.data.elements.spec import STRING, TensorSpec


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
        """The leaves it is called with that adopt the dtype of the other operand."""
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


_OF_INTEGERS = ("remainder", "fmod")
"""What divides by zero for integers alone: of floats numpy says that the value is invalid."""

_OF_BOTH = ("floor_divide", "divmod")


@contextlib.contextmanager
def as_python(leaves: Collection[TensorSpec], wide: bool | None = None) -> Iterator[None]:
    """Around calls of a function.

    Args:
        leaves: of its argument; none where they are not known.
        wide: whether 64-bit types are enabled; by default where the argument has some.
    """
    if wide is None:
        wide = any(leaf.dtype in WIDE for leaf in leaves)
    with (
        integer_division_raises(leaves),
        jax.enable_x64(True) if wide else contextlib.nullcontext(),
    ):
        yield


def integer_division_raises(leaves: Iterable[TensorSpec]) -> np.errstate:
    """A context in which numpy raises ``ZeroDivisionError`` for integers divided by zero.

    numpy names the operation and not the types. A floor division by zero counts as one of integers
    unless all numbers that the function is given are floats.

    Args:
        leaves: of the function's argument.
    """
    kinds = {leaf.dtype.kind for leaf in leaves if leaf.dtype != STRING}
    names = _OF_INTEGERS if kinds and not kinds & set("iub") else _OF_INTEGERS + _OF_BOTH
    before = np.geterr()["divide"]
    if before == "raise":
        return np.errstate()
    return np.errstate(divide="log", call=_Report(names, before, np.geterrcall()))


class _Report:
    """What numpy reports to; all that is not for us is passed on as it would be otherwise."""

    def __init__(self, names: tuple[str, ...], before: str, others: Any):
        self._names = names
        self._before = before
        self._others = others

    def write(self, text: str) -> None:
        message = text.strip().removeprefix("Warning: ")
        what, _, name = message.rpartition(" encountered in ")
        if what != "divide by zero":
            self._others.write(text)
            return
        if name.split(" ")[-1] in self._names:
            raise ZeroDivisionError("integer division by zero")
        if self._before == "warn":
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        elif self._before == "log":
            self._others.write(text)
        elif self._before == "call":
            self._others("divide by zero", 1)
        elif self._before == "print":
            print(text, end="")

    def __call__(self, kind: str, flag: int) -> None:
        self._others(kind, flag)


@contextlib.contextmanager
def keras_writes_held() -> Iterator[list[str]]:
    """Keeps Keras variables as they are, and lists on exit that some would have been written.

    A layer with a seed, such as ``RandomFlip``, advances it whenever it is called; a traced value
    assigned to it would make the layer unusable.
    """
    written: list[str] = []
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "StatelessScope"):
        yield written
        return
    with keras.StatelessScope() as scope:
        yield written
    if scope.state_mapping:
        written.append("it updates Keras variables, such as a layer's seed")
