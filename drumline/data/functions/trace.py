"""A user's function, and how it is traced: into programs over numbers, and native operations.

`UserFunction` says how it is called and named; `Draws`, what its random draws come from.

While it runs as Python, `as_python` makes silent changes of numbers errors: numpy gives 0 for
``5 // np.int64(0)`` and ``5 % np.int64(0)``, with a warning, where TensorFlow, Python and compiled
functions raise (floats are divided as in IEEE 754 everywhere: inf or nan); ``jax.numpy`` makes
int32 of int64, and another number of one that does not fit, unless 64-bit types are enabled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import Any, Protocol, TypeVar

import numpy as np

from drumline._core import mix64
from drumline._lazy import is_jax_array, jax, jex
from drumline.data.elements import precision
from drumline.data.elements.errors import raised_for_good
from drumline.data.elements.precision import WIDE
from drumline.data.elements.seeds import draw_seed, seeds_are_given
from drumline.data.elements.spec import (
    STRING,
    ElementSpec,
    Structure,
    TensorSpec,
    as_array,
    flatten,
    is_array_literal,
)
from drumline.data.functions import programs
from drumline.data.functions.native.operation import NativeOperation
from drumline.data.functions.native.python_calls import PythonCallMet
from drumline.data.functions.native.symbol import (
    Call,
    Fixed,
    Symbol,
    ValueNeedsPython,
    compared_texts,
    recorded_results,
)
from drumline.data.functions.programs import (
    Computed,
    Constant,
    Extracted,
    MisplacedCall,
    Passed,
    Route,
    Source,
    dependence,
    extracted,
    native_calls,
)


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


def in_dataset_function() -> bool:
    """Whether a function that was given to a dataset runs, or is traced, in this thread."""
    return _current.get() is not None


def draws_made() -> int:
    """How many random numbers were drawn for the present element."""
    draws = _current.get()
    return draws.count if isinstance(draws, Draws) else 0


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


T = TypeVar("T")

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
        named = inspect.unwrap(self.function)
        name = getattr(named, "__qualname__", None) or type(named).__name__
        return f"{name.split('<locals>.')[-1]}{place_of(self.function)}"

    @functools.cached_property
    def where(self) -> str:
        """The operation with the function, for error notes."""
        return f"{self.operation}({self.name})"


def place_of(function: Callable[..., Any]) -> str:
    """Where Python code begins, ``" (file.py:12)"``; nothing for what is not written in Python."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
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


class NotTraceable(Exception):
    """The function cannot become a program; the message says why.

    Attributes:
        spec: what the function returns, where a trace could still tell.
        native: whether it is known to call native operations.
        varying: whether results of these vary in shape.
        remedy: what to change about it; empty where there is nothing simple.
        calls_python: whether it came to a call of a Python function, whose results' types examples
            show (`PythonCalls`).
    """

    def __init__(
        self,
        reason: str,
        spec: ElementSpec | None = None,
        native: bool = False,
        varying: bool = False,
        remedy: str = "",
        calls_python: bool = False,
    ):
        super().__init__(reason)
        self.spec = spec
        self.native = native
        self.varying = varying
        self.remedy = remedy
        self.calls_python = calls_python


@contextlib.contextmanager
def _collected(variable: ContextVar[list[T] | None]) -> Iterator[list[T]]:
    """A list that takes what is noted in a context variable within the block."""
    collected: list[T] = []
    token = variable.set(collected)
    try:
        yield collected
    finally:
        variable.reset(token)


@dataclasses.dataclass
class RawTrace:
    """What one setting of JAX makes of a function.

    Attributes:
        program: over all leaves of an element, symbols' handles among them.
        leaves: for each leaf of the result a constant, or which output of the program it is.
        structure: of the result.
        impurity: why the program does not stand for the function, if it does not.
    """

    program: jex.ClosedJaxpr
    leaves: list[Constant | int]
    structure: Structure
    impurity: str | None = None


def traced_twice(
    function: UserFunction, spec: ElementSpec, mode: Callable[[], AbstractContextManager[None]]
) -> RawTrace:
    """Traces under ``mode``, and again to see whether it is the same.

    Raises:
        NotTraceable: it looks at values that a program does not have.
    """
    with mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = _traced(function, spec)
        second = _traced(function, spec)
    if first.impurity is None:
        first.impurity = _difference(first, second)
    first.program = first.program.replace(consts=[_kept(c) for c in first.program.consts])
    return first


