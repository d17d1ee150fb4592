import dataclasses

import numpy as np
import pytest

from benchmarks.harness import parts as parts_module
from benchmarks.harness.floors import part_ratios, ratio
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.parts import Part, check_parts, measured_parts
from benchmarks.harness.workload import Scale
from benchmarks.report import rows
from benchmarks.report.summary import summarize
from benchmarks.workloads import eager_operations
from tests.benchmarks.test_loops import Clock
from tests.benchmarks.test_report import SCALE as SMALL
from tests.benchmarks.test_report import WORKLOAD, rounds

SCALE = Scale(elements=4, batch_size=1, later_epochs=3)


def measured(monkeypatch, results=((1.0, 2.0),)):
    clock = Clock()
    monkeypatch.setattr(parts_module, "time", clock)
    slow = iter([0.0] * 5 + [9.0] * 4 + [1.0] * 4 + [2.0] * 4)
    return measured_parts(
        lambda scale: (
            lambda: [
                Part("quick", lambda: clock.passes(1), lambda: [list(each) for each in results]),
                Part("slow", lambda: clock.passes(next(slow)), lambda: [[0.0]]),
            ]
        )
    )(SCALE)


def test_a_part_takes_its_least_time(monkeypatch):
    measurement = measured(monkeypatch)
    assert measurement.parts == {"quick": 1.0, "slow": 1.0}
    assert measurement.elements == 8
    assert measurement.later_epochs_s == (40.0, 8.0, 12.0)
    assert Measurement.from_json(measurement.to_json()) == measurement


def test_other_results_are_a_problem_of_ours(monkeypatch):
    check = check_parts(tolerance=1e-3)
    right = measured(monkeypatch)
    assert check(SCALE, {"drumline": right, "TensorFlow": measured(monkeypatch)}) == {}
    near = measured(monkeypatch, [(1.0, 2.0001)])
    assert check(SCALE, {"drumline": right, "TensorFlow": near}) == {}
    for wrong in ([(1.0, 2.1)], [(1.0,)], [(1.0, 2.0), (3.0,)]):
        found = check(SCALE, {"drumline": right, "TensorFlow": measured(monkeypatch, wrong)})
        assert found == {"drumline": "gave other results than TensorFlow for quick"}


def with_parts(measurement, **parts):
    return dataclasses.replace(measurement, parts=parts)


def test_the_slowest_part_is_judged_by_its_median(make):
    ours = [with_parts(make(), a=1.0, b=t) for t in (4.0, 2.0, 1.0)]
    theirs = [with_parts(make(), a=2.0, b=1.0)] * 2 + [None]
    assert part_ratios(ours, theirs)["a"].median == 2.0
    assert ratio(ours, theirs, "slowest").median == pytest.approx((0.25 + 0.5) / 2)
    assert ratio([make()], [make()], "slowest") is None


def test_the_report_has_a_row_for_each_part(make):
    several = rounds(make)
    several.runs["drumline"] = [with_parts(m, a=1e-6) for m in several.runs["drumline"]]
    several.runs["peer"] = [with_parts(m, a=2e-6) for m in several.runs["peer"]]
    summary = summarize(WORKLOAD, SMALL, several, {}, quick=False)
    ((columns, cells),) = rows.part_tables(summary)
    assert columns == ["operation", "drumline, us", "peer, us", "drumline / it"]
    assert cells == [["a", "1.0", "2.0", "2.00x"]]
    assert rows.part_tables(summarize(WORKLOAD, SMALL, rounds(make), {}, quick=False)) == []


def test_every_operation_runs_on_the_look_alike():
    operations = eager_operations.look_alike(SCALE)()
    assert len({part.name for part in operations}) == len(operations) > 60
    for part in operations[::6]:
        for numbers in part.result():
            assert np.isfinite(numbers).all(), part.name
