"""What two replicas' writes leave in a variable, as recorded with TensorFlow 2.21.

A variable of 10; in a step replica `i` writes 2 i + 1. Then: what each replica reads in the step,
the copies, and the value outside of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.config import devices as config_devices
from drumline.distribute import get_replica_context
from tests.distribute.step.loops import mirrored

TABLE = {
    ("ON_WRITE", "SUM", "assign"): ([4, 4], [4], 4),
    ("ON_WRITE", "SUM", "assign_add"): ([14, 14], [14], 14),
    ("ON_WRITE", "SUM", "assign_sub"): ([6, 6], [6], 6),
    ("ON_WRITE", "MEAN", "assign"): ([2, 2], [2], 2),
    ("ON_WRITE", "MEAN", "assign_add"): ([12, 12], [12], 12),
    ("ON_WRITE", "MEAN", "assign_sub"): ([8, 8], [8], 8),
    ("ON_WRITE", "ONLY_FIRST_REPLICA", "assign"): ([1, 1], [1], 1),
    ("ON_WRITE", "ONLY_FIRST_REPLICA", "assign_add"): ([11, 11], [11], 11),
    ("ON_WRITE", "ONLY_FIRST_REPLICA", "assign_sub"): ([9, 9], [9], 9),
    ("ON_READ", "NONE", "assign"): ([1, 3], [1, 3], ValueError),
    ("ON_READ", "NONE", "assign_add"): ([11, 13], [11, 13], ValueError),
    ("ON_READ", "NONE", "assign_sub"): ([9, 7], [9, 7], ValueError),
    ("ON_READ", "SUM", "assign"): ([1, 3], [1, 3], 4),
    ("ON_READ", "SUM", "assign_add"): ([11, 13], [11, 13], 24),
    ("ON_READ", "SUM", "assign_sub"): ([9, 7], [9, 7], 16),
    ("ON_READ", "MEAN", "assign"): ([1, 3], [1, 3], 2),
    ("ON_READ", "MEAN", "assign_add"): ([11, 13], [11, 13], 12),
    ("ON_READ", "MEAN", "assign_sub"): ([9, 7], [9, 7], 8),
    ("ON_READ", "ONLY_FIRST_REPLICA", "assign"): ([1, 3], [1, 3], 1),
    ("ON_READ", "ONLY_FIRST_REPLICA", "assign_add"): ([11, 13], [11, 13], 11),
    ("ON_READ", "ONLY_FIRST_REPLICA", "assign_sub"): ([9, 7], [9, 7], 9),
}


@pytest.mark.parametrize("eager", [False, True], ids=["compiled", "eager"])
@pytest.mark.parametrize(("synchronization", "aggregation", "method"), TABLE)
def test_writes_in_a_step(
    synchronization: str,
    aggregation: str,
    method: str,
    eager: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config_devices, "_eager", eager)
    seen, copies, outside = TABLE[synchronization, aggregation, method]
    strategy = mirrored(2)
    with strategy.scope():
        # 5 a replica, which SUM adds up to, is not what TensorFlow starts from: it copies 10.
        v = dl.Variable(0.0, False, synchronization=synchronization, aggregation=aggregation)
        v._direct_assign(np.full((2,) if v.has_copies else (), 10, np.float32))

    def step() -> Any:
        index = get_replica_context().replica_id_in_sync_group
        getattr(v, method)(np.float32(2) * index + 1)
        return v.read_value()

    found = strategy.experimental_local_results(strategy.run(step))
    assert [float(value) for value in found] == seen
    assert [float(value) for value in strategy.experimental_local_results(v)] == copies
    if outside is ValueError:
        with pytest.raises(ValueError, match="no single value outside"):
            v.read_value()
    else:
        assert float(v.read_value()) == outside


OUTSIDE = {
    ("ON_WRITE", "NONE"): (4, 14, 6),
    ("ON_WRITE", "SUM"): (4, 14, 6),
    ("ON_WRITE", "MEAN"): (4, 14, 6),
    ("ON_WRITE", "ONLY_FIRST_REPLICA"): (4, 14, 6),
    ("ON_READ", "MEAN"): (4, 14, 6),
    ("ON_READ", "ONLY_FIRST_REPLICA"): (4, 14, 6),
}


@pytest.mark.parametrize(("synchronization", "aggregation"), OUTSIDE)
def test_writes_outside_of_steps(synchronization: str, aggregation: str) -> None:
    expected = OUTSIDE[synchronization, aggregation]
    strategy = mirrored(2)
    for method, value in zip(("assign", "assign_add", "assign_sub"), expected, strict=True):
        with strategy.scope():
            v = dl.Variable(10.0, False, synchronization=synchronization, aggregation=aggregation)
        getattr(v, method)(4.0)
        copies = [float(copy) for copy in strategy.experimental_local_results(v)]
        assert copies == [value] * len(copies)


def test_assigning_to_a_sum_divides_it() -> None:
    with mirrored(2).scope():
        v = dl.Variable(10.0, False, synchronization="ON_READ", aggregation="SUM")
    v.assign(4.0)
    assert [float(copy) for copy in v.copies()] == [2, 2]