def _difference(first: RawTrace, second: RawTrace) -> str | None:
    if first.structure != second.structure or not _same_leaves(first.leaves, second.leaves):
        return "it returns something else each time it is called"
    if not programs.same_program(first.program, second.program):
        return "it uses state outside its arguments (two traces differ)"
    if first.program.effects:
        effects = ", ".join(sorted(str(effect) for effect in first.program.effects))
        return f"it has side effects ({effects})"
    return None


def _same_leaves(a: list[Constant | int], b: list[Constant | int]) -> bool:
    def same(x: Constant | int, y: Constant | int) -> bool:
        if isinstance(x, Constant) and isinstance(y, Constant):
            return programs.same_values([x.value], [y.value])
        return x == y

    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))


def _kept(value: Any) -> Any:
    """A constant as it is now: the user may write into the array later."""
    if is_jax_array(value):
        return value
    # JAX may have wrapped the user's array in a type of its own without copying it.
    copy = np.array(value)
    copy.flags.writeable = False
    return copy


def _traced(function: UserFunction, spec: ElementSpec) -> RawTrace:
    found: list[Constant | int] = []
    structures: list[Structure] = []

    def program(*tracers: Any) -> list[Any]:
        values = [
            Symbol(leaf, tracer) if leaf.is_symbolic else tracer
            for leaf, tracer in zip(spec.leaves, tracers, strict=True)
        ]
        leaves, structure = flatten(function(spec.structure.unflatten(values)), is_array_literal)
        structures.append(structure)
        return _outputs(leaves, found)

    # The types that arrays of the element have in this mode: since jax 0.12 a specification is
    # taken as it is, and an int64 one would make float64 of `x / 2` where 64-bit types are off.
    types = [
        jax.ShapeDtypeStruct((), np.uint32)
        if leaf.is_symbolic
        else jax.ShapeDtypeStruct(
            leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype), weak_type=i in function.weak
        )
        for i, leaf in enumerate(spec.leaves)
    ]
    with (
        keras_writes_held() as written,
        _collected(recorded_results) as recorded,
        integer_division_raises(spec.leaves),
    ):
        try:
            jaxpr = jax.make_jaxpr(program)(*types)
        except Exception as error:
            varying = getattr(error, "varying", False) or not _static(recorded)
            remedy = getattr(error, "remedy", "")
            raise NotTraceable(
                _reason(error),
                varying=varying,
                remedy=remedy,
                calls_python=isinstance(error, PythonCallMet),
            ) from error
    if structures[0].num_leaves == 0:
        raise ValueError(f"{function.where} returned nothing; it must return the new element")
    return RawTrace(jaxpr, found, structures[0], written[0] if written else None)


def _static(leaves: Sequence[TensorSpec]) -> bool:
    return all(leaf.is_static for leaf in leaves)


def _outputs(leaves: list[Any], found: list[Constant | int]) -> list[Any]:
    outputs: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Symbol | jax.core.Tracer):
            value = leaf.handle if isinstance(leaf, Symbol) else leaf
            if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
                raise TypeError("it returns JAX random keys, of which no column can be made")
            found.append(len(outputs))
            outputs.append(value)
        else:
            found.append(Constant(_kept(as_array(leaf))))
    return outputs


def _reason(error: Exception) -> str:
    if Symbol.__name__ in str(error):
        return (
            "it gives JAX a string, or an array whose shape varies between elements "
            "(x.reshape(...) gives one a fixed shape)"
        )
    if isinstance(error, ValueNeedsPython):
        return str(error)
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0].rstrip('.') if text else ''}"[:200]


