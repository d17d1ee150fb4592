import numpy as np
import pytest

from benchmarks.harness import pipelines
from benchmarks.harness.workload import Scale
from benchmarks.workloads.range_filter import WORKLOAD, expected, measured, numpy_by_hand

SCALE = Scale(elements=40_000, batch_size=256, later_epochs=1)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)


def problem(batches):
    measurement = measured(lambda scale: lambda: batches, ())(SCALE)
    return WORKLOAD.check(SCALE, {"x": measurement}).get("x", "")


def test_expected_is_what_plain_python_gives():
    values = [v * 2 + 1 for v in range(SCALE.elements) if (v * 2 + 1) % 3 == 0]
    assert np.concatenate(expected(SCALE)).tolist() == values
    assert {len(batch) for batch in expected(SCALE)[:-1]} == {256}


def test_numpy_by_hand_does_the_work():
    assert problem(numpy_by_hand(SCALE)()) == ""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda batches: batches[::-1], "in order"),
        (lambda batches: batches[:-1], "52 batches an epoch, not 53"),
        (lambda batches: [batches[0] + 1, *batches[1:]], "in order"),
        (lambda batches: [batch.astype(np.int32) for batch in batches], "int32"),
        (lambda batches: [np.concatenate(batches)] + [batches[0][:0]] * 52, "in order"),
    ],
)
def test_other_work_is_found(change, complaint):
    assert complaint in problem(change(expected(SCALE)))
