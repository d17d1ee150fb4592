"""Native operations that run as one where nothing else takes what is between them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from drumline.data.functions.arithmetic import arithmetic_of
from drumline.data.functions.segments import CompiledPart, NativeCall, Segments

Part = NativeCall | CompiledPart


def fused(segments: Segments) -> Segments:
    """The same with operations in one call that offer it (``NativeOperation.after``, ``then``)."""
    uses = collections.Counter(_slots_taken(segments))
    parts: list[Part] = []
    for part in segments.parts:
        before = _only_source(parts, part, uses)
        joined = None if before is None else _joined(before, part)
        parts = [one for one in parts if joined is None or one is not before]
        parts.append(joined or part)
    return Segments(tuple(parts), segments.results)


def _slots_taken(segments: Segments) -> Iterator[int]:
    taken = [segments.results]
    taken += [
        part.arguments if isinstance(part, NativeCall) else part.takes for part in segments.parts
    ]
    return (origin for origins in taken for origin in origins if isinstance(origin, int))


def _only_source(
    parts: Sequence[Part], part: Part, uses: collections.Counter[int]
) -> NativeCall | None:
    """The call whose one result a part of one argument takes, if nothing else does."""
    arguments = part.arguments if isinstance(part, NativeCall) else part.takes
    if len(arguments) != 1:
        return None
    (origin,) = arguments
    if not isinstance(origin, int) or uses[origin] != 1:
        return None
    calls = (one for one in parts if isinstance(one, NativeCall))
    return next((call for call in calls if call.gives == (origin,)), None)


def _joined(first: NativeCall, second: Part) -> NativeCall | None:
    if isinstance(second, CompiledPart):
        return _computing(first, second)
    operation = second.operation.after(first.operation)
    if operation is None:
        return None
    return dataclasses.replace(
        second, operation=operation, arguments=first.arguments, specs=first.specs
    )


def _computing(first: NativeCall, second: CompiledPart) -> NativeCall | None:
    """The call that also does a program's arithmetic."""
    steps = arithmetic_of(second)
    operation = None if steps is None else first.operation.then(steps)
    if operation is None:
        return None
    return dataclasses.replace(first, operation=operation, gives=second.gives)
