"""``tf.experimental.dtensor`` on two CPU devices."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from drumline.compat.tf.experimental import dtensor

from drumline.compat import tf
from drumline.compat.values.boundary import unwrap


@pytest.fixture(scope="module")
def mesh() -> Any:
    return dtensor.create_mesh([("batch", 2)], devices=["CPU:0", "CPU:1"])


def test_datasets_give_batches_in_layouts(mesh: Any) -> None:
    rows = tf.data.Dataset.range(10).map(lambda i: {"x": tf.stack([i, -i]), "y": i})
    layouts = {
        "x": dtensor.Layout.batch_sharded(mesh, "batch", 2),
        "y": dtensor.Layout.batch_sharded(mesh, "batch", 1),
    }
    given = {"mesh": mesh, "layouts": layouts, "global_batch_size": 4, "batch_dim": "batch"}
    batches = dtensor.DTensorDataset(rows, **given)
    found = list(batches)
    assert len(found) == len(batches) == 2
    for name, layout in layouts.items():
        assert dtensor.fetch_layout(found[1][name]) == layout
    assert found[1]["y"].numpy().tolist() == [4, 5, 6, 7]
    assert [part.numpy().tolist() for part in dtensor.unpack(found[0]["y"])] == [[0, 1], [2, 3]]
    already = dtensor.DTensorDataset(rows.batch(4), dataset_already_batched=True, **given)
    with pytest.raises(tf.errors.InvalidArgumentError, match="divisible|rank"):
        list(dtensor.DTensorDataset(rows.batch(5), dataset_already_batched=True, **given))
    assert next(iter(already))["x"].shape == [4, 2]
    with pytest.raises(ValueError, match="must be divisible by the 2 shards"):
        dtensor.DTensorDataset(rows, **{**given, "global_batch_size": 3})
    other = dtensor.create_mesh([("b", 2)], devices=["CPU:0", "CPU:1"])
    with pytest.raises(ValueError, match="is not on the dataset's mesh"):
        dtensor.DTensorDataset(rows, **{**given, "mesh": other})


def test_variables_keep_their_layout_and_refuse_another_mesh(mesh: Any) -> None:
    layout = dtensor.Layout.batch_sharded(mesh, "batch", 2)
    variable = dtensor.DVariable(tf.zeros([4, 2]), layout=layout)
    variable.assign(np.ones([4, 2], np.float32))
    assert dtensor.fetch_layout(variable) == layout
    assert len(dtensor.unpack(variable)) == 2
    turned = dtensor.create_mesh([("a", 1), ("batch", 2)], devices=["CPU:0", "CPU:1"])
    moved = dtensor.copy_to_mesh(tf.ones([4, 2]), dtensor.Layout.replicated(turned, 2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be assigned to a variable on"):
        variable.assign(moved)
    with dtensor.default_mesh(mesh):
        assert dtensor.get_default_mesh() == mesh
        whole = dtensor.DVariable(tf.ones([3]))
    assert dtensor.get_default_mesh() is None
    assert whole.layout.is_fully_replicated()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_values_come_back_as_they_were(mesh: Any, dtype: str) -> None:
    value = np.arange(-4, 4).reshape(4, 2).astype(dtype)
    laid = dtensor.copy_to_mesh(tf.constant(value), dtensor.Layout(["batch", "unsharded"], mesh))
    assert laid.dtype.name == dtype
    np.testing.assert_array_equal(laid.numpy(), value)
    again = dtensor.pack(dtensor.unpack(laid), dtensor.fetch_layout(laid))
    np.testing.assert_array_equal(again.numpy(), value)


def test_compiled_functions_lay_out_what_they_are_told_to(mesh: Any) -> None:
    layout = dtensor.Layout(["batch"], mesh)

    @tf.function
    def both(x: Any) -> Any:
        return dtensor.relayout(x * 2, layout), tf.reduce_sum(x)

    double, total = both(tf.constant([1.0, 2.0, 3.0, 4.0]))
    assert dtensor.fetch_layout(double) == layout
    assert float(total) == 10.0
    assert isinstance(unwrap(double).sharding, jax.sharding.NamedSharding)


def test_many_programs_may_follow_each_other(mesh: Any) -> None:
    x = dtensor.copy_to_mesh(tf.ones([64, 64]), dtensor.Layout(["batch", "unsharded"], mesh))
    weights = dtensor.DVariable(tf.eye(64), layout=dtensor.Layout(["unsharded", "batch"], mesh))

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x @ weights)
        weights.assign_sub(1e-6 * tape.gradient(loss, weights))

    for _ in range(100):
        step()
        tf.reduce_sum(x @ weights, axis=0)
    dtensor.barrier(mesh)
    assert np.isfinite(weights.numpy()).all()


def test_devices_that_are_not_there_are_named() -> None:
    with pytest.raises(ValueError, match="There is no device 'CPU:99'"):
        dtensor.create_mesh([("x", 1)], devices=["CPU:99"])
    with pytest.raises(ValueError, match="must be equal to total size"):
        dtensor.create_mesh({"x": 3}, devices=["CPU:0", "CPU:1"])
    assert dtensor.create_mesh({"x": -1}, devices=["CPU:0", "CPU:1"]).shape() == [2]
