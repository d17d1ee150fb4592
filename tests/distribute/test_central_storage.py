"""`CentralStorageStrategy`: where variables live, and steps that equal those of mirrored ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute import MirroredStrategy, Strategy
from drumline.distribute.experimental import CentralStorageStrategy

PAIRS = {
    "apart": (["cpu:1", "cpu:2"], None),
    "among the replicas": (["cpu:0", "cpu:1"], "cpu:1"),
    "one replica": (["cpu:1"], "cpu:2"),
}


def test_where_variables_live_by_default() -> None:
    def home(*args: Any) -> tuple[str, ...]:
        return CentralStorageStrategy(*args).extended.parameter_devices

    assert home(["cpu:1", "cpu:2"]) == ("cpu:0",)
    assert home(["cpu:2"]) == ("cpu:2",)
    assert home(["cpu:2"], "/cpu:1") == ("cpu:1",)
    assert home("cpu:2") == home(jax.devices()[2]) == ("cpu:2",)
    assert CentralStorageStrategy().num_replicas_in_sync == len(jax.local_devices())


def test_what_it_says_of_itself() -> None:
    strategy = CentralStorageStrategy(["cpu:1", "cpu:2"], "cpu:3")
    assert repr(strategy) == "CentralStorageStrategy(['cpu:1', 'cpu:2'], parameter_device='cpu:3')"
    (line,) = (each for each in strategy.describe().splitlines() if "variables live" in each)
    assert "on cpu:3, where they are updated; steps copy weights to 2 compute device(s)" in line
    assert "variables live: on cpu:1\n" in CentralStorageStrategy("cpu:1").describe()


@pytest.mark.parametrize("devices", [(["cpu:9"], None), (["cpu:1"], "cpu:9")])
def test_a_device_that_is_not_there(devices: Any) -> None:
    with pytest.raises(ValueError, match="'cpu:9' does not exist"):
        CentralStorageStrategy(*devices)


def test_values_of_new_variables_are_made_where_they_live() -> None:
    with CentralStorageStrategy(["cpu:1", "cpu:2"], "cpu:3").scope():
        assert jax.numpy.zeros(3).devices() == {jax.devices()[3]}


def test_results_can_be_used_with_variables() -> None:
    strategy = CentralStorageStrategy(["cpu:1", "cpu:2"])
    with strategy.scope():
        total = dl.Variable(1.0)
    values = strategy.run(lambda: dl.distribute.get_replica_context().replica_id_in_sync_group)
    total.assign_add(strategy.reduce("SUM", values))
    assert float(total.value + strategy.gather(np.ones(1), 0)[0]) == 3.0


@pytest.fixture(
    params=[
        pytest.param(False, id="compiled"),
        pytest.param(True, id="eager", marks=pytest.mark.thorough),
    ]
)
def eagerly(request: Any) -> Iterator[None]:
    dl.config.run_functions_eagerly(request.param)
    yield
    dl.config.run_functions_eagerly(False)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("pair", PAIRS)
def test_loops_equal_those_of_mirrored_variables(pair: str, tmp_path: Path) -> None:
    compute, home = PAIRS[pair]
    central = CentralStorageStrategy(compute, home)
    expected = _trained(MirroredStrategy(compute), tmp_path / "mirrored")
    found = _trained(central, tmp_path / "central")
    assert found[0] == expected[0]
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_array_equal(ours.value, theirs.value)
        assert ours.value.devices() == central.variable_sharding.device_set


def _trained(strategy: Strategy, folder: Path) -> tuple[list[float], list[keras.Variable]]:
    """Steps of whole and of uneven batches, steps that only read, a restored checkpoint."""
    keras.utils.set_random_seed(3)
    with strategy.scope():
        layers = [keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization()]
        model = keras.Sequential(layers)
        optimizer = keras.optimizers.Adam(0.01)
        mean = keras.metrics.Mean()
        total = dl.Variable(0.0, synchronization="on_read", aggregation="sum")
        count = dl.Variable(0.0, aggregation="sum")

    def step(x: Any) -> Any:
        with dl.GradientTape() as tape:
            loss = keras.ops.mean(model(x, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        mean.update_state(loss)
        total.assign_add(loss)
        count.assign_add(1.0)
        return loss

    def evaluate(x: Any) -> Any:
        return keras.ops.mean(model(x) ** 2)

    @dl.function
    def in_function(batch: Any) -> Any:
        return strategy.reduce("MEAN", strategy.run(step, (batch,)))

    rows = np.random.default_rng(0).normal(size=(23, 4)).astype(np.float32)
    dataset = dl.data.Dataset.from_tensor_slices(rows).batch(8)
    batches = list(strategy.experimental_distribute_dataset(dataset))
    losses = [strategy.reduce("MEAN", strategy.run(step, (batch,))) for batch in batches]
    losses += [strategy.reduce("MEAN", strategy.run(evaluate, (batches[0],))) for _ in range(2)]
    losses += [in_function(batches[0])]
    checkpoint = dl.train.Checkpoint(model=model, optimizer=optimizer, total=total)
    path = checkpoint.save(str(folder / "ckpt"))
    strategy.run(step, (batches[1],))
    checkpoint.restore(path)
    model.set_weights([weight * 0.5 for weight in model.get_weights()])
    losses += [strategy.reduce("MEAN", strategy.run(step, (batches[0],)))]
    copies = strategy.experimental_local_results(total)
    losses += [mean.result(), total.value, count.value, *copies]
    return [float(loss) for loss in losses], [*model.variables, *optimizer.variables, count]
