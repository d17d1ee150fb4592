"""Random programs give what they give in ``tf.data``.

Elements, dtypes, structure, ``element_spec``, cardinality, and where an error comes are compared.
Where drumline differs by decision, `DECISIONS` says how an outcome is brought to one form; each
entry names its row of ``docs/tensorflow/differences.md``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

import drumline as dl
from tests.differential.comparing import Outcome, described, narrower, outcome_of, plain, same
from tests.differential.parts import Step, parts_of, tensors_of
from tests.differential.programs import LIMIT, Program, programs
from tests.differential.sides import Ours, Theirs

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow (the extra `reference`)")

OURS, THEIRS = Ours(), Theirs(tf)
UNKNOWN = -2
MANY = 1000
"""More elements than come before a step that ends."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """A difference that is meant.

    Attributes:
        why: the row of ``docs/tensorflow/differences.md``, in short.
        allows: whether it explains what came of drumline's and of TensorFlow's program: by its
            cause in the program, and not by the names of its steps alone.
    """

    why: str
    allows: Callable[[Program, Outcome, Outcome], bool]


def _no_error_of_ours(ours: Outcome, theirs: Outcome) -> bool:
    """Theirs ends by an error, up to which the elements are ours."""
    count = len(theirs.elements)
    alike = all(map(same, ours.elements, theirs.elements)) and len(ours.elements) >= count
    return theirs.ending == "error" and not ours.building and alike


def _equal(ours: Outcome, theirs: Outcome) -> bool:
    """All but the specs agree."""
    ends = (ours.ending, len(ours.elements)) == (theirs.ending, len(theirs.elements))
    known = ours.cardinality == theirs.cardinality or theirs.cardinality == UNKNOWN
    return ends and known and all(map(same, ours.elements, theirs.elements))


def _failing_before(program: Program, number: int) -> int | None:
    """The position of the first element that fails before a step, if it does so on both sides."""
    before = program.before(number)
    theirs, ours = (outcome_of(before, side, MANY) for side in (THEIRS, OURS))
    failing = not ours.building and not theirs.building and theirs.ending == ours.ending == "error"
    return len(theirs.elements) if failing and _equal(ours, theirs) else None


def _left_out(program: Program, ours: Outcome, theirs: Outcome) -> bool:
    """An element fails that a step leaves out."""

    def fails(number: int, step: Step) -> bool:
        leaves_out = step.facts.get("leaves out")
        position = None if leaves_out is None else _failing_before(program, number)
        return position is not None and leaves_out is not None and leaves_out(position)

    return _no_error_of_ours(ours, theirs) and any(
        fails(number, step) for number, step in enumerate(program.steps)
    )


def _not_asked_for(program: Program, ours: Outcome, theirs: Outcome) -> bool:
    """An element fails that a shorter dataset has no partner for."""

    def fails(number: int, step: Step) -> bool:
        end = step.facts.get("other ends at")
        return end is not None and _failing_before(program, number) == end

    return _no_error_of_ours(ours, theirs) and any(
        fails(number, step) for number, step in enumerate(program.steps)
    )


def _runs_as_python(program: Program) -> bool:
    return "runs as Python" in str(program.build(OURS).explain())


def _unknown_dimensions(program: Program, ours: Outcome, theirs: Outcome) -> bool:
    return (
        not ours.building
        and not theirs.building
        and _equal(ours, theirs)
        and narrower(theirs.spec, ours.spec)
        and _runs_as_python(program)
    )


def _tried_when_given(program: Program, ours: Outcome, theirs: Outcome) -> bool:
    """Theirs raises for the first element what ours raises when it is built, or has none."""
    if not ours.building or theirs.building:
        return False
    number = _step_that_raises(program)
    reached = outcome_of(program.before(number + 1), THEIRS, 1)
    raised = reached.ending == "error" and not reached.elements
    none = not outcome_of(program.before(number), THEIRS, 1).elements
    return program.steps[number].name in GIVEN_FUNCTIONS and (none or raised)


def _step_that_raises(program: Program) -> int:
    """The first step that drumline cannot build."""
    numbers = range(len(program.steps))
    return next(n for n in numbers if outcome_of(program.before(n + 1), OURS, 0).building)


GIVEN_FUNCTIONS = (
    *("map", "scan", "flat_map", "interleave", "group_by_window", "filter", "take_while"),
    *("reduce", "bucket", "with_dataset", "of_dataset", "window"),
)


def _bytes_left_over(program: Program, ours: Outcome, theirs: Outcome) -> bool:
    """Theirs raises before a file's records, ours after them, if so many are asked for."""
    raised = isinstance(ours.error, dl.errors.DataLossError) and not ours.building
    found = program.steps[0].facts.get("left over")
    return bool(found) and (raised or _no_error_of_ours(ours, theirs))


def _has_datasets_to_store(program: Program, ours: Outcome, theirs: Outcome) -> bool:
    if not isinstance(ours.error, TypeError) or not ours.building or theirs.building:
        return False
    number = _step_that_raises(program)
    spec = program.before(number).build(THEIRS).element_spec
    leaves = [type(leaf).__name__ for _, leaf in parts_of(spec)]
    return program.steps[number].name == "stored" and "DatasetSpec" in leaves


def _ends_in_a_length(program: Program, ours: Outcome, theirs: Outcome) -> bool:
    """Ours raises where theirs go on."""
    raised = isinstance(ours.error, dl.errors.DataLossError) and not ours.building
    return raised and bool(program.steps[0].facts.get("within a length"))


