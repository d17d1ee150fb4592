"""Custom loops of `MultiWorkerMirroredStrategy(shard=...)`: the numbers of loops of copies."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

import drumline as dl
import drumline.keras
from drumline.distribute import MirroredStrategy, MultiWorkerMirroredStrategy
from drumline.distribute import get_replica_context as context
from drumline.distribute.step.arguments import flatten_arguments
from drumline.distribute.step.replica_programs import ReplicaProgram
from drumline.training.cut_values import is_cut
from tests.distribute.collectives.traffic import bytes_between
from tests.distribute.multi_worker.sharded import apart, cut_of, rank
from tests.distribute.process_group.clusters import Cluster, Ended, Run, running
from tests.keras.test_sharded_loops import ACROSS, BATCH, Loop, losses_of

drumline.keras.install()

MEMBER = f"{__name__}:member"
ROWS = 25  # two batches of 12, and one row: a replica has it, and the others nothing
EPOCHS = 8  # 24 steps
SHARDS = ["optimizer", "parameters"]
ADAM: Callable[[], keras.optimizers.Optimizer] = lambda: keras.optimizers.Adam(0.01)  # noqa: E731


def _gradients(loop: Loop, x: Any, y: Any) -> tuple[Any, list[Any]]:
    with dl.GradientTape() as tape:
        losses = losses_of(y, loop.model(x, training=True))
        loss = dl.nn.compute_average_loss(losses, global_batch_size=BATCH)
    return loss, tape.gradient(loss, loop.model.trainable_variables)


def _clipped(loop: Loop) -> Callable[..., Any]:
    """A step whose gradients the user sums, and clips by their norm."""

    def step(x: Any, y: Any) -> Any:
        loss, gradients = _gradients(loop, x, y)
        replica = context()
        assert replica is not None
        gradients = replica.all_reduce("SUM", gradients)
        norm = keras.ops.sqrt(sum(keras.ops.sum(gradient**2) for gradient in gradients))
        scale = keras.ops.minimum(1.0, 0.5 / norm)
        pairs = [
            (gradient * scale, variable)
            for gradient, variable in zip(gradients, loop.model.trainable_variables, strict=True)
        ]
        loop.optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
        return loss

    return step


def _plain(loop: Loop) -> list[Any]:
    return loop.train(ROWS, epochs=EPOCHS)


def _by_the_user(loop: Loop) -> list[Any]:
    return loop.train(ROWS, _clipped(loop), epochs=EPOCHS)


def _in_a_function(loop: Loop) -> list[Any]:
    """Steps in functions: one at a time, and a loop over the dataset, whose steps are one call."""

    @dl.function
    def train_step(batch: Any) -> Any:
        losses = loop.strategy.run(loop.step, batch)
        return loop.strategy.reduce("SUM", losses, axis=None)

    @dl.function
    def epoch(batches: Any) -> Any:
        total = 0.0
        for batch in batches:
            total = total + train_step(batch)
        return total

    @dl.function
    def halved() -> Any:
        weight = loop.model.trainable_variables[0]
        weight.assign(weight.value * 0.5)
        return keras.ops.sum(weight.value)

    one_by_one = [float(train_step(batch)) for batch in loop.batches(ROWS)]
    at_once = [float(epoch(loop.batches(rows))) for rows in (ROWS, 24)]
    return [*one_by_one, *at_once, float(halved()), *loop.train(BATCH, epochs=2)]


def _read_between(loop: Loop) -> list[Any]:
    """Weights are read and written between steps."""
    found: list[Any] = []
    kernel = loop.model.trainable_variables[0]
    for _ in range(3):
        found += loop.train(ROWS, epochs=1)
        found += [kernel.numpy(), *loop.values()]
        kernel.assign(kernel.numpy() * 0.5)
        found += loop.train(BATCH, epochs=1)
    return found


def _evaluated(loop: Loop) -> list[Any]:
    """Steps that read weights alone, of batches that split and of others."""

    def step(x: Any, y: Any) -> Any:
        return keras.ops.sum(losses_of(y, loop.model(x, training=False)))

    return [*loop.train(BATCH, epochs=1), *loop.train(ROWS, step, epochs=2)]


def _not_compiled(loop: Loop) -> list[Any]:
    dl.config.run_functions_eagerly(True)
    try:
        return loop.train(ROWS, epochs=1)
    finally:
        dl.config.run_functions_eagerly(False)


WAYS = {
    "plain": _plain,
    "by the user": _by_the_user,
    "in a function": _in_a_function,
    "read between": _read_between,
    "evaluated": _evaluated,
    "not compiled": _not_compiled,
}
TRAININGS = {
    "2x1": [
        *(("plain", shard) for shard in SHARDS),
        ("by the user", "optimizer"),
        *((way, "parameters") for way in WAYS if way not in ("plain", "by the user")),
    ],
    "2x2": [("plain", "parameters"), ("in a function", "optimizer")],
}


def member(trainings: list[tuple[str, str]], **more: Any) -> None:
    """In a process of a cluster: train with copies, and cut; say how both compare.

    Args:
        trainings: ways to train, and what is cut.
        more: names of other functions here, and their arguments.
    """
    copies = MultiWorkerMirroredStrategy()
    expected: dict[str, list[Any]] = {}
    found: dict[str, Any] = {}
    for way, shard in trainings:
        if way not in expected:
            loop = Loop(copies, ADAM)
            expected[way] = [*WAYS[way](loop), *loop.values()]
        strategy = MultiWorkerMirroredStrategy(shard=shard)
        loop = Loop(strategy, ADAM)
        given = [*WAYS[way](loop), *loop.values()]
        loop.model.optimizer = loop.optimizer
        found[f"{way} {shard}"] = {
            "apart": apart(expected[way], given),
            "cut": cut_of(loop.model, strategy),
        }
    for name, arguments in more.items():
        found[name] = globals()[name](**arguments)
    print(json.dumps({"facts": found}), flush=True)


def traffic() -> dict[str, Any]:
    """The bytes that each replica sends in a step, and those of its rows."""
    found = {}
    for shard in SHARDS:
        loop = Loop(MultiWorkerMirroredStrategy(shard=shard), ADAM, width=600)
        loop.optimizer.build(loop.model.trainable_variables)
        form, arrays = flatten_arguments(next(iter(loop.batches(BATCH))), {})
        program = ReplicaProgram(loop.strategy, loop.step, form).lowered(arrays).compile()
        text = program.as_text()
        assert text is not None
        loop.model.optimizer = loop.optimizer
        share = cut_of(loop.model, loop.strategy)["share"]
        slots = 2 if shard == "optimizer" else 3
        found[shard] = {"sent": bytes_between(text).sum(axis=1).tolist(), "rows": 4 * share / slots}
    return found


def refused() -> dict[str, str]:
    """What is said of what cannot be."""
    said = {}
    cut = MultiWorkerMirroredStrategy(shard="parameters")

    def note(name: str, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"

    for name in ("lamb", "clipped", "scaled"):
        across = Loop(cut, ACROSS[name])
        note(name, lambda across=across: across.train(BATCH))
    loop = Loop(cut, ADAM)
    loop.train(BATCH, epochs=1)
    batch = next(iter(loop.batches(BATCH)))
    note("other", lambda: MultiWorkerMirroredStrategy().run(loop.step, batch))
    note("shapes", lambda: loop.strategy.run(lambda x, y: loop.step(x[:, :3], y), batch))
    loop.train(BATCH)  # goes on after all of it
    assert all(map(is_cut, loop.model.trainable_variables))
    return said


def checkpoint_of(loop: Loop) -> dl.train.Checkpoint:
    """A checkpoint of all that a loop has."""
    return dl.train.Checkpoint(model=loop.model, optimizer=loop.optimizer)


def saved(folder: str, rows: int) -> dict[str, Any]:
    """A checkpoint between steps, and what the loop comes to without it and from it."""
    loop = Loop(MultiWorkerMirroredStrategy(shard="parameters"), ADAM)
    loop.train(rows, epochs=1)
    path = checkpoint_of(loop).save(f"{folder}/loop")
    np.savez(f"{folder}/loop-{rank()}.npz", *loop.values())
    (directory,) = Path(f"{path}.servers").iterdir()
    losses = loop.train(rows, epochs=2)
    again = Loop(MultiWorkerMirroredStrategy(shard="optimizer"), ADAM)
    checkpoint_of(again).restore(path)
    before = again.train(rows, epochs=2)
    return {
        "path": path,
        "parts": sorted(each.name for each in directory.iterdir()),
        "apart": apart([*losses, *loop.values()], [*before, *again.values()]),
    }


def held() -> dict[str, int]:
    """The bytes of this process's arrays behind a batch that splits, and behind one that does not.

    And those of all of the loop's variables.
    """
    loop = Loop(MultiWorkerMirroredStrategy(shard="parameters"), ADAM, width=3000)
    found = {}
    for name, rows in {"even": BATCH, "uneven": ROWS}.items():
        loop.train(rows, epochs=1)
        gc.collect()
        parts = [part.data for each in jax.live_arrays() for part in each.addressable_shards]
        found[name] = sum({p.unsafe_buffer_pointer(): p.nbytes for p in parts}.values())
    found["whole"] = sum(value.nbytes for value in loop.values())
    return found


def full_disk(folder: str) -> dict[str, Any]:
    """Saves while one process, or the first, has no room for its part; what is there afterwards."""
    loop = Loop(MultiWorkerMirroredStrategy(shard="parameters"), ADAM, width=3000)
    loop.train(BATCH, epochs=1)
    checkpoint = checkpoint_of(loop)
    path = checkpoint.save(f"{folder}/full")
    expected = loop.values()
    loop.train(BATCH, epochs=1)
    errors = []
    for which in (1, 0):
        with _room(2**17) if rank() == which else contextlib.nullcontext():
            try:
                checkpoint.save(f"{folder}/full")
            except OSError as error:
                errors.append(str(error))
    loop.strategy.barrier()  # the first process has removed what was begun
    files = sorted(each.name for each in Path(folder).iterdir() if each.name.startswith("full"))
    parts = [each.name for each in Path(folder).glob("full-*.servers/*")]
    again = Loop(MultiWorkerMirroredStrategy(shard="optimizer"), ADAM, width=3000)
    again.optimizer.build(again.model.trainable_variables)
    latest = dl.train.latest_checkpoint(folder)
    checkpoint_of(again).restore(path)
    whole = apart(expected, again.values())
    after = checkpoint.save(f"{folder}/full")
    return {
        "errors": errors,
        "latest": latest == path,
        "files": files,
        "parts": len(parts),
        "apart": whole,
        "after": Path(after).name,
    }


@contextlib.contextmanager
def _room(size: int) -> Any:
    """Within the block no file of this process can be larger than that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def endless(folder: str) -> None:
    """Steps until an interrupt, after a checkpoint."""
    loop = Loop(MultiWorkerMirroredStrategy(shard="parameters"), ADAM)
    loop.train(ROWS, epochs=1)
    checkpoint_of(loop).save(f"{folder}/interrupted")
    np.savez(f"{folder}/interrupted-{rank()}.npz", *loop.values())
    print(f"pid {os.getpid()} goes on", flush=True)
    while True:
        loop.train(ROWS, epochs=1)


