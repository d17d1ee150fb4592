import pytest

from benchmarks.harness import pipelines
from benchmarks.harness.workload import Scale
from benchmarks.workloads.record_files import record_file, records
from benchmarks.workloads.record_reading import (
    WORKLOADS,
    check,
    drumline,
    list_of_bytes,
    measured,
    python_by_hand,
)

SCALE = Scale(elements=300, batch_size=1, later_epochs=1)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)


def problem(prepare, compression=""):
    measurement = measured(prepare, (), compression)(SCALE)
    return check(SCALE, {"x": measurement}).get("x", "")


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("prepare", [drumline, python_by_hand, list_of_bytes])
def test_contenders_do_the_work(prepare, compression):
    """Drumline also checks the checksums that numpy made."""
    assert problem(prepare, compression) == ""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda found: found[::-1], "in order"),
        (lambda found: found[:-1], "299 records an epoch, not 300"),
        (lambda found: [found[0] + found[1], b"", *found[2:]], "in order"),
    ],
)
def test_other_work_is_found(change, complaint):
    ready = change([row.tobytes() for row in records(SCALE.elements)])
    assert complaint in problem(lambda scale, compression: lambda: ready)


def test_files_are_there_for_the_process_alone():
    assert record_file(3, "") == record_file(3, "")
    assert {workload.name for workload in WORKLOADS} == {"records", "records_gzip"}
