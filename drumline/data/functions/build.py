"""From a user's function to something that runs on blocks.

What is built is a function compiled once, or divided by native operations (and by calls of Python
functions), or compiled for each combination of shapes that comes (`ShapedFunction`), or made of the
shapes of its argument alone (`ShapeFunction`), or Python.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import warnings
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import cached_property
from types import CodeType
from typing import Any

import numpy as np

from drumline._forks import ForkSafeLock
from drumline._function_identity import LIBRARIES, frozen
from drumline.data.elements.block import Block, splitter
from drumline.data.elements.errors import at_element
from drumline.data.elements.ragged import RaggedArray, has_ragged
from drumline.data.elements.rows import spec_of_leaf, stack
from drumline.data.elements.spec import (
    LEAF_STRUCTURE,
    ElementSpec,
    Structure,
    TensorSpec,
    has_datasets,
    merge_leaf,
)
from drumline.data.functions.call import BlockFunction, OneByOne, Position
from drumline.data.functions.closures import FlattenedClosure, Reuse, reuse_in_force
from drumline.data.functions.compiled import CompiledFunction
from drumline.data.functions.lifted import LiftedFunction, LiftedValues, with_values
from drumline.data.functions.native.python_calls import PythonCalls
from drumline.data.functions.programs import Constant, random_states_kept
from drumline.data.functions.python_function import PythonFunction, spec_from_example
from drumline.data.functions.segmented import PartlyPythonFunction, SegmentedFunction
from drumline.data.functions.trace import (
    Draws,
    NotTraceable,
    Trace,
    UserFunction,
    as_python,
    call_without_draws,
    draws_made,
    same_in_python,
    trace,
)
from drumline.data.plan import digest as functions  # noqa: F401 (registers)
from drumline.data.plan.digest import Digest, put


@dataclasses.dataclass(frozen=True)
class BuiltFunction:
    """A function ready to run.

    Attributes:
        spec: of its results.
        run: applies it to a block.
        reorderable: whether it may be applied to elements in any order, any number of times.
        is_python: whether it runs as Python, where calls can be noticed.
        draws: whether it draws random numbers and was built without keys: it is not to be run.
        takes_varying: whether blocks may hold rows that differ in any dimension.
        batched: where it does nothing but take single batches of windows, each leaf of its result.
        origin: the user's function, with the variables it reads held as they were, and the spec of
            its argument: what an equal one is built of in another process.
    """

    spec: ElementSpec
    run: BlockFunction
    reorderable: bool
    is_python: bool = False
    draws: bool = False
    takes_varying: bool = False
    batched: tuple[Batched, ...] | None = None
    origin: tuple[UserFunction, ElementSpec] | None = None

    @property
    def takes_ragged(self) -> bool:
        """Whether blocks may hold rows that differ in length."""
        return self.is_python or self.takes_varying

    def fingerprint(self) -> str:
        """A digest of all that the function computes, the same in every process.

        It is empty where the function is no traced program.

        Raises:
            TypeError: it holds something whose identity in another process is unknown.
        """
        content = getattr(self.run, "content", None)
        if content is None:
            return ""
        digest = Digest()
        put(content(), digest)
        return digest.result().hex()


def build(
    function: Callable[..., Any],
    operation: str,
    source: ElementSpec,
    first_element: Callable[[], Any],
    keyed: bool = False,
    may_draw: bool = False,
    others: Callable[[], Sequence[Any]] = tuple,
) -> BuiltFunction:
    """Traces ``function`` for elements of ``source``, or arranges for it to run as Python.

    Args:
        function: the user's.
        operation: ``"map"`` or ``"filter"``, for messages.
        source: the spec of the input's elements.
        first_element: returns one element of the input, in case the function cannot be traced.
        keyed: whether elements have a random key beside them, by which the function draws.
        may_draw: whether it may draw by ``dl.random``, and be built again with keys then.
        others: returns further elements: they show which dimensions vary if it cannot be traced.

    Raises:
        Exception: whatever the function itself raises on the first element.
    """
    user = UserFunction(function, operation, keyed)
    examples = _Examples(first_element, others)
    reuse = reuse_in_force.get()
    closure = None if reuse is None else reuse.closure(function)
    if reuse is None or closure is None:
        return _probed(user, source, examples, may_draw)
    return _RedefinedFunction(reuse, user, source, examples, may_draw, closure).built()


_Lifted = tuple[BuiltFunction, LiftedValues]
"""A function with further arguments, and what is given for them."""


@dataclasses.dataclass(frozen=True)
class _RedefinedFunction:
    """A function that another function of the user's may define again for each element.

    What it computes does not depend on which of them came first: whether a value is an argument of
    the program or a constant in it is decided by the program alone.
    """

    reuse: Reuse
    user: UserFunction
    source: ElementSpec
    examples: _Examples
    may_draw: bool
    closure: FlattenedClosure

    def built(self) -> BuiltFunction:
        """The function, with as many of the values it reads as arguments as can be."""
        every = tuple(range(len(self.closure.values)))
        make = self._plain
        if every:
            numbers, lifted = self.reuse.get(("any", self._key(every)), self._liftable)
            if numbers and numbers != every:
                key = self._key(numbers)
                lifted = self.reuse.get(key, lambda: self._lifted(numbers, self._plain()))
            if lifted is not None:
                return self._with_values(*lifted)
            reason = self.reuse.get(("never", self._key(every)), self._never_traceable)
            if reason is not None:
                make = functools.partial(_as_python, self.user, self.source, self.examples, reason)
        made: BuiltFunction = self.reuse.get(self._key(()), make)
        return made

    def _key(self, lifted: Collection[int]) -> Hashable:
        others = (self.user.operation, self.source, self.user.keyed)
        return (self.closure.key(lifted), tuple(lifted), others)

    def _plain(self) -> BuiltFunction:
        return _probed(self.user, self.source, self.examples, self.may_draw)

    def _liftable(self) -> tuple[tuple[int, ...], _Lifted | None]:
        """The values that can be arguments together, and the function of them if that are all."""
        plain = self._plain()
        every = tuple(range(len(self.closure.values)))
        numbers: tuple[int, ...] = ()
        lifted: _Lifted | None = None
        for more in (every, *((number,) for number in every if len(every) > 1)):
            made = self._lifted((*numbers, *more), plain)
            if made is not None:
                numbers, lifted = (*numbers, *more), made
            if numbers == every:
                break
        if numbers == every:
            return numbers, lifted
        self.reuse.get(self._key(numbers), lambda: lifted or plain)
        return numbers, None

    def _lifted(self, numbers: tuple[int, ...], plain: BuiltFunction) -> _Lifted | None:
        """The function with these values as arguments, if it then has results of the same types."""
        # With an array of numpy's as a constant, what indexes it by an element runs as Python.
        if not isinstance(plain.run, CompiledFunction | SegmentedFunction | PythonFunction):
            return None
        for narrow in (False, True):
            values = LiftedValues(self.closure, numbers, narrow, self._leaves)
            user = dataclasses.replace(self.user, lifted=values)
            try:
                source = with_values(self.source, values.specs())
                made = _probed_traced(user, source, self.may_draw)
            except (NotTraceable, ValueError):
                return None
            if not made.reorderable or (made.spec, made.draws) != (plain.spec, plain.draws):
                continue
            if plain.is_python or (plain.reorderable and type(made.run) is type(plain.run)):
                return dataclasses.replace(made, takes_varying=plain.takes_varying), values
        return None

    def _never_traceable(self) -> NotTraceable | None:
        """Why no function with other values can be traced either, if that is so.

        It is so if one with tracers for its values fails at the same instruction for the same
        reason: whatever they are, it comes there. Of one that draws it is not known.
        """
        values = LiftedValues(
            self.closure, tuple(range(len(self.closure.values))), False, self._leaves
        )
        user = dataclasses.replace(self.user, lifted=values)
        with Draws(np.zeros(4, np.uint32)) as probe:
            plain = _reason_of(self.user, self.source)
            lifted = _reason_of(user, with_values(self.source, values.specs()))
        if plain is None or lifted is None or probe.count or self.user.keyed:
            return None
        return plain if _same_reason(plain, lifted) else None

    @property
    def _leaves(self) -> int:
        return len(self.source.leaves)

    def _with_values(self, made: BuiltFunction, lifted: LiftedValues) -> BuiltFunction:
        assert isinstance(made.run, CompiledFunction | SegmentedFunction)
        run = LiftedFunction(made.run, lifted.arrays(self.closure))
        # As ``dataclasses.replace``, which takes twice as long: it happens for each outer element.
        return BuiltFunction(
            made.spec,
            run,
            made.reorderable,
            made.is_python,
            made.draws,
            made.takes_varying,
            made.batched,
            made.origin,
        )


@dataclasses.dataclass(frozen=True)
class _Examples:
    """What a function that cannot be traced is tried with.

    Attributes:
        first: returns the first element.
        others: returns further ones.
    """

    first: Callable[[], Any]
    others: Callable[[], Sequence[Any]] = tuple


def _probed(
    user: UserFunction, source: ElementSpec, examples: _Examples, may_draw: bool
) -> BuiltFunction:
    if user.keyed or not may_draw:
        return _built(user, source, examples)
    with Draws(np.zeros(4, np.uint32)) as probe:
        built = _built(user, source, examples)
    return dataclasses.replace(built, draws=probe.count > 0)


def _probed_traced(user: UserFunction, source: ElementSpec, may_draw: bool) -> BuiltFunction:
    if user.keyed or not may_draw:
        return _traced(user, source)
    with Draws(np.zeros(4, np.uint32)) as probe:
        built = _traced(user, source)
    return dataclasses.replace(built, draws=probe.count > 0)


def _built(user: UserFunction, source: ElementSpec, examples: _Examples) -> BuiltFunction:
    held = dataclasses.replace(user, function=frozen(user.function))
    return dataclasses.replace(_run(user, source, examples), origin=(held, source))


def built_again(
    origin: tuple[UserFunction, ElementSpec], spec: ElementSpec, fingerprint: str
) -> BuiltFunction:
    """The function of another process.

    Raises:
        RuntimeError: it is traced to another program here.
    """
    made = _built(*origin, _Examples(not_here))
    if (made.spec, made.fingerprint()) != (spec, fingerprint):
        raise RuntimeError(
            f"{origin[0].where} is traced to another program here than in the process it comes "
            "from: something it reads was changed after it was given, or versions of libraries "
            "differ"
        )
    return made


def not_here() -> Any:
    """Stands for a function's first element in a process that must not need it.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("it could be traced where it comes from, and cannot here")


