"""Processes that train together give what one process gives."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline.keras
from drumline.distribute import MirroredStrategy
from tests.distribute.multi_worker import trainings
from tests.distribute.process_group.clusters import Cluster, running

drumline.keras.install()

MEMBER = "tests.distribute.multi_worker.trainings:member"
ALL = [
    "fit",
    "distilled",
    "synchronized",
    "fit_drawn",
    "loop",
    "run_alone",
    "policies",
    "own_datasets",
    "evaluate_own",
    "values",
    "callbacks",
    "checkpoints",
    "different_models",
    "orders",
    "uneven",
    "absent",
    "carried",
    "other_widths",
    "in_the_middle",
    "chief_looks",
]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What each process says: 2 of 2 devices each, and 4 of one."""
    folder = tmp_path_factory.mktemp("clusters")
    four = ("127.0.0.1",) * 4
    written = str(folder / "written")
    quickly = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    two_each = {"DRUMLINE_CPU_DEVICES": "2", **quickly}
    few = {"trainings": ["fit", "loop"], "folder": written}
    wanted = {
        "2x2": Cluster("2x2", MEMBER, {"trainings": ALL, "folder": written}, env=two_each),
        "4x1": Cluster("4x1", MEMBER, few, four, (0,) * 4, quickly),
    }
    with running(folder, list(wanted.values())) as run:
        run.wait_for(*run.names)
        ends = {name: run.ended(name) for name in wanted}
    for name, members in ends.items():
        for end in members:
            assert end.status == 0, f"{name}: {end.log[-4000:]}"
    return {name: [end.facts for end in members] for name, members in ends.items()}


