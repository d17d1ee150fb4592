import pytest

from benchmarks.harness.floors import OURS
from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_floors_and_baselines_name_contenders(workload):
    names = [contender.name for contender in workload.contenders]
    assert len(set(names)) == len(names)
    assert OURS in names
    assert workload.baseline in names
    assert {floor.against for floor in workload.floors} <= {None, *names}
    assert workload.floors


def test_an_unknown_contender_is_explained():
    with pytest.raises(KeyError, match=r"has no contender 'nobody'; it has drumline, tf\.data"):
        WORKLOADS["range_filter"].contender("nobody")