def _run(user: UserFunction, source: ElementSpec, examples: _Examples) -> BuiltFunction:
    try:
        with same_in_python(user):
            return _traced(user, source)
    except NotTraceable as reason:
        if reason.remedy:
            warnings.warn(f"{user.where} runs as Python, which is slow: {reason}", stacklevel=2)
        if reason.calls_python:
            return _with_calls(user, source, examples, reason)
        return _python(user, source, examples, reason)


def _with_calls(
    user: UserFunction, source: ElementSpec, examples: _Examples, reason: NotTraceable
) -> BuiltFunction:
    """The function compiled but for its calls of Python functions, if examples allow that.

    It is compiled only if its results are known as well as those of the whole in Python.
    """

    def guard(call: Callable[[], Any]) -> Any:
        with as_python(source.leaves):
            return call_without_draws(call, user.where)

    calls = PythonCalls(draws_made, guard)
    counted = dataclasses.replace(user, function=calls.around(user.function))
    python = _python(user, source, examples, reason, counted)
    for element in examples.others() if calls.examples < 2 else ():
        # What it raises is raised again when that element's turn has come.
        with contextlib.suppress(Exception), random_states_kept(), as_python(source.leaves):
            counted(element)
    if not calls.settle():
        return python
    try:
        made = _traced(counted, source)
    except (NotTraceable, ValueError):
        return python
    if not isinstance(made.run, SegmentedFunction) or not _as_specific(made.spec, python.spec):
        return python
    assert isinstance(python.run, PythonFunction)
    run = PartlyPythonFunction(made.run, python.run)
    return dataclasses.replace(made, run=run, reorderable=False, is_python=True)


