"""Any plan, however it runs, yields the same bits; without shuffles, those of plain lists."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data import further_plans
from tests.data.plans import (
    all_steps,
    apply_to_list,
    base_list,
    bits,
    build,
    lengths,
    options,
    steps,
)

BY_POSITION = (
    "take",
    "skip",
    "shard",
    "zip",
    "enumerate",
    "batch_unbatch",
    "take_while",
    "python_scan",
    "windows",
    *further_plans.BY_POSITION,
)
BY_CHANCE = ("shuffle", "sample", *further_plans.BY_CHANCE)


def check_like_lists(n, plan):
    expected = base_list(n)
    for step in plan:
        expected = apply_to_list(expected, step)
    if any(step[0] in further_plans.UNKNOWN for step in plan):
        return
    shuffled = any(step[0] in BY_CHANCE for step in plan)
    if shuffled and any(step[0] in BY_POSITION for step in plan):
        return
    found, wanted = bits(list(build(n, plan))), bits(expected)
    if shuffled:
        found, wanted = sorted(found), sorted(wanted)
    assert found == wanted


@given(lengths, steps)
def test_like_lists(n, plan):
    check_like_lists(n, plan)


@pytest.mark.thorough
@given(lengths, all_steps)
def test_all_operations_like_lists(n, plan):
    check_like_lists(n, plan)


@given(lengths, steps)
def test_optimizer_and_threads_do_not_show(n, plan):
    runs = []
    for optimize, threads in ((False, 1), (True, 1), (True, 3)):
        ds = build(n, plan).with_options(options(optimize, threads))
        runs.append([bits(list(ds)), bits(list(ds))])
    assert runs[0] == runs[1] == runs[2]


ways = st.tuples(st.booleans(), st.integers(1, 3))


def check_resuming(n, plan, stop, way, other, epoch):
    ds = build(n, plan).with_options(options(*way))
    for _ in range(epoch):
        list(ds)
    iterator = iter(ds)
    for _ in range(stop):
        if next(iterator, None) is None:
            break
    state = json.loads(json.dumps(iterator.state()))
    rest = bits(list(iterator))
    again = iter(build(n, plan).with_options(options(*other)))
    again.restore(state)
    assert bits(list(again)) == rest


interruptions = (st.integers(0, 60), ways, ways, st.integers(0, 1))


@given(lengths, steps, *interruptions)
def test_resuming_goes_on_exactly_under_any_options(n, plan, stop, way, other, epoch):
    check_resuming(n, plan, stop, way, other, epoch)


@pytest.mark.thorough
@given(lengths, all_steps, *interruptions)
def test_resuming_all_operations(n, plan, stop, way, other, epoch):
    check_resuming(n, plan, stop, way, other, epoch)


@given(lengths, steps)
def test_cardinality_is_true_or_unknown(n, plan):
    ds = build(n, plan)
    assert ds.cardinality() in (-2, len(list(ds)))