def reading_alone() -> None:
    """Weights are read in the first process alone, while the other goes on."""
    loop = Loop(MultiWorkerMirroredStrategy(shard="parameters"), ADAM)
    loop.train(BATCH, epochs=1)
    if rank() == 0:
        loop.model.trainable_variables[0].numpy()
    while True:
        loop.train(BATCH, epochs=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loops")


@pytest.fixture(scope="module")
def clusters(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What each process says: 2 of a device each, and 2 of two."""
    more: dict[str, Any] = {
        "traffic": {},
        "refused": {},
        "held": {},
        "saved": {"folder": str(folder), "rows": ROWS},
        "full_disk": {"folder": str(folder)},
    }
    wanted = [
        Cluster(
            name,
            MEMBER,
            {"trainings": trainings, **(more if name == "2x1" else {})},
            env={"DRUMLINE_CPU_DEVICES": name[-1]},
        )
        for name, trainings in TRAININGS.items()
    ]
    with running(folder, wanted) as run:
        run.wait_for(*run.names, seconds=1800)
        ends = {cluster.name: run.ended(cluster.name) for cluster in wanted}
    for name, members in ends.items():
        for end in members:
            assert end.status == 0, f"{name}: {end.log[-4000:]}"
    return {name: [end.facts for end in members] for name, members in ends.items()}


Clusters = dict[str, list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("cluster", "training"),
    [(name, " ".join(each)) for name, trainings in TRAININGS.items() for each in trainings],
)
def test_a_loop_equals_one_of_copies(clusters: Clusters, cluster: str, training: str) -> None:
    replicas = 2 * int(cluster[-1])
    for facts in clusters[cluster]:
        found = facts[training]
        assert found["apart"] <= 1e-6
        cut = found["cut"]
        assert cut["variables"] == (12 if training.endswith("optimizer") else 18)
        assert cut["shares"] == [cut["share"]] * (replicas // 2)


@pytest.mark.parametrize("shard", SHARDS)
def test_a_step_sends_each_row_twice_to_all_others(clusters: Clusters, shard: str) -> None:
    for facts in clusters["2x1"]:
        found = facts["traffic"][shard]
        # The gradients' rows and the weights'; the layer's moving averages, which are summed in
        # memory that the processes share, or sent.
        assert all(0 <= sent - 2 * found["rows"] <= 4 * 2 * 600 + 64 for sent in found["sent"])


@pytest.mark.parametrize("name", ["lamb", "clipped", "scaled"])
def test_optimizers_that_look_across_a_variable_are_refused(clusters: Clusters, name: str) -> None:
    for facts in clusters["2x1"]:
        assert "computes across a variable" in facts["refused"][name]
        assert "Train by Keras's `fit`" in facts["refused"][name]


def test_errors_of_a_step_are_those_of_all_processes(clusters: Clusters) -> None:
    for facts in clusters["2x1"]:
        said = facts["refused"]
        assert "cut over the replicas by `shard=`" in said["other"]
        assert "shape" in said["shapes"]
    said = [facts["refused"] for facts in clusters["2x1"]]
    assert said[0]["lamb"] == said[1]["lamb"] and said[0]["shapes"] == said[1]["shapes"]


def test_a_process_keeps_its_rows_alone(clusters: Clusters) -> None:
    for facts in clusters["2x1"]:
        found = facts["held"]
        assert found["even"] < 0.6 * found["whole"]  # a half, and what is not cut
        assert found["uneven"] - found["even"] < 0.05 * found["whole"]


def test_each_process_saves_its_part_between_steps(clusters: Clusters) -> None:
    for facts in clusters["2x1"]:
        found = facts["saved"]
        assert found["parts"] == ["process-0.safetensors", "process-1.safetensors"]
        assert found["apart"] <= 1e-6


@pytest.mark.parametrize("shard", [None, "parameters"])
def test_one_process_goes_on_where_two_were(
    clusters: Clusters, folder: Path, shard: str | None
) -> None:
    loop = _restored(clusters["2x1"][0]["saved"]["path"], shard)
    with np.load(folder / "loop-0.npz") as expected:
        for name, value in zip(expected.files, loop.values(), strict=True):
            np.testing.assert_array_equal(value, expected[name])
    loop.train(ROWS)


def _restored(path: str, shard: str | None) -> Loop:
    devices = ["cpu:0", "cpu:1", "cpu:2"]
    loop = Loop(MirroredStrategy(devices, shard=shard), ADAM)
    loop.optimizer.build(loop.model.trainable_variables)
    checkpoint_of(loop).restore(path)
    return loop


def test_a_full_disk_leaves_the_former_checkpoint(clusters: Clusters, folder: Path) -> None:
    for number, facts in enumerate(clusters["2x1"]):
        found = facts["full_disk"]
        assert found["latest"] and found["apart"] == 0
        assert found["files"] == ["full-1.safetensors", "full-1.servers"]
        assert found["parts"] == 2 - 1  # the one directory of the one checkpoint
        assert found["after"] == "full-2"
        for which, error in zip((1, 0), found["errors"], strict=True):
            assert f"File too large: '{folder}/full-2.servers/" in error
            assert f"process-{which}.safetensors'" in error
            blamed = f"Process {which} could not save a part of a checkpoint" in error
            assert blamed == (number != which)


def test_an_interrupt_ends_all_processes_and_leaves_the_checkpoint(folder: Path) -> None:
    cluster = Cluster(
        "interrupted",
        f"{__name__}:endless",
        {"folder": str(folder)},
        env={"DRUMLINE_CPU_DEVICES": "1"},
    )
    with running(folder, [cluster]) as run:
        for name in run.names:
            run.wait_until(name, "goes on", seconds=600)
        time.sleep(0.3)
        _interrupt(run)
        ends: list[Ended] = run.ended("interrupted")
    assert 130 in {end.status for end in ends}, [end.log[-3000:] for end in ends]
    for end in ends:
        # Python ignores an exception in a callback of a weak reference, where an interrupt may
        # fall: such a process ends as the other one has.
        ended = end.status == 130 or (
            end.status == 69 and "it failed: KeyboardInterrupt" in end.log
        )
        assert ended, end.log[-3000:]
    loop = _restored(str(folder / "interrupted-1"), "optimizer")
    with np.load(folder / "interrupted-0.npz") as expected:
        for name, value in zip(expected.files, loop.values(), strict=True):
            np.testing.assert_array_equal(value, expected[name])


def test_a_process_that_reads_alone_is_named(folder: Path) -> None:
    cluster = Cluster("alone", f"{__name__}:reading_alone", env={"DRUMLINE_CPU_DEVICES": "1"})
    began = time.monotonic()
    with running(folder, [cluster]) as run:
        run.wait_for(*run.names, seconds=250)
        ends = run.ended("alone")
    assert time.monotonic() - began < 250
    reads = "worker:0 is to read the variable 'sequential/dense/kernel'"
    for end in ends:
        assert end.status != 0
        assert reads in end.log, end.log[-3000:]
        assert "worker:1 waits for it in a step" in end.log


def _interrupt(run: Run) -> None:
    """Interrupt all, as a terminal does, and once more if all have ignored it."""
    pids = [_pid(run, name) for name in run.names]
    for seconds in (30, 120):
        with contextlib.suppress(ProcessLookupError):
            for pid in pids:
                os.kill(pid, signal.SIGINT)
        with contextlib.suppress(AssertionError):
            return run.wait_for(*run.names, seconds=seconds)
    run.wait_for(*run.names, seconds=1)


def _pid(run: Run, name: str) -> int:
    (line,) = [line for line in run.log(name).splitlines() if line.endswith("goes on")]
    return int(line.split()[1])
