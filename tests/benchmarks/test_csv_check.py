import numpy as np
import pytest

from benchmarks.harness import pipelines
from benchmarks.harness.workload import Scale
from benchmarks.workloads.csv_batches import WORKLOAD, drumline, measured, pyarrow_by_hand
from benchmarks.workloads.csv_files import NAMES, columns

SCALE = Scale(elements=200, batch_size=64, later_epochs=1)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)


def problem(batches):
    measurement = measured(lambda scale: lambda: batches, ())(SCALE)
    return WORKLOAD.check(SCALE, {"x": measurement}).get("x", "")


@pytest.mark.parametrize("prepare", [drumline, pyarrow_by_hand])
def test_contenders_do_the_work(prepare):
    assert problem(prepare(SCALE)()) == ""


def rows(change=lambda table: None, strings=np.array, floats=np.float32):
    """The file's rows turned round, in two batches."""
    table = {name: column[::-1].copy() for name, column in columns(SCALE.elements).items()}
    change(table)
    types = {"x": floats, "n": np.int32}
    return [
        {
            name: strings([f"w{n}" for n in column[part]])
            if name[0] == "s"
            else column[part].astype(types[name[0]])
            for name, column in table.items()
        }
        for part in (slice(0, 64), slice(64, None))
    ]


@pytest.mark.parametrize("strings", [list, np.array, lambda texts: np.array(texts, object)])
def test_strings_may_be_a_list_an_array_or_objects(strings):
    assert problem(rows(strings=strings)) == ""


def swap_one(table):
    table["s1"][[0, 1]] = table["s1"][[1, 0]]


def turn_back(table):
    for name in NAMES:
        table[name] = table[name][::-1]


@pytest.mark.parametrize(
    ("batches", "complaint"),
    [
        (rows(swap_one), "file's rows"),
        (rows()[:1], "file's rows"),
        (rows(turn_back), "did not shuffle"),
        (rows(floats=np.float64), "float64"),
    ],
)
def test_other_work_is_found(batches, complaint):
    assert complaint in problem(batches)
