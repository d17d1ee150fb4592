"""From a user's function of a state and an element to something that runs on blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from drumline.data.elements.block import Block
from drumline.data.elements.ragged import has_ragged
from drumline.data.elements.spec import ElementSpec, has_datasets
from drumline.data.elements.structure import tuple_of
from drumline.data.functions.build import not_here
from drumline.data.functions.call import Position
from drumline.data.functions.comparisons import same_in_python
from drumline.data.functions.compiled_recurrence import CompiledRecurrence, compiled_program
from drumline.data.functions.example import spec_from_example
from drumline.data.functions.frozen import frozen
from drumline.data.functions.python_recurrence import AnyShape, PythonRecurrence
from drumline.data.functions.raw_trace import NotTraceable
from drumline.data.functions.reuse import reused
from drumline.data.functions.trace import trace
from drumline.data.functions.user_function import UserFunction


class Recurrence(Protocol):
    """A function that carries a state from element to element.

    Attributes:
        state: the leaves of the state after the elements so far.
    """

    state: list[np.ndarray]

    @property
    def block_length(self) -> int:
        """The number of elements for which a call costs the least per element."""

    def limit(self, wanted: int) -> int:
        """How many elements to pass at once when ``wanted`` are asked for."""

    def __call__(self, block: Block, position: Position) -> Block:
        """The results for the rows of ``block``: all, or those before the first that failed."""

    def describe(self) -> str:
        """How it runs, for ``explain()``."""


Origin = tuple[Callable[..., Any], str, Sequence[np.ndarray], ElementSpec, ElementSpec, bool]


@dataclasses.dataclass(frozen=True)
class BuiltRecurrence:
    """A function of a state and an element, ready to run.

    Attributes:
        state: the spec of the state; ``None`` in a shape where it varies.
        spec: of the results, beside the new state; without leaves for ``reduce``.
        start: makes it anew, with the initial state.
        is_python: whether it runs as Python.
        origin: if not, what an equal one is built of in another process.
        user: the user's function, with the variables it reads held as they were.
    """

    state: ElementSpec
    spec: ElementSpec
    start: Callable[[], Recurrence]
    is_python: bool
    user: UserFunction
    origin: Origin | None = None


def recurrence_again(origin: Origin) -> BuiltRecurrence:
    """The function of another process, where it could be compiled."""
    function, operation, initial, state, source, keyed = origin
    return build_recurrence(function, operation, initial, state, source, not_here, keyed)


def build_recurrence(
    function: Callable[..., Any],
    operation: str,
    initial: Sequence[np.ndarray],
    state: ElementSpec,
    source: ElementSpec,
    first_element: Callable[[], Any],
    keyed: bool = False,
) -> BuiltRecurrence:
    """Traces ``function(state, element)``, or arranges for it to run as Python.

    Args:
        function: the user's; for ``scan`` it returns the new state and a result, for ``reduce`` the
            new state.
        operation: ``"scan"`` or ``"reduce"``.
        initial: the leaves of the initial state.
        state: their spec.
        source: the spec of the elements.
        first_element: returns one, in case the function cannot be traced.
        keyed: whether elements have a random key beside them, by which the function draws.

    Raises:
        TypeError: the new state has another structure or other dtypes than the initial one.
        Exception: what the function itself raises on the first element.
    """
    user = UserFunction(function, operation, keyed)
    held = dataclasses.replace(user, function=frozen(function))
    both = ElementSpec(
        tuple_of([state.structure, source.structure]), (*state.leaves, *source.leaves)
    )
    try:
        _check_traceable(both, state)
        with same_in_python(user):
            spec, program = reused(
                function,
                (operation, state, source, keyed),
                lambda: _compiled(user, both, state, source),
            )
        return BuiltRecurrence(
            state,
            spec,
            lambda: CompiledRecurrence(program, list(initial)),
            is_python=False,
            user=held,
            origin=(held.function, operation, list(initial), state, source, keyed),
        )
    except NotTraceable as reason:
        result = _example(user, both, initial, first_element())
        after, spec = _parted(result, state, user)
        merged = state.with_leaves(
            [
                a.merged(b) or AnyShape(a.shape, a.dtype)
                for a, b in zip(state.leaves, after.leaves, strict=True)
            ]
        )
        why = str(reason)
        return BuiltRecurrence(
            merged,
            spec,
            lambda: PythonRecurrence(user, source, merged, spec, list(initial), why),
            is_python=True,
            user=held,
        )


def _compiled(
    user: UserFunction, both: ElementSpec, state: ElementSpec, source: ElementSpec
) -> tuple[ElementSpec, Any]:
    traced = trace(user, both)
    if traced.natives:
        raise NotTraceable("it calls native operations", traced.spec)
    after, spec = _parted(traced.spec, state, user)
    if after != state:
        raise NotTraceable("the shape of its state changes", traced.spec)
    return spec, compiled_program(user, traced, state, source)


def _check_traceable(both: ElementSpec, state: ElementSpec) -> None:
    if has_datasets(both) or has_ragged(both):
        raise NotTraceable("it takes a dataset or a ragged array")
    if not all(leaf.is_static for leaf in both.leaves):
        raise NotTraceable("elements vary in shape")
    if any(leaf.is_string for leaf in state.leaves):
        raise NotTraceable("its state holds strings")


def _example(
    user: UserFunction, both: ElementSpec, initial: Sequence[np.ndarray], element: Any
) -> ElementSpec:
    state = both.structure.children[0]
    before = state.unflatten([leaf[()] for leaf in initial])
    return spec_from_example(user, both, (before, element), static=False)


def _parted(
    result: ElementSpec, state: ElementSpec, user: UserFunction
) -> tuple[ElementSpec, ElementSpec]:
    """The specs of the new state and of what comes beside it.

    Raises:
        TypeError: there are no such parts, or the state's dtypes differ.
    """
    structure, count = result.structure, state.structure.num_leaves
    nothing = ElementSpec(tuple_of([]), ())
    if user.operation == "reduce":
        after, rest = result, nothing
    elif structure.kind == "tuple" and len(structure.children) == 2:
        first, second = structure.children
        split = first.num_leaves
        after = ElementSpec(first, result.leaves[:split])
        rest = ElementSpec(second, result.leaves[split:])
    else:
        raise TypeError(f"{user.where} must return (new state, result), it returns {structure}")
    if after.structure != state.structure or len(after.leaves) != count:
        raise TypeError(
            f"{user.where} returns a state of structure {after.structure}, the initial state has "
            f"{state.structure}"
        )
    for i, (new, old) in enumerate(zip(after.leaves, state.leaves, strict=True)):
        if new.dtype != old.dtype:
            raise TypeError(
                f"{user.where} makes leaf {i} of the state {new}, the initial state has {old}; "
                f"give an initial state of that type, such as np.{new.dtype}(...)"
            )
    return after, rest
