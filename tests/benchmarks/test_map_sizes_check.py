"""The check of maps over elements of many sizes finds other work."""

import numpy as np
import pytest

from benchmarks.harness import pipelines
from benchmarks.harness.pipelines import measured_by
from benchmarks.harness.workload import Scale
from benchmarks.workloads import map_sizes

SCALE = Scale(elements=23, batch_size=5, later_epochs=1)
SIDES = [18, 37, None]


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)


def problem(side, batches):
    measurement = measured_by(map_sizes.evidence)(lambda scale: lambda: batches, ())(SCALE)
    return map_sizes.check(side)(SCALE, {"x": measurement}).get("x", "")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    "prepare", [map_sizes.numpy_by_hand, map_sizes.drumline, map_sizes.jit_by_hand]
)
def test_contenders_do_the_work(prepare, side):
    assert problem(side, prepare(SCALE, side)()) == ""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda batches: [batches[1], batches[0], *batches[2:]], "in order"),
        (lambda batches: batches[:-1], "number of elements"),
        (lambda batches: [batches[0][::-1], *batches[1:]], "in order"),
        (lambda batches: [batches[0][:, ::-1], *batches[1:]], "in order"),
        (lambda batches: [batch * np.float32(1.001) for batch in batches], "in order"),
        (lambda batches: [batch.astype(np.float64) for batch in batches], "float64"),
    ],
)
def test_other_work_is_found(change, complaint):
    batches = list(map_sizes.numpy_by_hand(SCALE, 18)())
    assert complaint in problem(18, change(batches))
