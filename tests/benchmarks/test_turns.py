import pytest

from benchmarks.harness.schedule import by_turns
from benchmarks.harness.workload import Contender, Scale

SCALE = Scale(elements=4, batch_size=2, later_epochs=1)


@pytest.fixture
def turns(make):
    """Two contenders, and the order in which they were run."""
    order = []

    def contender(name):
        def run(scale):
            assert scale is SCALE
            order.append(name)
            number = len(order)
            return make(
                first_epoch_s=10.0 * number, later_epochs_s=(number,), evidence={"number": number}
            )

        return Contender(name, "", (), run)

    return (contender("a"), contender("b")), order


def test_each_turn_goes_in_the_reverse_order(turns):
    contenders, order = turns
    by_turns(contenders, SCALE, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_all_turns_are_measured(turns):
    contenders, _ = turns
    a, b = by_turns(contenders, SCALE, 3)
    assert (a.first_epoch_s, a.later_epochs_s, a.evidence) == (10.0, (1, 4, 5), {"number": 5})
    assert (b.first_epoch_s, b.later_epochs_s, b.evidence) == (20.0, (2, 3, 6), {"number": 6})


def test_no_turns_are_refused(turns):
    with pytest.raises(ValueError, match="at least one turn"):
        by_turns(turns[0], SCALE, 0)