class Choice:
    """Chooses, value by value, between the narrow and the wide trace.

    Attributes:
        values: the specs of what is known so far: an element's leaves, and the results of native
            operations, which whoever resolves their operands adds.
    """

    def __init__(
        self, leaves: Sequence[TensorSpec], narrow: Extracted | None, wide: Extracted | None
    ):
        self.values = list(leaves)
        self._narrow = narrow
        self._wide = wide
        self._feeds = dependence(wide.program.jaxpr) if wide is not None else []

    def result(self, output: int) -> Route:
        """Where the user's result comes from that is this output of the traces."""
        return self._route(lambda one: one.results[output])

    def operand(self, call: int, number: int) -> Route:
        """Where an operand of a native operation comes from."""
        return self._route(lambda one: one.operands[call][number])

    def spec_of(self, route: Route) -> TensorSpec:
        """What a route leads to."""
        if isinstance(route, Passed):
            return self.values[route.leaf]
        if isinstance(route, Constant):
            return TensorSpec(route.value.shape, route.value.dtype)
        return TensorSpec(route.shape, route.dtype)

    def _route(self, source: Callable[[Extracted], Source]) -> Route:
        narrow = source(self._narrow) if self._narrow is not None else None
        wide = source(self._wide) if self._wide is not None else None
        if isinstance(wide, Passed) and (narrow is None or self._is_wide(wide.leaf)):
            return wide
        if isinstance(narrow, Passed) and not (wide is not None and self._is_wide(narrow.leaf)):
            return narrow
        return self._computed(
            narrow if isinstance(narrow, int) else None, wide if isinstance(wide, int) else None
        )

    def _is_wide(self, value: int) -> bool:
        leaf = self.values[value]
        return leaf.dtype in precision.WIDE and not leaf.is_symbolic

    def _computed(self, narrow: int | None, wide: int | None) -> Computed:
        default = None
        if narrow is not None and self._narrow is not None:
            default = self._narrow.program.out_avals[narrow]
        fed: set[int] = set()
        if wide is not None:
            fed = {i for i in map(self._number, self._feeds[wide]) if self._is_wide(i)}
        if wide is None or (not fed and default is not None):
            assert default is not None and narrow is not None
            return Computed(False, narrow, np.dtype(default.dtype), tuple(default.shape))
        assert self._wide is not None
        aval = self._wide.program.out_avals[wide]
        dtype = np.dtype(aval.dtype)
        kinds = {kind_of(self.values[i].dtype) for i in fed}
        if dtype in precision.WIDE and kind_of(dtype) not in kinds:
            dtype = np.dtype(default.dtype) if default is not None else precision.narrowed(dtype)
        return Computed(True, wide, dtype, tuple(aval.shape))

    def _number(self, position: int) -> int:
        """The value that the programs take at a position."""
        numbers = [i for i, value in enumerate(self.values) if not value.is_symbolic]
        return numbers[position]


def kind_of(dtype: np.dtype) -> str:
    """Integers, or floats and what is made of them: the parts of a complex128 are float64."""
    return "i" if dtype.kind in "iu" else "f" if dtype.kind in "fc" else dtype.kind


@dataclasses.dataclass(frozen=True)
class NativeStep:
    """A native operation of a traced function.

    Attributes:
        operation: what runs.
        arguments: where each comes from.
        specs: theirs.
        first: the position of its first result among the values.
        results: their specs.
    """

    operation: NativeOperation
    arguments: tuple[Route, ...]
    specs: tuple[TensorSpec, ...]
    first: int
    results: tuple[TensorSpec, ...]


@dataclasses.dataclass(frozen=True)
class Trace:
    """A user's function as programs over one element.

    Values are the element's leaves and, behind them, the results of native operations.

    Attributes:
        spec: what the function returns.
        routes: where each output leaf comes from.
        inputs: the values that are numbers, in the order the programs take them.
        narrow: the program traced as JAX does by default, if any leaf is computed by it.
        wide: the program traced with 64-bit types, likewise.
        natives: the native operations, in the order of the function.
        values: the specs of all values.
    """

    spec: ElementSpec
    routes: tuple[Route, ...]
    inputs: tuple[int, ...]
    narrow: jex.ClosedJaxpr | None
    wide: jex.ClosedJaxpr | None
    natives: tuple[NativeStep, ...] = ()
    values: tuple[TensorSpec, ...] = ()


def trace(function: UserFunction, spec: ElementSpec) -> Trace:
    """Traces ``function`` over an element; strings and leaves of varying shape are symbols.

    What 64-bit columns feed is taken from a trace with 64-bit types, everything else from a trace
    under JAX's default types: ``uint8 / 255.0`` is float32 beside an int64 column that stays exact.

    Raises:
        NotTraceable: it looks at values or strings, has side effects or uses outside state.
    """
    with programs.random_states_kept():
        narrow, wide = _both(function, spec)
    result = _merged(spec, narrow, wide)
    for raw in (narrow, wide):
        if raw is not None and raw.impurity is not None:
            raise NotTraceable(raw.impurity, result.spec, bool(result.natives))
    return result


def _both(function: UserFunction, spec: ElementSpec) -> tuple[RawTrace | None, RawTrace | None]:
    numbers = [leaf for leaf in spec.leaves if not leaf.is_symbolic]
    if any(leaf.dtype in precision.WIDE for leaf in numbers):
        wide = traced_twice(function, spec, precision.wide)
        try:
            return traced_twice(function, spec, precision.narrow), wide
        except NotTraceable:
            # A constant that needs 64 bits overflows here; the wide trace then stands alone.
            return None, wide
    narrow: RawTrace | None = None
    failure: NotTraceable | None = None
    try:
        narrow = traced_twice(function, spec, precision.narrow)
        if not _has_wide_results(narrow):
            return narrow, None
    except NotTraceable as error:
        failure = error
        if len(numbers) == len(spec.leaves):
            raise
    wide = traced_twice(function, spec, precision.wide)
    if failure is not None and not _has_wide_results(wide):
        raise failure
    return narrow, wide


