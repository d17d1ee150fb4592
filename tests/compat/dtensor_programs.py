"""What meshes and tensors on them say of themselves: the same with TensorFlow and here."""

from __future__ import annotations

from typing import Any

import numpy as np


def facts(tf: Any, dtensor: Any) -> list[Any]:
    """Run a program, and list what it sees.

    Args:
        tf: TensorFlow or the look-alike, with six CPU devices.
        dtensor: its module.
    """
    devices = [f"CPU:{i}" for i in range(6)]
    mesh = dtensor.create_mesh([("x", 3), ("y", 2)], devices=devices)
    layout = dtensor.Layout(["y", dtensor.UNSHARDED, "x"], mesh)
    found: list[Any] = [
        str(mesh),
        mesh.to_string(),
        mesh.shape(),
        list(mesh.dim_names),
        mesh.size,
        mesh.dim_size("x"),
        tuple(mesh["x"]),
        "x" in mesh,
        mesh.contains_dim("z"),
        mesh.local_device_locations(),
        mesh.coords(3).numpy().tolist(),
        mesh.device_type(),
        mesh.local_devices(),
        mesh.local_device_ids(),
        mesh.global_device_ids().tolist(),
        mesh.num_local_devices(),
        mesh.is_remote(),
        mesh.unravel_index(),
        mesh.strides,
        str(layout),
        layout.shape,
        layout.rank,
        [layout.num_shards(i) for i in range(3)],
        layout.sharding_specs,
        layout.is_fully_replicated(),
        str(layout.delete([0])),
        layout.offset_to_shard(),
        layout.global_shape_from_local_shape([2, 3, 4]),
        layout.local_shape_from_global_shape([4, 3, 6]),
        str(dtensor.Layout.replicated(mesh, 2)),
        str(dtensor.Layout.batch_sharded(mesh, "x", 2)),
        str(dtensor.Layout.batch_sharded(mesh, "x", 2, axis=1)),
        str(dtensor.Layout.inner_sharded(mesh, "y", 3)),
        layout == dtensor.Layout(["y", dtensor.UNSHARDED, "x"], mesh),
        layout == dtensor.Layout(["x", dtensor.UNSHARDED, "y"], mesh),
        dtensor.num_clients(),
        dtensor.client_id(),
        dtensor.job_name(),
        dtensor.full_job_name(),
        dtensor.jobs(),
        dtensor.num_global_devices("CPU"),
        dtensor.num_local_devices("CPU"),
        dtensor.preferred_device_type(),
    ]

    def lay(value: Any, *specs: str) -> Any:
        whole = dtensor.Layout.replicated(mesh, len(specs))
        copied = dtensor.copy_to_mesh(tf.constant(value), whole)
        return dtensor.relayout(copied, dtensor.Layout(list(specs), mesh))

    def show(value: Any) -> None:
        found.append([dtensor.fetch_layout(value).sharding_specs, str(value.dtype)])
        found.extend([part.device, part.numpy().tolist()] for part in dtensor.unpack(value))

    a = lay(np.arange(12, dtype=np.float32).reshape(6, 2), "x", "y")
    b = lay(np.ones((2, 4), np.int64), "unsharded", "y")
    for each in (
        a,
        b,
        a + a,
        tf.reduce_sum(a),
        tf.reduce_sum(a, axis=1),
        a @ lay(np.ones((2, 4), np.float32), "y", "unsharded"),
    ):
        show(each)
    packed = dtensor.pack([[i, i + 1] for i in range(6)], dtensor.Layout(["x"], mesh))
    show(packed)
    found.append(packed.shape.as_list())
    ones = dtensor.call_with_layout(tf.ones, dtensor.Layout(["x", "y"], mesh), shape=(6, 4))
    show(ones)
    variable = dtensor.DVariable(ones)
    variable.assign_add(ones)
    variable.assign_sub(0.5 * ones)
    show(variable + ones)
    found.append(str(variable.layout))
    found.append([dtensor.is_dtensor(each) for each in (variable, ones, tf.constant(1))])

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(variable * x))
        gradient = tape.gradient(loss, variable)
        variable.assign_sub(gradient)
        return loss

    found.extend(float(step(ones)) for _ in range(3))
    show(variable.read_value())

    bad = [
        lambda: dtensor.Layout(["x", "x"], mesh),
        lambda: dtensor.Layout(["q"], mesh),
        lambda: dtensor.create_mesh([("x", 4)], devices=devices),
        lambda: dtensor.check_layout(a, dtensor.Layout.replicated(mesh, 2)),
    ]
    for call in bad:
        try:
            call()
            found.append("nothing raised")
        except ValueError as error:
            found.append(str(error))
    errors = [
        lambda: dtensor.pack([[0, 1]] * 5, dtensor.Layout.replicated(mesh, 1)),
        lambda: dtensor.fetch_layout(tf.constant(1)),
        lambda: dtensor.relayout(a, dtensor.Layout(["x"], mesh)),
        lambda: lay(np.ones((4, 2)), "x", "y"),
        lambda: dtensor.unpack(tf.constant(1)),
        lambda: dtensor.DVariable(tf.ones([3])),
    ]
    for call in errors:
        try:
            call()
            found.append("nothing raised")
        except (tf.errors.InvalidArgumentError, tf.errors.UnknownError):
            found.append("an error of TensorFlow's")
    return found
