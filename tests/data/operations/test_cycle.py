"""The visits of an interleaving, planned for a block, beside the same visits one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from drumline.data.operations.nested.nesting import Cycle


def by_hand(
    cycle: Cycle, known: list[int | None], limit: int, opens: bool
) -> tuple[list[int], list[int], set[int]]:
    """The slot of each element, how many each slot gave, and which were found at their end."""
    left = [count or 0 for count in known]
    order: list[int] = []
    closed: set[int] = set()
    empty = {slot for slot, count in enumerate(known) if count is None}
    slot, used = cycle.slot, cycle.used
    for _ in range(500):
        if len(order) == limit:
            break
        if slot in empty or slot in closed:
            if opens:
                break
        elif left[slot]:
            left[slot] -= 1
            order.append(slot)
            used += 1
            if used < cycle.length:
                continue
        elif known[slot] == 0:
            closed.add(slot)
        else:
            break
        slot, used = (slot + 1) % cycle.slots, 0
    taken = [(known[s] or 0) - left[s] for s in range(cycle.slots)]
    return order, taken, closed


@st.composite
def cases(draw: st.DrawFn) -> tuple[Cycle, list[int | None], int, bool]:
    slots, length = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    counts = st.one_of(st.integers(1, 9), st.sampled_from([0, None, 2 * length, 2 * length]))
    known = [draw(counts) for _ in range(slots)]
    slot = draw(st.integers(0, slots - 1))
    known[slot] = known[slot] or length
    used = draw(st.integers(0, length - 1))
    return Cycle(slots, length, slot, used), known, draw(st.integers(1, 30)), draw(st.booleans())


@given(cases())
@example((Cycle(1, 2), [1], 5, True))
@example((Cycle(2, 2, 0, 1), [2, 2], 9, True))
def test_a_block_of_visits_is_its_visits(case: tuple[Cycle, list[int | None], int, bool]) -> None:
    cycle, known, limit, opens = case
    order, taken, closed = by_hand(cycle, known, limit, opens)
    plan = cycle.schedule(known, limit, opens)
    assert plan.taken.tolist() == taken
    assert closed >= set(np.flatnonzero(plan.closed).tolist())
    slots = np.repeat(np.arange(cycle.slots), plan.taken)
    if plan.order is None:
        turns = [(cycle.slot + i) % cycle.slots for i in range(cycle.slots)]
        rounds = taken[cycle.slot] // cycle.length
        assert order == [s for _ in range(rounds) for s in turns for _ in range(cycle.length)]
    else:
        assert slots[plan.order].tolist() == order