def _as_specific(spec: ElementSpec, promised: ElementSpec) -> bool:
    """Whether all elements of a spec are elements of another."""
    return spec.structure == promised.structure and all(
        merge_leaf(mine, theirs) == theirs
        for mine, theirs in zip(spec.leaves, promised.leaves, strict=True)
    )


def _python(
    user: UserFunction,
    source: ElementSpec,
    examples: _Examples,
    reason: NotTraceable,
    tried: UserFunction | None = None,
) -> BuiltFunction:
    """The function as Python; ``tried`` is called with examples in its place."""
    spec = reason.spec
    if spec is None:
        static = all(leaf.is_static for leaf in source.leaves) and not reason.varying
        spec = spec_from_example(tried or user, source, examples.first(), static)
        if static and any(leaf.shape for leaf in spec.leaves):
            spec = _with_varying(spec, tried or user, source, examples.others())
    run = PythonFunction(user, source, spec, str(reason))
    return BuiltFunction(spec, run, reorderable=False, is_python=True)


def _as_python(
    user: UserFunction, source: ElementSpec, examples: _Examples, reason: NotTraceable
) -> BuiltFunction:
    """A function of which it is known that it cannot be traced, and why."""
    held = dataclasses.replace(user, function=frozen(user.function))
    return dataclasses.replace(_python(user, source, examples, reason), origin=(held, source))


