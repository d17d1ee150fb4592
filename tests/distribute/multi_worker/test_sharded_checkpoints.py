"""Checkpoints of `MultiWorkerMirroredStrategy(shard=...)`: each process writes its own part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline.keras
from drumline.distribute import MirroredStrategy
from tests.distribute.multi_worker import sharded
from tests.distribute.process_group.clusters import Cluster, running

drumline.keras.install()

MEMBER = "tests.distribute.multi_worker.sharded:member"
DEVICES = ["cpu:0", "cpu:1", "cpu:2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


def _run(folder: Path, cluster: Cluster) -> list[dict[str, Any]]:
    with running(folder / cluster.name, [cluster]) as run:
        run.wait_for(*run.names, seconds=1200)
        ends = run.ended(cluster.name)
    for end in ends:
        assert end.status == 0, end.log[-4000:]
    return [end.facts for end in ends]


@pytest.fixture(scope="module")
def members(folder: Path) -> list[dict[str, Any]]:
    """What two processes say."""
    one = sharded.model_of(
        MirroredStrategy(["cpu:0", "cpu:1", "cpu:2"], shard="optimizer"), "adam", 3
    )
    one.fit(*sharded.rows(24), batch_size=12, verbose=0)
    saved = sharded.checkpoint_of(one).save(str(folder / "one"))
    np.savez(folder / "one.npz", *sharded.values(one))
    arguments = {
        "trainings": [],
        "checkpoints": {
            "folder": str(folder),
            "saved": saved,
            "expected": str(folder / "one.npz"),
        },
        "resumed": {"folder": str(folder)},
        "saved_one_by_one": {"folder": str(folder)},
    }
    return _run(folder, Cluster("2x1", MEMBER, arguments, env={"DRUMLINE_CPU_DEVICES": "1"}))


@pytest.mark.parametrize("kind", ["one", "two"])
@pytest.mark.parametrize("name", ["copies", "optimizer", "parameters"])
def test_checkpoints_go_from_each_to_each(
    members: list[dict[str, Any]], kind: str, name: str
) -> None:
    for facts in members:
        assert facts["checkpoints"][f"{kind} {name}"] == 0


def test_each_process_writes_its_own_part(members: list[dict[str, Any]]) -> None:
    for facts in members:
        found = facts["checkpoints"]
        names = ["process-0.safetensors", "process-1.safetensors"]
        assert found["parts"] == dict.fromkeys(names, found["share"])
        padding = 2 * found["share"] + found["others"] - found["whole"]
        assert 0 <= padding < 18 * 2 * 8 * 4  # of 18 variables, to vectors in each process


@pytest.mark.parametrize("shard", [None, "optimizer", "parameters"])
def test_one_process_restores_what_two_saved(
    members: list[dict[str, Any]], folder: Path, shard: str | None
) -> None:
    model = sharded.model_of(MirroredStrategy(DEVICES, shard=shard), "adam", 5)
    model.optimizer.build(model.trainable_variables)
    path = members[0]["checkpoints"]["path"]
    sharded.checkpoint_of(model).restore(path).assert_consumed()
    with np.load(folder / "cut.npz") as expected:
        for name, value in zip(expected.files, sharded.values(model), strict=True):
            np.testing.assert_array_equal(value, expected[name])


@pytest.mark.thorough
def test_three_processes_restore_what_two_saved(
    members: list[dict[str, Any]], folder: Path
) -> None:
    path = members[0]["checkpoints"]["path"]
    arguments = {
        "trainings": [],
        "restored": {"path": path, "expected": str(folder / "cut.npz")},
    }
    hosts, zygotes = ("127.0.0.1",) * 3, (0,) * 3
    cluster = Cluster("3x1", MEMBER, arguments, hosts, zygotes, {"DRUMLINE_CPU_DEVICES": "1"})
    for facts in _run(folder, cluster):
        assert facts["restored"] == {"optimizer": 0, "parameters": 0}


def test_a_part_that_is_damaged_is_refused(
    members: list[dict[str, Any]], folder: Path, tmp_path: Path
) -> None:
    path = Path(members[0]["checkpoints"]["path"])
    part = next(folder.glob(f"{path.name}.servers/*/process-1.safetensors"))
    content = part.read_bytes()
    model = sharded.model_of(MirroredStrategy(["cpu:0"]), "adam", 5)
    model.optimizer.build(model.trainable_variables)
    before = sharded.values(model)
    try:
        part.write_bytes(content[:-4] + bytes(byte ^ 1 for byte in content[-4:]))
        with pytest.raises(ValueError, match="process-1.safetensors', is damaged.*checksum"):
            sharded.checkpoint_of(model).restore(path)
    finally:
        part.write_bytes(content)
    for value, old in zip(sharded.values(model), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_an_interrupted_fit_goes_on_with_other_shards(members: list[dict[str, Any]]) -> None:
    for facts in members:
        found = facts["resumed"]
        assert found["apart"] <= 1e-6
        assert found["kept"] == 0
        assert found["parts"] >= 2


def test_saving_brings_one_variable_together_at_a_time(members: list[dict[str, Any]]) -> None:
    for facts in members:
        found = facts["saved_one_by_one"]
        assert found["most"] <= 2  # the one before is let go of when the next takes its place
        assert found["joined"] >= 18
