"""Several processes: what collectives take, and which process the others wait for."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline import _recorder
from drumline.profiler import EpochProfile, ProcessShare, communication
from tests.distribute.parameter_server.clusters import TOKEN, in_process
from tests.distribute.process_group.clusters import Cluster, running
from tests.profiler.trainings import SECONDS

MEMBER = "tests.profiler.trainings:member"
STEPS = 12


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What each process says, by the name of its cluster."""
    folder = tmp_path_factory.mktemp("clusters")
    wanted = [
        Cluster(
            name,
            MEMBER,
            {"delayed": 1, "implementation": implementation, "folder": str(folder / f"of {name}")},
        )
        for name, implementation in (("delayed", "AUTO"), ("ring", "RING"))
    ]
    with running(folder, wanted) as run:
        run.wait_for(*run.names)
        ends = {each.name: run.ended(each.name) for each in wanted}
    for name, members in ends.items():
        for end in members:
            assert end.status == 0, f"{name}: {end.log[-4000:]}"
    return {name: [end.facts for end in members] for name, members in ends.items()}


@pytest.mark.parametrize("training", ["fit", "loop"])
@pytest.mark.parametrize("cluster", ["delayed", "ring"])
def test_the_process_that_the_others_wait_for_is_named(
    found: dict[str, list[dict[str, Any]]], cluster: str, training: str
) -> None:
    first, second = (facts[training][2] for facts in found[cluster])
    for epoch in (first, second):  # all of them say the same
        assert epoch["slow"] == "worker:1"
        assert "worker:1 is slow" in epoch["line"]
        assert [share["name"] for share in epoch["processes"]] == ["worker:0", "worker:1"]
        assert sum(epoch["parts"].values()) == pytest.approx(epoch["seconds"])
        assert (epoch["steps"], epoch["rows"]) == (STEPS, 96)
    assert first["processes"] == second["processes"]


@pytest.mark.parametrize("training", ["fit", "loop"])
def test_the_wait_is_communication_of_the_one_and_python_of_the_other(
    found: dict[str, list[dict[str, Any]]], training: str
) -> None:
    first, second = (facts[training][2] for facts in found["delayed"])
    rested = STEPS * SECONDS
    assert second["parts"]["Python"] >= 0.95 * rested
    # The last rest is behind the last sum; the first process waits for it to exchange the numbers.
    assert first["details"]["communication"]["all-reduce"] >= 0.6 * rested
    assert second["parts"]["communication"] < first["parts"]["communication"]
    assert first["communicated"] > 0 and first["communication_known"]


def test_bytes_of_sums_are_those_of_the_gradients(found: dict[str, list[dict[str, Any]]]) -> None:
    weights = 32 * 64 + 64 + 64 + 1
    epoch = found["delayed"][0]["fit"][2]
    per_step = epoch["communicated"] / STEPS
    assert 4 * weights <= per_step < 4 * weights + 1024  # and a few losses and counts


def test_the_first_process_alone_prints_and_writes(found: dict[str, list[dict[str, Any]]]) -> None:
    first, second = found["delayed"]
    assert first["printed"] == [epoch["line"] for epoch in first["fit"]]
    assert "metrics.prom" in first["files"]
    assert any(name.startswith("events.out.tfevents") for name in first["files"])
    assert second["printed"] == second["files"] == []


def share(name: str, own: float, waits: float = 0.0, steps: int = 10) -> ProcessShare:
    return ProcessShare(name, own, own, 0.0, waits, steps)


def test_a_little_slower_is_not_slow() -> None:
    assert communication.slowest([share("a", 1.0), share("b", 1.2)]) == ""
    assert communication.slowest([share("a", 1.0), share("b", 1.5)]) == "b"
    assert communication.slowest([share("a", 1.0), share("b", 1.0), share("c", 9.0)]) == "c"
    # Much longer, but next to nothing of a step.
    assert communication.slowest([share("a", 1.0, 99), share("b", 2.0, 98)]) == ""
    assert communication.slowest([share("a", 1.0), share("b", 9.0, steps=0)]) == ""
    assert communication.slowest([share("a", 1.0)]) == ""


def test_an_epoch_of_compiling_names_no_process() -> None:
    shares = (share("a", 1.0), share("b", 2.0))
    parts = dict.fromkeys(_recorder.PARTS, 0.0) | {"computing": 5.0}
    epoch = EpochProfile(0, 5.0, 10, 0, parts, {})
    assert communication.named(epoch, shares).slow == "b"
    compiled = dataclasses.replace(epoch, seconds=8.0, parts=parts | {"compiling": 3.0})
    assert communication.named(compiled, shares).slow == ""


def test_workers_of_parameter_servers() -> None:
    """The chief's wait is split as the workers spent it, and the slow one is named."""
    slept: dict[int, list[float]] = {0: [], 1: []}

    def batches(context: Any) -> dl.data.Dataset:
        number = context.input_pipeline_id

        def draw(i: Any) -> Any:
            began = time.perf_counter()
            time.sleep(0.02 if number else 0.001)
            slept[number].append(time.perf_counter() - began)
            return np.float32(i) * np.ones((4, 8), np.float32)

        return dl.data.Dataset.range(10_000).map(draw)

    with in_process(workers=2) as strategy:
        coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            weights = keras.Variable(np.ones((8, 8), np.float32))

        def step(iterator: Any) -> Any:
            batch = next(iterator)
            weights.assign_add(1e-3 * batch.T @ batch)
            return batch.sum()

        iterator = iter(coordinator.create_per_worker_dataset(batches))
        coordinator.schedule(step, args=(iterator,))
        coordinator.join()  # what is done before the profile is none of it
        with dl.profile_steps() as profile:
            for _ in range(2):
                for _ in range(30):
                    coordinator.schedule(step, args=(iterator,))
                coordinator.join()
                profile.end_epoch()
    first, second = profile.epochs
    for epoch in (first, second):
        assert sum(epoch.parts.values()) == pytest.approx(epoch.seconds)
        assert sum(each.steps for each in epoch.processes) == epoch.steps == 30
    assert second.slow == "worker:1"
    assert second.details["input"]["on workers"] > 0.3 * second.seconds
    assert {"pull", "push"} <= set(second.details["communication"])
    assert second.processes[1].input > 5 * second.processes[0].input


def test_fit_on_parameter_servers() -> None:
    with in_process(workers=2) as strategy:
        with strategy.scope():
            model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        profiler = dl.keras.callbacks.StepProfiler(verbose=0)
        ones = np.ones((48, 8), np.float32), np.ones((48, 1), np.float32)
        model.fit(
            *ones, batch_size=4, epochs=2, verbose=0, callbacks=[profiler], validation_data=ones
        )
    epoch = profiler.profile.epochs[1]
    assert (epoch.steps, epoch.rows) == (12, 48)
    assert sum(epoch.parts.values()) == pytest.approx(epoch.seconds)
    assert epoch.parts["validation"] > 0 and epoch.parts["computing"] > 0
    assert [each.name for each in epoch.processes] == ["worker:0", "worker:1"]


def test_a_worker_that_is_away_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
    with in_process(workers=2, absent=(1,)) as strategy:
        coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
        with dl.profile_steps() as profile:
            coordinator.schedule(lambda: np.float32(1))
            coordinator.join()
            profile.end_epoch()
    assert [each.name for each in profile.epochs[0].processes] == ["worker:0"]