def _reason_of(user: UserFunction, source: ElementSpec) -> NotTraceable | None:
    """Why a function cannot be traced, if it cannot."""
    try:
        _traced(user, source)
    except NotTraceable as reason:
        return reason
    except ValueError:
        return None
    return None


def _same_reason(a: NotTraceable, b: NotTraceable) -> bool:
    same = (str(a), a.spec, a.varying, a.native) == (str(b), b.spec, b.varying, b.native)
    return same and _instructions(a) == _instructions(b)


def _instructions(reason: NotTraceable) -> list[tuple[CodeType, int]]:
    """Where the user's code was when it failed: each of its functions, and how far it was."""
    found: list[tuple[CodeType, int]] = []
    error: BaseException | None = reason
    while error is not None:
        steps = error.__traceback__
        while steps is not None:
            module = steps.tb_frame.f_globals.get("__name__", "")
            if module.partition(".")[0] not in LIBRARIES:
                found.append((steps.tb_frame.f_code, steps.tb_lasti))
            steps = steps.tb_next
        error = error.__cause__
    return found


def _traced(user: UserFunction, source: ElementSpec) -> BuiltFunction:
    if has_datasets(source):
        raise NotTraceable("it takes a dataset")
    if all(leaf.is_static for leaf in source.leaves):
        traced = trace(user, source)
        return BuiltFunction(traced.spec, _compiled(user, source, traced), True)
    if (native := _native(user, source)) is not None:
        return native
    if has_ragged(source):
        raise NotTraceable("it takes a ragged array")
    return _shaped(user, source)


def _shaped(user: UserFunction, source: ElementSpec) -> BuiltFunction:
    try:
        shaped = ShapedFunction(user, source)
    except NotTraceable as reason:
        # What it returns for one shape says nothing of others.
        raise NotTraceable(str(reason)) from reason
    return BuiltFunction(shaped.spec, shaped, False)


def _native(user: UserFunction, source: ElementSpec) -> BuiltFunction | None:
    """The function, if native operations alone look at what varies in shape: no shape matters."""
    try:
        traced = trace(user, source)
    except NotTraceable as reason:
        if reason.native or reason.calls_python:
            raise
        return None
    except ValueError:
        return None
    if not traced.natives or _has_none(traced.spec.structure):
        return None
    return BuiltFunction(
        traced.spec, _compiled(user, source, traced), reorderable=True, takes_varying=True
    )


def _has_none(structure: Structure) -> bool:
    """Whether part of a result is ``None``, as unknown dimensions are."""
    return structure.kind == "none" or any(map(_has_none, structure.children))


def _with_varying(
    spec: ElementSpec, user: UserFunction, source: ElementSpec, others: Sequence[Any]
) -> ElementSpec:
    """The spec without the dimensions in which results for further elements differ."""
    for element in others:
        try:
            other = spec_from_example(user, source, element, static=True)
        except Exception:
            # It is raised again, with its position, when that element's turn has come.
            continue
        pairs = zip(spec.leaves, other.leaves, strict=False)
        if other.structure == spec.structure:
            spec = spec.with_leaves([mine.merged(theirs) or mine for mine, theirs in pairs])
    return spec


