"""How many processors are taken for available."""

import os

import pytest

from drumline.data import AUTOTUNE, Dataset
from drumline.data.runtime.threads import available_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a choice of processors")
def test_a_confined_process_has_only_the_cores_it_may_use():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(before)])
    try:
        assert available_cores() == 1
        dataset = Dataset.range(9).map(lambda v: int(v), num_parallel_calls=AUTOTUNE)
        assert dataset._ready().runtime.cores == 1
    finally:
        os.sched_setaffinity(0, before)


def test_without_a_choice_of_processors_all_of_the_machine_count(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 12)
    assert available_cores() == 12