def _has_wide_results(raw: RawTrace) -> bool:
    """Whether a native operation makes 64-bit numbers that a program may compute with."""
    return any(
        leaf.dtype in precision.WIDE and not leaf.is_symbolic
        for eqn in native_calls(raw.program.jaxpr)
        for leaf in eqn.params["call"].results.leaves
    )


def _merged(spec: ElementSpec, narrow: RawTrace | None, wide: RawTrace | None) -> Trace:
    model = narrow or wide
    assert model is not None
    if narrow is not None and wide is not None and not _agree(narrow, wide):
        raise NotTraceable("it returns another structure for 64-bit types")
    try:
        low = extracted(narrow.program, spec.leaves) if narrow is not None else None
        high = extracted(wide.program, spec.leaves) if wide is not None else None
    except MisplacedCall as error:
        raise NotTraceable(str(error)) from error
    choice = Choice(spec.leaves, low, high)
    natives = _natives(choice, low, high)
    routes = tuple(
        leaf if isinstance(leaf, Constant) else choice.result(leaf) for leaf in model.leaves
    )
    used = {
        route.wide
        for route in (*routes, *(a for step in natives for a in step.arguments))
        if isinstance(route, Computed)
    }
    return Trace(
        ElementSpec(model.structure, tuple(choice.spec_of(route) for route in routes)),
        routes,
        tuple(i for i, value in enumerate(choice.values) if not value.is_symbolic),
        low.program if low is not None and False in used else None,
        high.program if high is not None and True in used else None,
        natives,
        tuple(choice.values),
    )


def _agree(a: RawTrace, b: RawTrace) -> bool:
    kinds = ([leaf if isinstance(leaf, int) else None for leaf in raw.leaves] for raw in (a, b))
    return a.structure == b.structure and next(kinds) == next(kinds)


def _natives(
    choice: Choice, low: Extracted | None, high: Extracted | None
) -> tuple[NativeStep, ...]:
    model = low or high
    assert model is not None
    if low is not None and high is not None and not _same_operations(low.calls, high.calls):
        raise NotTraceable("it calls other native operations for 64-bit types")
    steps: list[NativeStep] = []
    for number, call in enumerate(model.calls):
        operands = iter(range(len(model.operands[number])))
        arguments: list[Route] = []
        specs: list[TensorSpec] = []
        for argument in call.arguments:
            if isinstance(argument, Fixed):
                arguments.append(Constant(argument.value))
                specs.append(argument.spec)
            else:
                arguments.append(choice.operand(number, next(operands)))
                specs.append(choice.spec_of(arguments[-1]))
        results = call.operation.results(*specs)
        if results.structure != call.results.structure or any(
            a.shape != b.shape or a.is_symbolic != b.is_symbolic
            for a, b in zip(results.leaves, call.results.leaves, strict=True)
        ):
            raise NotTraceable(f"dl.{call!r} has results of another shape for 64-bit types")
        first = len(choice.values)
        step = NativeStep(call.operation, tuple(arguments), tuple(specs), first, results.leaves)
        steps.append(step)
        choice.values.extend(results.leaves)
    return tuple(steps)


def _same_operations(a: Sequence[Call], b: Sequence[Call]) -> bool:
    return len(a) == len(b) and all(
        x.operation == y.operation
        and len(x.arguments) == len(y.arguments)
        and all(
            isinstance(p, Fixed) == isinstance(q, Fixed)
            for p, q in zip(x.arguments, y.arguments, strict=True)
        )
        for x, y in zip(a, b, strict=True)
    )


@contextlib.contextmanager
def same_in_python(user: UserFunction) -> Iterator[None]:
    """Around the tracing of a function that runs as Python if it cannot be traced.

    Raises:
        TypeError: it cannot, and compares strings with ``str``: these would be unequal to all.
    """
    with _collected(compared_texts) as texts:
        try:
            yield
        except NotTraceable as reason:
            if not texts:
                raise
            text = texts[0]
            raise TypeError(
                f"{user.where} compares strings with the str {text!r}, and runs as Python, since "
                f"{reason}. Strings are bytes there, which are equal to no str: compare them with "
                f"{text.encode()!r}, or by dl.strings.equal"
            ) from reason