@dataclasses.dataclass(frozen=True)
class Batched:
    """A leaf of what a function makes: batches of one of its windows, or its elements.

    Attributes:
        leaf: which leaf of the elements the window holds.
        size: of the batches; ``None`` for elements.
        drop_remainder: as of ``batch``.
    """

    leaf: int
    size: int | None
    drop_remainder: bool


def _compiled(
    function: UserFunction, spec: ElementSpec, trace: Trace
) -> CompiledFunction | SegmentedFunction:
    """Return a traced function, ready to run."""
    kind = SegmentedFunction if trace.natives else CompiledFunction
    return kind(function, spec, trace)


_PROBES = (7, 11)
_LONG = 2_053
_MANY_SHAPES = 16

Shapes = tuple[tuple[int, ...], ...]


class ShapedFunction:
    """Compiles the function, as it was when given, for each combination of shapes that comes."""

    ragged: bool | None = None
    varying: bool | None = None

    def __init__(self, function: UserFunction, source: ElementSpec):
        held = dataclasses.replace(function, function=frozen(function.function))
        self._function = held
        self._source = source
        self._compiled: dict[Shapes, CompiledFunction | SegmentedFunction] = {}
        self._lock = ForkSafeLock()
        self._single_rows = False
        self.spec = self._inferred()
        self.block_length = 1

    def _inferred(self) -> ElementSpec:
        """The result's spec: what agrees between two stand-ins for the unknown dimensions."""
        probes = [trace(self._function, with_unknown(self._source, p)) for p in _PROBES]
        self._natives = ", ".join(step.operation.name for step in probes[0].natives)
        if self._natives:
            self.ragged = self.varying = True
        low, high = (probe.spec for probe in probes)
        if low.structure != high.structure:
            raise NotTraceable("the structure it returns depends on the shape of its argument")
        leaves = [merge_leaf(a, b) for a, b in zip(low.leaves, high.leaves, strict=True)]
        if any(leaf is None for leaf in leaves):
            raise NotTraceable("the dtype or rank it returns depends on the shape of its argument")
        return self._loosened(low.with_leaves([leaf for leaf in leaves if leaf is not None]))

    def _loosened(self, spec: ElementSpec) -> ElementSpec:
        """Without what does not hold for the shortest argument, or for long ones.

        ``x[:5]`` may give one row; of frames of 256 samples short signals have none.
        """
        spec = self._loosened_by(1, spec)
        if any(leaf.shape is not None and 0 in leaf.shape for leaf in spec.leaves):
            spec = self._loosened_by(_LONG, spec)
        return spec

    def _loosened_by(self, size: int, spec: ElementSpec) -> ElementSpec:
        try:
            found = trace(self._function, with_unknown(self._source, size)).spec
        except (NotTraceable, ValueError):
            return spec
        if found.structure != spec.structure:
            return spec
        pairs = zip(spec.leaves, found.leaves, strict=True)
        return spec.with_leaves([merge_leaf(a, b) or a for a, b in pairs])

    @cached_property
    def one_by_one(self) -> OneByOne:
        alone = copy.copy(self)
        alone._compiled = {}
        alone._single_rows = True
        return OneByOne(self, alone)

    def limit(self, wanted: int) -> int:
        return wanted

    def __call__(self, block: Block, position: Position) -> Block:
        if not block.n:  # An error alone: its columns' shapes are no element's.
            return Block(stack([], self.spec), 0, block.error)
        try:
            function = self._for_shapes(tuple(column.shape[1:] for column in block.columns))
        except (NotTraceable, ValueError) as error:
            at_element(error, position(0), self._function.where)
            return Block(stack([], self.spec), 0, error)
        self.block_length = max(self.block_length, function.block_length)
        return function(block, position)

    def _for_shapes(self, shapes: Shapes) -> CompiledFunction | SegmentedFunction:
        with self._lock:
            if shapes not in self._compiled:
                pairs = zip(shapes, self._source.leaves, strict=True)
                spec = self._source.with_leaves([TensorSpec(s, leaf.dtype) for s, leaf in pairs])
                traced = trace(self._function, spec)
                self._check(traced.spec, spec)
                made = _compiled(self._function, spec, traced)
                self._compiled[shapes] = made.for_single_rows() if self._single_rows else made
                if len(self._compiled) == _MANY_SHAPES:
                    warnings.warn(
                        f"{self._function.where} has been compiled for {_MANY_SHAPES} shapes, "
                        "which is slow; pad or resize to few shapes before it",
                        stacklevel=2,
                    )
            return self._compiled[shapes]

    def _check(self, found: ElementSpec, argument: ElementSpec) -> None:
        for i, (mine, promised) in enumerate(zip(found.leaves, self.spec.leaves, strict=False)):
            if found.structure == self.spec.structure and merge_leaf(mine, promised) == promised:
                continue
            raise ValueError(
                f"{self._function.where} returns leaf {i} as {mine} for {argument.tree()}, but the "
                f"dataset's element_spec says {promised}"
            )

    def describe(self) -> str:
        shapes = f"compiled for each shape ({len(self._compiled)} so far)"
        native = f"native {self._natives} | " if self._natives else ""
        return f"{self._function.name}: {native}{shapes}"