def assert_close(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_close(found[name], expected[name])
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize("training", ["fit", "loop"])
def test_same_numbers_as_one_process(
    clusters: dict[str, list[dict[str, Any]]], training: str, devices: int
) -> None:
    strategy = MirroredStrategy([f"cpu:{index}" for index in range(devices)])
    expected = json.loads(json.dumps(getattr(trainings, training)(strategy)))
    for members in clusters.values():
        for facts in members:
            assert_close(facts[training], expected)


@pytest.mark.parametrize("training", ["distilled", "synchronized"])
def test_same_numbers_as_one_device(
    clusters: dict[str, list[dict[str, Any]]], training: str
) -> None:
    """Batches that lie on devices, and statistics over the global batch."""
    strategy = MirroredStrategy(["cpu:0"])
    expected = json.loads(json.dumps(getattr(trainings, training)(strategy)))
    for facts in clusters["2x2"]:
        assert_close(facts[training], expected)


def test_run_without_function(clusters: dict[str, list[dict[str, Any]]]) -> None:
    expected = json.loads(json.dumps(trainings.run_alone(MirroredStrategy(["cpu:0", "cpu:1"]))))
    for facts in clusters["2x2"]:
        assert_close(facts["run_alone"], expected)


def test_each_element_is_used_once(clusters: dict[str, list[dict[str, Any]]]) -> None:
    for facts in clusters["2x2"]:
        steps = facts["policies"]["DATA"]
        batch, rows = trainings.BATCH, trainings.ROWS
        assert steps == [list(range(at, min(at + batch, rows))) for at in range(0, rows, batch)]
        hinted = facts["policies"]["HINT"]
        assert sorted(itertools.chain(*hinted)) == list(range(rows))
        assert {number % 2 for number in hinted[0]} == {0, 1}


def test_each_process_reads_its_own_files(clusters: dict[str, list[dict[str, Any]]]) -> None:
    for facts in clusters["2x2"]:
        for case in ("FILE 3 files", "AUTO 2 files"):
            steps = facts["policies"][case]
            assert sorted(itertools.chain(*steps)) == list(range(trainings.ROWS))
            # In a step each process brings elements of files of its own, which lie apart.
            first = sorted(steps[0])
            assert max(b - a for a, b in itertools.pairwise(first)) > trainings.BATCH
        one = facts["policies"]["AUTO 1 files"]
        assert one[0] == list(range(trainings.BATCH))


def test_without_sharding_each_process_uses_all(
    clusters: dict[str, list[dict[str, Any]]],
) -> None:
    for facts in clusters["2x2"]:
        steps = facts["policies"]["OFF"]
        assert sorted(itertools.chain(*steps)) == sorted([*range(trainings.ROWS)] * 2)
        assert steps[0] == sorted([*range(trainings.BATCH // 2)] * 2)


def test_unsuitable_policies_are_refused(clusters: dict[str, list[dict[str, Any]]]) -> None:
    for facts in clusters["2x2"]:
        assert "reads none" in facts["policies"]["FILE refused"]
        assert "SHARD_HINT" in facts["policies"]["HINT refused"]


def test_a_process_whose_input_ends_early_goes_along(
    clusters: dict[str, list[dict[str, Any]]],
) -> None:
    for rank, facts in enumerate(clusters["2x2"]):
        found = facts["own_datasets"]
        assert found["said"] == [[2, rank]]
        assert found["ids"] == [[*range(8)], [*range(8, 16)], [*range(16, 24)], [*range(24, 27)]]
        assert found["following"] == found["ids"][1:]
        assert found["restored"] == found["following"]


def test_keras_sees_every_element_whoever_reads_it(
    clusters: dict[str, list[dict[str, Any]]],
) -> None:
    one = json.loads(json.dumps(trainings.evaluate_own(MirroredStrategy(["cpu:0", "cpu:1"]))))
    scores = {name: found["score"] for name, found in one.items()}
    for facts in clusters["2x2"]:
        found = facts["evaluate_own"]
        assert_close({name: each["score"] for name, each in found.items()}, scores)
        assert {name: each["steps"] for name, each in found.items()} == {
            "DATA": 5,
            "OFF": 10,
            "HINT": 6,  # 35 elements each: 16, 16 and 3, of which a step takes half
            "function": 5,
        }


def test_values_of_all_replicas_meet(clusters: dict[str, list[dict[str, Any]]]) -> None:
    for rank, facts in enumerate(clusters["2x2"]):
        found = facts["values"]
        own = [10 + 2 * rank, 11 + 2 * rank]
        assert found["local"] == own
        assert found["own copies"] == own
        assert found["ids"] == [2 * rank, 2 * rank + 1]
        assert found["gathered"] == [10, 11, 12, 13]
        assert (found["sum"], found["mean"], found["copies"]) == (46, 11.5, 11.5)
        assert (found["summed"], found["replicas"]) == (47, 4)
        assert "(AUTO): SharedMemoryAllReduce" in found["described"]


def test_what_processes_draw_is_the_first_ones(
    clusters: dict[str, list[dict[str, Any]]],
) -> None:
    first, second = (facts["fit_drawn"] for facts in clusters["2x2"])
    assert first == second


def test_the_first_process_writes_and_all_go_on(
    clusters: dict[str, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second = (facts["callbacks"] for facts in clusters["2x2"])
    assert first["epochs"] == second["epochs"] == [0, 1, 2, 3]
    assert first["weights"] == second["weights"]
    assert len(first["logs"]) == 5
    written = next(Path(tmp_path_factory.getbasetemp()).glob("clusters*/written"))
    names = {path.name for path in written.iterdir()}
    assert names == {"backup", "board", "log.csv", *(f"epoch{n}.keras" for n in (1, 2, 3, 4))}
    events = list((written / "board" / "train").iterdir())
    assert len(events) == 2, "one file of each of the two trainings"


def test_one_process_writes_the_checkpoints_that_all_save(
    clusters: dict[str, list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second = (facts["checkpoints"] for facts in clusters["2x2"])
    shared = [f"shared/ckpt-{number}" for number in (1, 2, 3, 4)]
    ahead = [f"ahead/ckpt-{number}" for number in (5, 6, 7)]
    assert first["written"] == [*shared, *ahead, "own-0/ckpt-1", "over", "over"]
    assert second["written"] == ["own-1/ckpt-1"]
    for facts in (first, second):
        assert facts["there"] == [1, 2, 3, 4], "all see a checkpoint when save has returned"
        assert facts["kept"] == ["ckpt-3", "ckpt-4"]
        assert facts["ahead"] == ["ckpt-7"], "one that is behind leaves the others as they are"
        assert (facts["own"], facts["over"], facts["late"]) == (4, 8, 8)
    assert "No space" in first["fails"]
    assert "worker:0 could not save" in second["fails"] and "No space" in second["fails"]
    written = next(Path(tmp_path_factory.getbasetemp()).glob("clusters*/checkpoints"))
    assert not list(written.rglob("*.unfinished"))


def test_different_models_are_refused(clusters: dict[str, list[dict[str, Any]]]) -> None:
    for facts in clusters["2x2"]:
        assert "use different variables" in facts["different_models"]["refused"]


@pytest.mark.parametrize("policy", ["DATA", "HINT"])
def test_one_order_for_all_though_one_process_has_looked(
    clusters: dict[str, list[dict[str, Any]]], policy: str
) -> None:
    first, second = (facts["orders"][policy] for facts in clusters["2x2"])
    assert first == second
    epochs = [list(itertools.chain(*steps)) for steps in first]
    assert [sorted(epoch) for epoch in epochs] == [list(range(trainings.ROWS))] * 2
    assert first[0] != first[1], "each epoch has an order of its own"


def test_uneven_steps_start_alike_and_use_each_replicas_rows(
    clusters: dict[str, list[dict[str, Any]]],
) -> None:
    first, second = clusters["2x2"]
    assert first["uneven"] == second["uneven"]
    assert first["absent"]["local"] == [[0, 1, 2, 3]]
    assert second["absent"]["local"] == [[100, 101, 102, 103], [104, 105, 106, 107]]


def test_what_steps_return_goes_on_whatever_the_batch(
    clusters: dict[str, list[dict[str, Any]]],
) -> None:
    for facts in clusters["2x2"]:
        assert facts["carried"] == {"totals": [4, 4, 1] * 2, "own": [18, 18]}


def test_batches_of_other_widths_are_refused(clusters: dict[str, list[dict[str, Any]]]) -> None:
    for facts in clusters["2x2"]:
        assert "differ in more than their rows" in facts["other_widths"]["refused"]


def test_going_on_in_the_middle_of_a_batch(clusters: dict[str, list[dict[str, Any]]]) -> None:
    for facts in clusters["2x2"]:
        found = facts["in_the_middle"]
        assert found["restored"] == found["following"]
        assert len(found["following"]) == 9


def test_the_first_process_may_look_alone(clusters: dict[str, list[dict[str, Any]]]) -> None:
    for facts in clusters["2x2"]:
        assert_close(facts["chief_looks"]["losses"], facts["fit"]["history"]["loss"][:2])
