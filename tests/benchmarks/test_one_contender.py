"""Workloads of drumline alone: what their runs report, and what their checks find."""

from __future__ import annotations

from benchmarks.harness.workload import Scale
from benchmarks.workloads import console, job_server, jobs
from benchmarks.workloads.one_contender import once, other_than, repeated

SCALE = Scale(elements=10, batch_size=1, later_epochs=2)


def test_runs_of_two_kinds() -> None:
    again = repeated(SCALE, [3.0, 2.0, 4.0], {"lines": 3})
    assert (again.first_batch_s, again.first_epoch_s, again.later_epochs_s) == (3, 3, (2, 4))
    assert again.speed("later") == 10 / 3 and again.evidence == {"lines": 3}
    whole = once(SCALE, 0.5, 5.0, {"jobs": 11}, ("numpy",))
    assert (whole.first_batch_s, whole.first_epoch_s, whole.later_epochs_s) == (0.5, 5.0, (5.0,))
    assert whole.speed("later") == 2.0 and "numpy" in whole.versions


def test_other_evidence_is_named() -> None:
    measured = {"drumline": once(SCALE, 0.5, 5.0, {"jobs": 11, "more": 1})}
    assert other_than({"jobs": 11}, measured) == {}
    for wanted in ({"jobs": 10}, {"jobs": 11, "queued": True}):
        assert other_than(wanted, measured) == {"drumline": "came to {'jobs': 11, 'more': 1}"}


def test_declarations() -> None:
    declared = [each for of in (console, job_server, jobs) for each in of.WORKLOADS]
    assert len({each.name for each in declared}) == 8
    for each in declared:
        (floor,) = each.floors
        assert each.contender("drumline").requires and floor.metric == "later"
        assert each.baseline in [contender.name for contender in each.contenders]