_PROBE = 7


class ShapeFunction:
    """Calls the function once for each combination of shapes that comes.

    Attributes:
        user: the function.
    """

    block_length = 1
    ragged: bool | None = None
    varying: bool | None = None

    def __init__(self, function: UserFunction, source: ElementSpec, spec: ElementSpec):
        self.user = function
        self._split = splitter(source.structure)
        self._spec = spec
        self._known: dict[Any, np.ndarray] = {}

    def limit(self, wanted: int) -> int:
        return wanted

    def __call__(self, block: Block, position: Position) -> Block:
        if not block.n:
            return Block(stack([], self._spec), 0, block.error)
        columns: list[Any] = list(block.columns)
        lengths = [column.row_lengths() for column in columns if isinstance(column, RaggedArray)]
        if not lengths:
            first, which = np.zeros(1, np.int64), np.zeros(block.n, np.int64)
        else:
            _, first, which = np.unique(
                np.stack(lengths, axis=1), axis=0, return_index=True, return_inverse=True
            )
        values = np.zeros(len(first), self._spec.leaves[0].dtype)
        for i in np.argsort(first).tolist():
            row = int(first[i])
            try:
                values[i] = self._value(block, row)
            except Exception as error:
                at_element(error, position(row), self.user.where)
                return Block([values[which[:row]]], row, error)
        return Block([values[which.reshape(-1)]], block.n, block.error)

    def _value(self, block: Block, row: int) -> np.ndarray:
        columns: list[Any] = [column[row : row + 1] for column in block.columns]
        (element,) = self._split(columns)
        shapes = tuple(
            tuple(column.row_lengths()) if isinstance(column, RaggedArray) else column.shape[1:]
            for column in columns
        )
        if shapes not in self._known:
            self._known[shapes] = np.asarray(self.user(element), self._spec.leaves[0].dtype)
        return self._known[shapes]

    def describe(self) -> str:
        return f"{self.user.name}: by shape ({len(self._known)} so far)"


def by_shape_alone(function: UserFunction, source: ElementSpec) -> BuiltFunction | None:
    """The function ready to run, if elements vary in shape and it looks at nothing else.

    Compiling it for each shape, as other functions are, would cost much for a constant.
    """
    if all(leaf.is_static for leaf in source.leaves):
        return None
    try:
        traced = trace(function, with_unknown(source, _PROBE))
    except NotTraceable:
        return None
    routes = traced.routes
    if len(routes) != 1 or not isinstance(routes[0], Constant):
        return None
    spec = ElementSpec(LEAF_STRUCTURE, (spec_of_leaf(routes[0].value, static=True),))
    return BuiltFunction(spec, ShapeFunction(function, source, spec), reorderable=True)


def with_unknown(spec: ElementSpec, size: int) -> ElementSpec:
    leaves = [
        TensorSpec([size if dim is None else dim for dim in leaf.shape], leaf.dtype)
        for leaf in spec.leaves
    ]
    return spec.with_leaves(leaves)