def _narrowed_constants(program: Program, ours: Outcome, theirs: Outcome) -> bool:
    """A map of numbers of at most 32 bits has constants of 64, which JAX narrows."""

    def wide(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: wide(value[key]) for key in value}
        if isinstance(value, tuple | list):
            return tuple(map(wide, value))
        return "int64" if isinstance(value, str) and value == "int32" else value

    def narrow(number: int) -> bool:
        leaves = tensors_of(program.before(number).build(OURS).element_spec)
        return all(str(leaf.dtype) not in ("int64", "uint64") for leaf in leaves)

    maps = [n for n, step in enumerate(program.steps) if step.name == "map"]
    return (
        not ours.building
        and not theirs.building
        and ours.ending == theirs.ending
        and wide(ours.spec) == wide(theirs.spec)
        and wide(ours.elements) == wide(theirs.elements)
        and any(map(narrow, maps))
    )


DECISIONS = [
    Decision(
        "An element that failed counts as an element for `take` and `skip`; what failed in another "
        "shard is not raised.",
        _left_out,
    ),
    Decision(
        "`zip`: what comes of one dataset after another has ended is not asked for.",
        _not_asked_for,
    ),
    Decision(
        "Of a function that runs as Python dimensions are unknown where trying it does not tell.",
        _unknown_dimensions,
    ),
    Decision(
        "A function that runs as Python is tried when it is given, and raises there what it raises "
        "for the element it is tried with.",
        _tried_when_given,
    ),
    Decision("Numbers have 32 bits on devices.", _narrowed_constants),
    Decision("Elements with datasets among their leaves are not stored.", _has_datasets_to_store),
    Decision("A file that ends within a record's length raises.", _ends_in_a_length),
    Decision(
        "`FixedLengthRecordDataset` gives a file's whole records and raises for what is left over.",
        _bytes_left_over,
    ),
]


def differences(program: Program) -> list[str]:
    """What of a program's outcome differs from TensorFlow's, and not by a decision."""
    theirs, ours = outcome_of(program, THEIRS, LIMIT), outcome_of(program, OURS, LIMIT)
    found = _compared(program, ours, theirs)
    if found and any(decision.allows(program, ours, theirs) for decision in DECISIONS):
        return []
    if not found and program.ordered and not ours.building:
        found = _positions(program, ours)
    return [*found, f"drumline: {ours}", f"tf.data: {theirs}"] if found else []


def _has_no_access(program: Program) -> bool:
    """TensorFlow fills a cache for the sake of an element, and runs all maps, of any shapes."""
    varying = any(
        None in leaf.shape
        for number in range(1, len(program.steps) + 1)
        for leaf in tensors_of(program.before(number).build(THEIRS).element_spec)
    )
    # Theirs goes through unbatch as well where the size of each batch is known.
    steps = (".cache", ".unbatch")
    known = any(step.text.startswith(steps) for step in program.steps)
    return varying or known or _runs_as_python(program)


def _positions(program: Program, ours: Outcome) -> list[str]:
    """What differs where elements are asked for by position; `ours` is equal to theirs."""
    count = len(ours.elements)
    by_position = {side: program.build(side) for side in (OURS, THEIRS)}
    found = []
    for position in sorted({0, count // 2, count - 1, count} & set(range(LIMIT))):
        if position == count and ours.ending == "more":
            continue
        got = {}
        for side, ds in by_position.items():
            try:
                got[side] = plain(side.at(ds, position))
            except Exception as error:
                got[side] = error
        mine, other = got[OURS], got[THEIRS]
        access = not (isinstance(mine, Exception) and OURS.has_no_access(mine))
        if position < count and access and not same(mine, ours.elements[position]):
            found.append(f"at {position}: {mine!r}")
        if position == count and access and not isinstance(mine, Exception):
            found.append(f"at {position}, where there is none: {mine!r}")
        if not access and not isinstance(other, Exception) and not _has_no_access(program):
            found.append(f"no random access, but in tf.data at {position}: {other!r}")
    return found


def _compared(program: Program, ours: Outcome, theirs: Outcome) -> list[str]:
    if ours.building or theirs.building:
        if ours.error is not None and theirs.error is not None:
            return []
        return [f"one of them cannot be built: {ours.error!r} {theirs.error!r}"]
    found = []
    if not narrower(ours.spec, theirs.spec):
        found.append("our element_spec says less, or something else")
    if any(not described(element, ours.spec) for element in ours.elements):
        found.append("an element is not what our element_spec says")
    # TensorFlow's is not always right: `take(0).repeat().take(5)` is said to have 5 elements.
    exact = ours.ending == "end" and ours.cardinality == len(ours.elements)
    if ours.cardinality != theirs.cardinality and theirs.cardinality != UNKNOWN and not exact:
        found.append("cardinality")
    if ours.ending != theirs.ending:
        found.append(f"ours ends by {ours.ending}, theirs by {theirs.ending}")
    if program.ordered:
        if len(ours.elements) != len(theirs.elements):
            found.append(f"{len(ours.elements)} elements, {len(theirs.elements)}")
        if not all(map(same, ours.elements, theirs.elements)):
            found.append("an element differs")
    elif theirs.ending == "end":
        if sorted(map(repr, ours.elements)) != sorted(map(repr, theirs.elements)):
            found.append("other elements, whatever their order")
    return found


def _check(program: Program) -> None:
    found = differences(program)
    assert not found, "\n  ".join(["", str(program), *found])


@given(program=programs(THEIRS))
@settings(max_examples=120)
def test_random_programs(program: Program) -> None:
    _check(program)


@pytest.mark.thorough
@given(program=programs(THEIRS))
@settings(max_examples=1200)
def test_many_random_programs(program: Program) -> None:
    _check(program)
