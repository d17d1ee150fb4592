"""`MultiWorkerMirroredStrategy(shard=...)`: the numbers of copies, in parts over the processes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distribute.process_group.clusters import Cluster, running

MEMBER = "tests.distribute.multi_worker.sharded:member"
ADAM = [("adam", "optimizer"), ("adam", "parameters")]
TRAININGS = {"2x1": [*ADAM, ("clipped", "parameters")], "2x2": ADAM}
WIDTHS = [600, 600, 600, 600, 5]
MORE = {
    "not_compiled": {},
    "traffic": {"shards": ["optimizer", "parameters"], "widths": WIDTHS},
    "refused": {},
    "alone": {"shard": "parameters"},
}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What each process says: 2 of a device each, and 2 of two."""
    folder = tmp_path_factory.mktemp("clusters")
    wanted = {
        name: Cluster(
            name,
            MEMBER,
            {"trainings": trainings, **(MORE if name == "2x1" else {})},
            env={"DRUMLINE_CPU_DEVICES": name[-1]},
        )
        for name, trainings in TRAININGS.items()
    }
    with running(folder, list(wanted.values())) as run:
        run.wait_for(*run.names, seconds=1200)
        ends = {name: run.ended(name) for name in wanted}
    for name, members in ends.items():
        for end in members:
            assert end.status == 0, f"{name}: {end.log[-4000:]}"
    return {name: [end.facts for end in members] for name, members in ends.items()}


Clusters = dict[str, list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("cluster", "training"),
    [(name, f"{a} {b}") for name, each in TRAININGS.items() for a, b in each],
)
def test_training_equals_that_of_copies(clusters: Clusters, cluster: str, training: str) -> None:
    shard = training.split()[1]
    replicas = 2 * int(cluster[-1])
    for facts in clusters[cluster]:
        found = facts[training]
        assert found["apart"] <= 1e-6
        cut = found["cut"]
        assert cut["variables"] == (12 if shard == "optimizer" else 18)
        assert cut["shares"] == [cut["share"]] * (replicas // 2)
        assert f"each has 1/{replicas} over 2 processes, cut by shard=" in found["describes"]


def test_steps_that_are_not_compiled_train_like_those_of_copies(clusters: Clusters) -> None:
    for facts in clusters["2x1"]:
        found = facts["not_compiled"]
        assert found.keys() == {"None", "optimizer", "parameters"}
        assert max(found.values()) <= 1e-6


@pytest.mark.parametrize("shard", ["optimizer", "parameters"])
def test_a_step_sends_each_row_to_all_others(clusters: Clusters, shard: str) -> None:
    for facts in clusters["2x1"]:
        found = facts["traffic"][shard]
        # Summed, and gathered: the new weights; or for the loss, and for the gradient, which the
        # first layer needs not.
        expected = 2 * sum(found["rows"])
        if shard == "parameters":
            expected += sum(found["rows"][1:])
        assert all(0 <= sent - expected <= 64 for sent in found["sent"]), found


def test_a_step_holds_few_of_the_weights(clusters: Clusters) -> None:
    for facts in clusters["2x1"]:
        found = facts["traffic"]["parameters"]
        whole = 2 * sum(found["rows"])
        assert found["temporary"] < 3.5 * found["largest"] < whole


def test_what_cannot_be_is_refused_by_name(clusters: Clusters) -> None:
    for facts in clusters["2x1"]:
        found = facts["refused"]
        assert "shard='rows'" in found["rows"]
        assert "RingAllReduce" in found["ring"] and "communication_options" in found["ring"]
        assert "check_agreement" in found["agreement"]


def test_processes_that_read_different_variables_are_notified(clusters: Clusters) -> None:
    for rank, facts in enumerate(clusters["2x1"]):
        error = facts["alone"]["error"]
        assert f"worker:{rank} is to read the variable" in error
        assert f"worker:{1 - rank} is to read the variable" in error
        assert "model.save" in error
