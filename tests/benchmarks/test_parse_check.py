import functools
import itertools

import numpy as np
import pytest

from benchmarks.harness import pipelines
from benchmarks.harness.workload import Scale
from benchmarks.workloads.example_files import columns
from benchmarks.workloads.parse_examples import (
    WORKLOADS,
    check,
    drumline_batches,
    drumline_singly,
    measured,
)

SCALE = Scale(elements=300, batch_size=128, later_epochs=1)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)


def problem(prepare, in_three=True, shuffled=False):
    measurement = measured(prepare, (), in_three)(SCALE)
    return check(SCALE, {"x": measurement}, shuffled=shuffled).get("x", "")


@pytest.mark.parametrize("in_three", [True, False])
def test_batches_are_parsed(in_three):
    assert problem(drumline_batches, in_three) == ""


def test_records_are_parsed_singly_and_shuffled():
    assert problem(drumline_singly, shuffled=True) == ""


def batches(change):
    floats, integers, label = (column.copy() for column in columns(SCALE.elements))
    change(floats, integers, label)
    ends = [0, 128, 256, 300]
    spans = [slice(a, b) for a, b in itertools.pairwise(ends)]
    return [{"floats": floats[s], "integers": integers[s], "label": label[s]} for s in spans]


def nothing(floats, integers, label):
    pass


def swap(floats, integers, label):
    for column in (floats, integers, label):
        column[[0, 1]] = column[[1, 0]]


def alter(column, floats, integers, label):
    (floats, integers, label)[column][7] += 1


@pytest.mark.parametrize(
    ("change", "in_order", "shuffled"),
    [
        (nothing, "", "shuffled"),
        (swap, "in order", ""),
        (functools.partial(alter, 0), "in order", "shuffled"),
        (functools.partial(alter, 1), "in order", "shuffled"),
        (functools.partial(alter, 2), "in order", "shuffled"),
    ],
)
def test_other_work_is_found(change, in_order, shuffled):
    ready = batches(change)
    for expected, flag in ((in_order, False), (shuffled, True)):
        found = problem(lambda scale, in_three: lambda: ready, shuffled=flag)
        assert expected in found and bool(found) == bool(expected)


def test_integers_have_three_bytes():
    integers = columns(1000)[1]
    assert integers.min() >= 1 << 14 and integers.max() < 1 << 21
    assert np.unique(integers).size > 20_000
    assert {w.name for w in WORKLOADS} == {"parse_batches", "parse_forty", "parse_singly"}
