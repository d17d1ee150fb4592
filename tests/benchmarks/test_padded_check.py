import numpy as np
import pytest

from benchmarks.harness import pipelines
from benchmarks.harness.workload import Scale
from benchmarks.workloads.padded_batch import WORKLOAD, drumline, expected, measured, numpy_by_hand

SCALE = Scale(elements=200, batch_size=64, later_epochs=1)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)


def problem(batches):
    measurement = measured(lambda scale: lambda: batches, ())(SCALE)
    return WORKLOAD.check(SCALE, {"x": measurement}).get("x", "")


@pytest.mark.parametrize("prepare", [numpy_by_hand, drumline])
def test_contenders_do_the_work(prepare):
    assert problem(prepare(SCALE)()) == ""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda batches: batches[::-1], "in order"),
        (lambda batches: batches[:-1], "3 batches an epoch, not 4"),
        (lambda batches: [np.pad(batches[0], ((0, 0), (0, 1))), *batches[1:]], "in order"),
        (lambda batches: [batch.astype(np.int64) for batch in batches], "int64"),
    ],
)
def test_other_work_is_found(change, complaint):
    assert complaint in problem(change(expected(SCALE)))
