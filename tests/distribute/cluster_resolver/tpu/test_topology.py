"""Topologies and assignments of devices; `tests/compat/test_tpu_like_tf.py` compares with TF."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drumline.distribute.cluster_resolver.tpu import DeviceAssignment, DeviceOrderMode, Topology


def torus(*mesh_shape: int, tasks: int = 1) -> Topology:
    places = np.stack(np.unravel_index(np.arange(np.prod(mesh_shape)), mesh_shape), axis=-1)
    return Topology(mesh_shape=mesh_shape, device_coordinates=places.reshape(tasks, -1, 4))


def test_places_and_names() -> None:
    topology = torus(2, 2, 1, 2, tasks=2)
    assert (topology.num_tasks, topology.num_tpus_per_task, topology.mesh_rank) == (2, 4, 4)
    assert topology.task_ordinal_at_coordinates([1, 0, 0, 1]) == 1
    assert topology.tpu_device_ordinal_at_coordinates(np.array([1, 0, 0, 1])) == 1
    assert topology.tpu_device_name_at_coordinates([1, 1, 0, 0]) == "/task:1/device:TPU:2"
    assert (
        topology.cpu_device_name_at_coordinates([0, 0, 0, 0], "w") == "/job:w/task:0/device:CPU:0"
    )
    assert topology.missing_devices.size == 0
    assert "mesh_shape=[2, 2, 1, 2], tasks=2" in repr(topology)


def test_a_serialized_topology_is_the_same() -> None:
    topology = torus(2, 300, 1, 1, tasks=3)  # 299 takes two bytes
    again = Topology(topology.serialized())
    np.testing.assert_array_equal(again.mesh_shape, topology.mesh_shape)
    np.testing.assert_array_equal(again.device_coordinates, topology.device_coordinates)
    with pytest.raises(ValueError, match=r"coordinates for each device|cut off"):
        Topology(topology.serialized()[:-1])


def test_a_negative_place_is_told_as_it_is() -> None:
    minus_one = b"\xff" * 9 + b"\x01"
    coordinates = minus_one + bytes(3)
    whole = bytes([0x0A, 4, 1, 1, 1, 1, 0x10, 1, 0x18, 1, 0x22, len(coordinates)]) + coordinates
    with pytest.raises(ValueError, match=r"\[-1, 0, 0, 0\], outside of the mesh"):
        Topology(whole)


@pytest.mark.parametrize("end", range(1, 40))
def test_bytes_that_are_cut_off_are_refused(end: int) -> None:
    whole = torus(2, 2, 1, 2, tasks=2).serialized()
    assert len(whole) > end
    with pytest.raises(ValueError, match="serialized topology"):
        Topology(whole[:end])


@pytest.mark.parametrize(
    ("mesh_shape", "coordinates", "problem"),
    [
        ((2, 1, 1), [[[0, 0, 0, 0]]], "4 positive integers"),
        ((2, 0, 1, 1), [[[0, 0, 0, 0]]], "4 positive integers"),
        ((2, 1, 1, 1), [[0, 0, 0, 0]], r"\(tasks, devices, 4\)"),
        ((2, 1, 1, 1), [[[2, 0, 0, 0]]], r"\[2, 0, 0, 0\], outside of the mesh"),
        ((2, 1, 1, 1), [[[-1, 0, 0, 0]]], "outside of the mesh"),
    ],
)
def test_what_is_no_topology_is_refused(mesh_shape: Any, coordinates: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Topology(mesh_shape=mesh_shape, device_coordinates=coordinates)


@pytest.mark.parametrize("mesh", [(4, 4, 1, 1), (2, 4, 2, 1), (4, 1, 2, 1), (1, 4, 4, 1)])
def test_a_ring_leads_from_neighbour_to_neighbour(mesh: tuple[int, ...]) -> None:
    topology = torus(*mesh)
    size = int(np.prod(mesh))
    ring = DeviceAssignment.build(
        topology, num_replicas=size, device_order_mode=DeviceOrderMode.RING
    )
    places = ring.core_assignment[:, 0]
    assert len({tuple(place) for place in places}) == size
    steps = np.abs(places - np.roll(places, 1, axis=0)).sum(axis=1)
    assert (steps == 1).all()


def test_which_replicas_a_machine_has() -> None:
    assignment = DeviceAssignment.build(torus(2, 2, 1, 2, tasks=2), (1, 1, 1, 2), num_replicas=4)
    assert (assignment.num_replicas, assignment.num_cores_per_replica) == (4, 2)
    found = sorted(
        replica for task in range(2) for replica in assignment.lookup_replicas(task, logical_core=0)
    )
    assert found == [0, 1, 2, 3]
    for replica in range(4):
        place = assignment.coordinates(replica, 1)
        assert place[3] == 1
        task = assignment.topology.task_ordinal_at_coordinates(place)
        assert replica in assignment.lookup_replicas(task, 1)
        ordinal = assignment.tpu_ordinal(replica, 1)
        assert assignment.tpu_device(replica, 1) == f"/task:{task}/device:TPU:{ordinal}"
        assert assignment.host_device(replica, job="w") == f"/job:w/task:{task}/device:CPU:0"
    with pytest.raises(ValueError, match="Task 2 has core 0 of no replica"):
        assignment.lookup_replicas(2, 0)


def test_missing_devices_are_left_out() -> None:
    topology = Topology(
        mesh_shape=(2, 2, 1, 1), device_coordinates=[[[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]]]
    )
    assert topology.missing_devices.tolist() == [[1, 0, 0, 0]]
    assert topology.task_ordinal_at_coordinates([1, 0, 0, 0]) == -1
    assigned = DeviceAssignment.build(topology.serialized(), num_replicas=3).core_assignment
    assert assigned[:, 0].tolist() == topology.device_coordinates[0].tolist()
    with pytest.raises(ValueError, match="1 devices are missing"):
        DeviceAssignment.build(topology, num_replicas=4)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"num_replicas": 9}, "9 replicas .* more than the 8"),
        ({"computation_shape": (1, 1, 2, 1)}, "does not fit into"),
        ({"computation_stride": (3, 1, 1, 1)}, "does not fit into"),
        ({"computation_shape": (1, 1, 1)}, "computation_shape must be 4"),
        ({"computation_stride": (0, 1, 1, 1)}, "computation_stride must be 4"),
        ({"num_replicas": 8, "device_order_mode": DeviceOrderMode.RING}, "whole chips"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        DeviceAssignment.build(torus(2, 2, 1, 2), **options)


def test_what_is_no_assignment_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a Topology"):
        DeviceAssignment("no", [[[0, 0, 0, 0]]])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be a Topology"):
        DeviceAssignment.build("no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\(replicas, cores of a replica, 4\)"):
        DeviceAssignment(torus(1, 1, 1, 1), [[0, 0, 0, 0]])
