"""Random programs give what they give in ``tf.data``.

Elements, dtypes, structure, ``element_spec``, cardinality, and where an error comes are compared.
Where drumline differs by decision, `DECISIONS` says how an outcome is brought to one form; each
entry names its row of ``docs/differences.md``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tests.differential.comparing import Outcome, described, narrower, outcome_of, same
from tests.differential.programs import LIMIT, Program, programs
from tests.differential.sides import Ours, Theirs

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow (the extra `reference`)")

OURS, THEIRS = Ours(), Theirs(tf)
UNKNOWN = -2


@dataclasses.dataclass(frozen=True)
class Decision:
    """A difference that is meant.

    Attributes:
        why: the row of ``docs/differences.md``, in short.
        steps: where one of these is in a program, it may show.
        allows: whether it explains what came of drumline's and of TensorFlow's program.
    """

    why: str
    steps: tuple[str, ...]
    allows: Callable[[Outcome, Outcome], bool]


def _no_error_of_ours(ours: Outcome, theirs: Outcome) -> bool:
    """Theirs ends by an error, up to which the elements are ours."""
    count = len(theirs.elements)
    return theirs.ending == "error" and all(map(same, ours.elements[:count], theirs.elements))


def _equal(ours: Outcome, theirs: Outcome) -> bool:
    """All but the specs agree."""
    ends = (ours.ending, len(ours.elements)) == (theirs.ending, len(theirs.elements))
    known = ours.cardinality == theirs.cardinality or theirs.cardinality == UNKNOWN
    return ends and known and all(map(same, ours.elements, theirs.elements))


DECISIONS = [
    Decision(
        "An element that failed counts as an element for `take` and `skip`; what failed in another "
        "shard is not raised.",
        (".skip(", ".shard("),
        _no_error_of_ours,
    ),
    Decision(
        "`zip`: what comes of one dataset after another has ended is not asked for.",
        (".zip(", ".zip of a dict("),
        lambda ours, theirs: ours.ending == "end" and _no_error_of_ours(ours, theirs),
    ),
    Decision(
        "Of a function that runs as Python dimensions are unknown where trying it does not tell.",
        (".scan(", ".map(", ".flat_map(", ".interleave(", ".group_by_window("),
        lambda ours, theirs: _equal(ours, theirs) and narrower(theirs.spec, ours.spec),
    ),
    Decision(
        "A function that runs as Python is tried when it is given, and raises there what it raises "
        "for the element it is tried with.",
        (".map(", ".scan(", ".flat_map(", ".interleave(", ".group_by_window(", ".filter("),
        lambda ours, theirs: ours.building and not theirs.elements,
    ),
]


def differences(program: Program) -> list[str]:
    """What of a program's outcome differs from TensorFlow's, and not by a decision."""
    theirs, ours = outcome_of(program, THEIRS, LIMIT), outcome_of(program, OURS, LIMIT)
    found = _compared(program, ours, theirs)
    text = str(program)
    for decision in DECISIONS:
        if found and any(step in text for step in decision.steps) and decision.allows(ours, theirs):
            return []
    return [*found, f"drumline: {ours}", f"tf.data: {theirs}"] if found else []


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
