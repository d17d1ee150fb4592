import pytest

from benchmarks.harness import pipelines
from benchmarks.harness.pipelines import Epochs, measure_pipeline


class Counted:
    """A pipeline of three batches that counts its epochs and the batches still alive."""

    def __init__(self):
        self.started = 0

    def __iter__(self):
        self.started += 1
        return iter(["a", "b", "c"])


def measure(pipeline, later_epochs=2):
    return measure_pipeline(
        prepare=lambda: lambda: pipeline,
        observe=lambda batches: {"seen": "".join(batches)},
        elements=3,
        later_epochs=later_epochs,
        libraries=("numpy", "no-such-distribution"),
    )


def test_evidence_comes_from_epochs_of_its_own(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)
    pipeline = Counted()
    measurement = measure(pipeline)
    assert len(measurement.later_epochs_s) == 2
    assert pipeline.started == 1 + 2 + 2
    assert measurement.evidence == {"batches": [3], "epochs": [{"seen": "abc"}, {"seen": "abc"}]}
    assert set(measurement.versions) == {"python", "numpy"}


def test_short_epochs_are_repeated_up_to_a_limit():
    assert len(measure(Counted()).later_epochs_s) == pipelines.AT_MOST_EPOCHS


def test_a_slow_pipeline_is_observed_in_its_one_later_epoch(monkeypatch):
    monkeypatch.setattr(pipelines, "AT_MOST_S", -1.0)
    pipeline = Counted()
    measurement = measure(pipeline, later_epochs=3)
    assert pipeline.started == 2
    assert len(measurement.later_epochs_s) == 1
    assert measurement.evidence == {"batches": [3], "epochs": [{"seen": "abc"}]}


def test_differing_batch_counts_show(monkeypatch):
    monkeypatch.setattr(pipelines, "ENOUGH_S", 0.0)
    lengths = iter([3, 3, 2, 3, 3])
    pipeline = Epochs(lambda: iter("abc"[: next(lengths)]))
    assert measure(pipeline).evidence["batches"] == [2, 3]


def test_time_is_taken_apart(monkeypatch):
    clock = iter(range(100))
    tick = clock.__next__
    monkeypatch.setattr(pipelines, "AT_MOST_S", 100.0)
    monkeypatch.setattr(pipelines.time, "perf_counter", lambda: float(tick()))

    def prepare():
        for _ in range(10):
            tick()
        return build

    def build():
        for _ in range(5):
            tick()
        return Counted()

    measurement = measure_pipeline(prepare, lambda batches: {"seen": list(batches)}, 3, 2, ())
    assert measurement.import_s == 11.0
    assert measurement.first_batch_s == 6.0
    assert measurement.first_epoch_s == 7.0
    assert measurement.later_epochs_s == (2.0, 2.0)


def test_an_empty_pipeline_is_an_error():
    with pytest.raises(StopIteration):
        measure([])
