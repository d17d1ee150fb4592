import pytest

from benchmarks.harness.training import check_training
from benchmarks.harness.workload import Scale

SCALE = Scale(elements=100, batch_size=32, later_epochs=2)
CHECK = check_training(tolerance=0.01, falls_to=0.9)
GOOD = {"steps": 12, "losses": [2.0, 1.5, 1.0], "initial_weights": "w"}


def problems(make, **changes):
    measurements = {name: make(evidence=GOOD) for name in ("a", "b")}
    measurements["c"] = make(evidence=GOOD | changes)
    found = CHECK(SCALE, measurements)
    assert set(found) <= {"c"}
    return found.get("c", "")


def test_the_same_training_passes(make):
    assert problems(make) == ""
    assert problems(make, losses=[2.0, 1.5, 1.009]) == ""
    assert CHECK(SCALE, {}) == {}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"steps": 9}, "9 steps, not 12"),
        ({"losses": [2.0, 1.5, 1.015]}, "1.50% from the others'"),
        ({"losses": [2.0, 1.5, float("nan")]}, "nan"),
        ({"losses": [2.0, 1.5]}, "2 losses"),
        ({"initial_weights": "other"}, "other weights"),
    ],
)
def test_another_training_is_found(make, changes, complaint):
    assert complaint in problems(make, **changes)


def test_a_loss_must_fall(make):
    flat = make(evidence=GOOD | {"losses": [2.0, 2.0, 1.9]})
    assert "from 2.0000 to 1.9000" in CHECK(SCALE, {"a": flat})["a"]
