"""Any plan with native operations yields the same bits, however it runs: those of plain lists."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset
from tests.data.functions.native.native_operations import (
    codes,
    from_codes,
    picture,
    thumbnail,
    to_number,
    to_picture,
    to_text,
)
from tests.data.plans import bits, options

BIG = 2**40

BETWEEN = {
    "nothing": lambda ds: ds,
    "shuffle": lambda ds: ds.shuffle(5, seed=2),
    "cache": lambda ds: ds.cache(),
    "prefetch": lambda ds: ds.prefetch(2),
    "take": lambda ds: ds.take(17),
}

steps = st.lists(
    st.one_of(
        st.tuples(st.just("rewrite"), st.sampled_from([None, 2])),
        st.tuples(st.just("codes"), st.sampled_from(sorted(BETWEEN))),
        st.tuples(st.just("pictures"), st.sampled_from(sorted(BETWEEN))),
        st.tuples(st.just("batch"), st.integers(1, 7), st.booleans()),
        st.tuples(st.just("filter"), st.integers(2, 4)),
        st.tuples(st.just("draw")),
        st.tuples(st.just("fail"), st.integers(2, 5)),
        st.tuples(st.just("python")),
        st.tuples(st.just("shuffle"), st.integers(1, 40)),
        st.tuples(st.just("repeat")),
    ),
    min_size=1,
    max_size=3,
)


def base(n: int) -> Dataset:
    texts = np.array([str(BIG + 3 * i).encode() for i in range(n)], object)
    return Dataset.from_tensor_slices((texts, np.arange(n)))


def apply_step(ds: Dataset, step: tuple[Any, ...]) -> Dataset:
    match step:
        case ("rewrite", workers):
            return ds.map(
                lambda s, n: (to_text(to_number(s) * 2 + n), n + 1), num_parallel_calls=workers
            )
        case ("codes", name):
            varying = BETWEEN[name](ds.map(lambda s, n: (codes(s), n)))
            return varying.map(lambda c, n: (from_codes(c), n))
        case ("pictures", name):
            varying = BETWEEN[name](ds.map(lambda s, n: (to_picture(to_number(s)), n)))
            return varying.map(lambda p, n: (to_text(thumbnail(p, n % 9)[1, 0, 2]), n))
        case ("batch", size, drop):
            batches = ds.batch(size, drop_remainder=drop)
            return batches.map(lambda s, n: (to_text(to_number(s)), n)).unbatch()
        case ("filter", k):
            return ds.filter(lambda s, n: to_number(s) % k != 0)
        case ("draw",):
            return ds.map(
                lambda s, n: (to_text(to_number(s) + dl.random.uniform((), 0, 50, np.int32)), n)
            )
        case ("fail", k):
            failing = ds.map(lambda s, n: (to_text(BIG // (to_number(s) % k)), n))
            return failing.ignore_errors()
        case ("python",):
            return ds.map(lambda s, n: (str(int(s) + 1).encode(), n))
        case ("shuffle", size):
            return ds.shuffle(size, seed=4)
    return ds.repeat(2)


def apply_to_list(items: list[Any], step: tuple[Any, ...]) -> list[Any]:
    match step:
        case ("rewrite", _):
            return [(b"%d" % (int(s) * 2 + n), n + 1) for s, n in items]
        case ("codes", name):
            return items[:17] if name == "take" else items
        case ("pictures", name):
            kept = items[:17] if name == "take" else items
            return [(b"%d" % (picture(int(s))[0, 0, 0] + n % 9), n) for s, n in kept]
        case ("batch", size, drop):
            return items[: len(items) - len(items) % size] if drop else items
        case ("filter", k):
            return [(s, n) for s, n in items if int(s) % k]
        case ("fail", k):
            return [(b"%d" % (BIG // (int(s) % k)), n) for s, n in items if int(s) % k]
        case ("python",):
            return [(b"%d" % (int(s) + 1), n) for s, n in items]
        case ("repeat",):
            return items * 2
    return items


def build(n: int, plan: list[Any], optimize: bool, threads: int) -> Dataset:
    ds = base(n)
    for step in plan:
        ds = apply_step(ds, step)
    return ds.with_options(options(optimize, threads))


def elements(items: Any) -> list[Any]:
    """``bits`` of numbers, strings as they are."""
    return [(bytes(s), *bits([(n,)])[0]) for s, n in items]


def expected(n: int, plan: list[Any]) -> list[Any]:
    items: list[Any] = [(b"%d" % (BIG + 3 * i), np.int64(i)) for i in range(n)]
    for step in plan:
        items = apply_to_list(items, step)
    return items


def fresh(n: int, plan: list[Any], optimize: bool, threads: int) -> Dataset:
    """Seeds of operations come from Python's ``random``."""
    random.seed(7)
    return build(n, plan, optimize, threads)


def check(n: int, plan: list[Any], stop: int) -> None:
    names = {part for step in plan for part in step if isinstance(part, str)}
    ds = fresh(n, plan, True, 3)
    found = elements(ds)
    assert "python" in names or "runs as Python" not in ds.explain()
    if "draw" not in names and not {"shuffle", "take"} <= names:
        wanted = elements(expected(n, plan))
        assert ("shuffle" in names and sorted(found) == sorted(wanted)) or found == wanted
    iterator = iter(fresh(n, plan, False, 1))
    for _ in range(min(stop, len(found))):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    assert elements(iterator) == found[stop:]
    again = iter(fresh(n, plan, True, 2))
    again.restore(state)
    assert elements(again) == found[stop:]


@settings(max_examples=4)
@given(st.integers(0, 50), steps, st.integers(0, 60))
def test_however_it_runs(n, plan, stop):
    check(n, plan, stop)


@pytest.mark.thorough
@given(st.integers(0, 50), steps, st.integers(0, 60))
def test_however_it_runs_in_many_plans(n, plan, stop):
    check(n, plan, stop)


@pytest.mark.thorough
def test_every_step_at_once():
    check(40, [("rewrite", 2), ("codes", "cache"), ("pictures", "nothing"), ("draw",)], 11)
