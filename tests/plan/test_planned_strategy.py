"""Steps lowered for devices without running: the CPU's stand for those that are not there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import keras
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import drumline as dl
import drumline.keras
from drumline.distribute import global_arrays
from drumline.distribute.collectives.devices import device_name, is_local, resolve_device
from drumline.keras.step.train_step import TrainStep
from drumline.plan.planned_strategy import PlannedStrategy, lowered_step, tpu_topology
from drumline.plan.targets import tpu_environment
from tests.distribute.collectives.traffic import bytes_between

drumline.keras.install()


@pytest.fixture
def planned() -> PlannedStrategy:
    return PlannedStrategy(jax.devices("cpu")[1:4])


def test_a_step_of_run(planned: PlannedStrategy) -> None:
    with planned.scope():
        total = dl.Variable(np.zeros(5, np.float32), aggregation="sum")

    def step(x: Any) -> Any:
        total.assign_add(x.sum(axis=0))
        return dl.distribute.get_replica_context().all_reduce("SUM", x.mean())

    x = dl.distribute.PerReplica.of_stacked(np.ones((3, 4, 5), np.float32))
    program = planned.compiled(lowered_step(planned, step, (x,)))
    assert total.value.devices() == {jax.devices("cpu")[0]} and not total.value.any()
    assert {device.id for device in program.input_shardings[0][0][0].device_set} == {1, 2, 3}
    # Sums of 5 floats and of 1, in rings: twice two pieces, of 2 floats and of 1.
    assert bytes_between(program.as_text())[0].sum() == 2 * 2 * (2 + 1) * 4
    with pytest.raises(RuntimeError, match="3 x cpu.* has devices that are not there"):
        planned.run(step, (x,))
    parts = dl.distribute.PerReplica([np.ones(2), np.ones(3), np.ones(2)])
    with pytest.raises(ValueError, match="same shape on each replica"):
        lowered_step(planned, step, (parts,))


def test_a_step_of_fit_is_mirrored_s(planned: PlannedStrategy) -> None:
    """The same program, but for where it runs."""
    texts = []
    for strategy in (planned, dl.distribute.MirroredStrategy(["cpu:1", "cpu:2", "cpu:3"])):
        with strategy.scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="dense")])
            model.compile("sgd", "mse")
            x, y = (jax.ShapeDtypeStruct((6, n), "float32") for n in (4, 2))
            model._symbolic_build(data_batch=tuple(np.zeros(a.shape, a.dtype) for a in (x, y)))
            model.optimizer.build(model.trainable_variables)
            groups = (
                model.trainable_variables,
                model.non_trainable_variables,
                model.optimizer.variables,
                model.metrics_variables,
            )
            state = tuple([jax.ShapeDtypeStruct(v.shape, v.dtype) for v in g] for g in groups)
            texts.append(TrainStep(model, strategy).lowered(state, (x, y)).as_text())
    assert texts[0] == texts[1]
    assert texts[0].count("all_reduce") >= 1


def test_what_a_planned_strategy_says(planned: PlannedStrategy) -> None:
    assert planned.num_replicas_in_sync == 3 and planned.local_replica_ids == [0]
    assert not planned.spans_processes
    assert (planned.num_processes, planned.process_index) == (1, 0)
    assert "variables live: on cpu:0" in planned.describe()
    with pytest.raises(ValueError, match="needs devices of a topology, got none"):
        PlannedStrategy([])


def test_planned_programs_are_not_kept(planned: PlannedStrategy, tmp_path: Path) -> None:
    """JAX's cache is left out, and is on again afterwards."""
    lowered = lowered_step(planned, lambda x: x * 3, (np.ones(7, np.float32),))
    before = jax.config.jax_compilation_cache_dir
    compilation_cache.reset_cache()
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        planned.compiled(lowered)
        assert not any("cache" in each.name for each in tmp_path.iterdir())
        jax.jit(lambda x: x * 5 + 1)(np.ones(9, np.float32))
        assert any("cache" in each.name for each in tmp_path.iterdir())
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
        compilation_cache.reset_cache()


def test_devices_that_are_not_there_are_not_local() -> None:
    """A topology's first machine has this process's number."""

    class Chip(SimpleNamespace):
        def __hash__(self) -> int:
            return id(self)

        def __str__(self) -> str:
            return "TPU_0(process=0,(0,0,0,0))"

    chip: Any = Chip(platform="tpu", process_index=jax.process_index())
    here = jax.devices("cpu")[0]
    assert is_local(here) and not is_local(chip)
    assert global_arrays.own_devices((chip, here)) == (here,)
    assert device_name(chip) == "TPU_0(process=0,(0,0,0,0))"
    assert resolve_device(here) is here


def test_a_topology_needs_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tpu_environment():
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RuntimeError, match="ALLOW_MULTIPLE_LIBTPU_LOAD and .*before JAX starts"):
        tpu_topology("v5e:2x4")
    for name, value in tpu_environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"No topology 'v0:9x9' of TPUs: .*drumline\[plan\]"):
        tpu_topology("v0:9x9")
