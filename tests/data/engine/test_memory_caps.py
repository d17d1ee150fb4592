"""What is made ahead keeps to ``autotune.ram_budget``; ``explain()`` says what that comes to."""

import re
import time

import numpy as np
import pytest

from drumline.data import Dataset, Options
from tests.data.engine.test_memory_limits import run

ROW = 1 << 20
BUDGET = 8 << 20


def large(calls):
    def made(v):
        calls.append(v)
        return np.full(ROW, int(v), np.uint8)

    return made


def bounded(dataset):
    options = Options()
    options.autotune.ram_budget = BUDGET
    return dataset.with_options(options)


@pytest.mark.parametrize(
    "ahead",
    [
        lambda ds, f: ds.map(f).prefetch(500),
        lambda ds, f: ds.map(f, num_parallel_calls=32),
        lambda ds, f: ds.map(f).batch(2, num_parallel_calls=500),
    ],
)
def test_little_is_made_ahead_of_what_is_large(ahead):
    calls = []
    dataset = bounded(ahead(Dataset.range(1000), large(calls)))
    calls.clear()
    iterator = iter(dataset)
    next(iterator)
    time.sleep(0.2)
    assert 0 < len(calls) < 16
    assert [int(np.ravel(e)[0]) for e, _ in zip(iterator, range(3), strict=False)]
    iterator.close()


def test_the_most_that_is_held_is_told():
    def most(dataset):
        found = re.search(r"memory\n  at most ([0-9.]+) MB", bounded(dataset).explain())
        assert found is not None
        return float(found[1]) * 1e6

    rows = Dataset.range(1000).map(large([]))
    assert most(rows) == 0
    assert 3 * ROW <= most(rows.prefetch(2)) < 5 * ROW
    assert BUDGET / 2 <= most(rows.prefetch(500)) < BUDGET
    assert BUDGET / 4 <= most(Dataset.range(1000).map(large([]), num_parallel_calls=32)) < BUDGET
    lengths = Dataset.range(1000).map(lambda v: np.zeros(int(v) % 7), num_parallel_calls=2)
    assert abs(most(lengths) - BUDGET / 2) < 1e5
    assert 20 * ROW <= most(rows.shuffle(10)) < 30 * ROW
    assert 4 * ROW <= most(rows.batch(2).prefetch(1)) < 5 * ROW
    assert BUDGET / 2 <= most(rows.padded_batch(2).prefetch(1)) < BUDGET
    read = Dataset.range(8).interleave(
        lambda i: Dataset.range(1000).map(lambda v: np.full(ROW, v, np.uint8)), 2, 1, 2
    )
    assert abs(most(read) - 30 * ROW) < 1e5
    assert 10 * ROW <= most(rows.window(3, shift=1)) < 11 * ROW
    assert "as elements are: unique" in Dataset.range(5).unique().explain()


LARGE = """
    import re

    def made(v):
        return np.full(8 << 20, int(v), np.uint8)

    dataset = Dataset.range(60).map(made, num_parallel_calls=8).shuffle(4).prefetch(50)
    from drumline.data import Options
    options = Options()
    options.autotune.ram_budget = 128 << 20
    dataset = dataset.with_options(options)
    said = float(re.search(r"at most ([0-9.]+) MB", dataset.explain())[1])
    before = held("VmRSS")
    for row in dataset:
        pass
    print(held("VmHWM") - before, said * 1e6)
"""


BASE = 4 * (8 << 20) + (16 << 20)
"""Bytes: a block of each operation on its way, and what compiling and importing leave."""


@pytest.mark.thorough
def test_a_pipeline_of_large_elements_holds_no_more_than_it_says():
    found, said = map(float, run(LARGE).split())
    assert said < 300e6
    assert found <= said + BASE


def test_quick_functions_of_large_elements_are_given_few_at_a_time():
    calls = []
    row = np.zeros(ROW, np.uint8)

    def ready(v):
        calls.append(int(v))
        return row

    iterator = iter(bounded(Dataset.range(1000).map(ready, num_parallel_calls=2)))
    calls.clear()
    for taken in range(1, 60):
        next(iterator)
        assert len(calls) < taken + 8
    iterator.close()


def test_what_an_interleave_reads_ahead_is_within_what_it_says():
    dataset = Dataset.range(6).interleave(
        lambda i: Dataset.range(40).map(large([])), 2, num_parallel_calls=2
    )
    stages = {stage.name: stage for stage in dataset.profile(elements=60).stages}
    stage = stages["interleave"]
    assert ROW <= stage.held_nbytes <= stage.most_nbytes


def test_a_profile_shows_what_stages_hold_and_may_hold():
    dataset = bounded(Dataset.range(40).map(large([])).shuffle(4).prefetch(3))
    profile = dataset.profile(elements=40)
    held = {stage.name: (stage.held_nbytes, stage.most_nbytes) for stage in profile.stages}
    for name, least in (("prefetch", ROW), ("shuffle", 4 * ROW)):
        seen, most = held[name]
        assert least <= seen <= most
    assert held["iterator"] == (None, 0)
    text = " ".join(str(profile).split())
    assert f"of {held['shuffle'][1] / 1e6:.1f}" in text
    total = sum(most for _, most in held.values())
    assert f"memory: at most {total / 1e6:.1f} MB, " in text
    assert f"at most {total / 1e6:.1f} MB" in dataset.explain()
    assert "as elements are: unique" in str(Dataset.range(9).unique().profile())
    cached = Dataset.range(1000).cache().profile()
    assert {s.held_nbytes for s in cached.stages if s.name == "cache"} == {8000}
