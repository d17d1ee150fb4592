"""Tracing a user's function into one or two programs over numbers, and native operations."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax.extend import core as jex

from drumline.data.elements import precision
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions import purity
from drumline.data.functions.choice import Choice
from drumline.data.functions.extracted import (
    Extracted,
    MisplacedCall,
    extracted,
    native_calls,
)
from drumline.data.functions.raw_trace import NotTraceable, RawTrace, traced_twice
from drumline.data.functions.routes import Computed, Constant, Route
from drumline.data.functions.user_function import UserFunction
from drumline.data.native.operation import NativeOperation
from drumline.data.native.symbol import Call, Fixed, is_symbolic

__all__ = ["NativeStep", "NotTraceable", "Trace", "trace"]


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
    with purity.random_states_kept():
        narrow, wide = _both(function, spec)
    result = _merged(spec, narrow, wide)
    for raw in (narrow, wide):
        if raw is not None and raw.impurity is not None:
            raise NotTraceable(raw.impurity, result.spec, bool(result.natives))
    return result


def _both(function: UserFunction, spec: ElementSpec) -> tuple[RawTrace | None, RawTrace | None]:
    numbers = [leaf for leaf in spec.leaves if not is_symbolic(leaf)]
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
        leaf.dtype in precision.WIDE and not is_symbolic(leaf)
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
        tuple(i for i, value in enumerate(choice.values) if not is_symbolic(value)),
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
            a.shape != b.shape or is_symbolic(a) != is_symbolic(b)
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
