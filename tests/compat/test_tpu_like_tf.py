"""Topologies and assignments of devices are TensorFlow's, where it is installed."""

import itertools

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)
MESHES = [
    *itertools.product((1, 2, 4), (1, 2, 4), (1, 2, 4), (1, 2)),
    (3, 2, 1, 1),
    (3, 1, 1, 2),
    (1, 5, 3, 1),
    (8, 16, 1, 1),
    (4, 6, 2, 1),
]


def topology(tf, mesh, tasks=1):
    places = np.stack(np.unravel_index(np.arange(np.prod(mesh)), mesh), axis=-1)
    return tf.tpu.experimental.Topology(
        mesh_shape=mesh, device_coordinates=places.reshape(tasks, -1, 4)
    )


def outcome(program, tf):
    try:
        return program(tf)
    except ValueError:
        return "refused"


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_assignments(mesh, mode):
    size = int(np.prod(mesh))
    seen = set()
    for replicas, shape, stride in itertools.product(
        sorted({1, 2, 3, 4, size // 2, size} - {0}),
        [None, (1, 1, 1, mesh[3]), (2, 1, 1, mesh[3]), (2, 2, 1, 1), (1, 2, 2, mesh[3])],
        [None, (2, 1, 1, 1), (1, 1, 2, 1)],
    ):

        def program(tf, shape=shape, stride=stride, replicas=replicas):
            built = tf.tpu.experimental.DeviceAssignment.build(
                topology(tf, mesh),
                shape,
                stride,
                replicas,
                tf.tpu.experimental.DeviceOrderMode(mode),
            )
            return built.core_assignment.tolist()

        found = outcome(program, ours)
        seen.add(found == "refused")
        assert found == outcome(program, theirs), (replicas, shape, stride)
    assert False in seen


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_places(tasks):
    def program(tf):
        made = topology(tf, (2, 300, 1, 2), tasks)
        place = (1, 299, 0, 1)
        again = tf.tpu.experimental.Topology(serialized=made.serialized())
        assignment = tf.tpu.experimental.DeviceAssignment.build(again, num_replicas=8)
        return {
            "serialized": made.serialized(),
            "numbers": (again.num_tasks, again.num_tpus_per_task, again.mesh_rank),
            "task": again.task_ordinal_at_coordinates(place),
            "device": again.tpu_device_ordinal_at_coordinates(place),
            "names": (
                again.tpu_device_name_at_coordinates(place, "worker"),
                again.tpu_device_name_at_coordinates(place),
                again.cpu_device_name_at_coordinates(place, "worker"),
            ),
            "coordinates": again.device_coordinates,
            "missing": again.missing_devices,
            "replicas": assignment.lookup_replicas(0, 0),
            "of replica": (
                assignment.coordinates(3, 0),
                assignment.tpu_ordinal(3),
                assignment.tpu_device(3, 0, "worker"),
                assignment.host_device(3, job="worker"),
                assignment.num_replicas,
                assignment.num_cores_per_replica,
            ),
        }

    np.testing.assert_equal(program(ours), program(theirs))


def test_missing_devices():
    def program(tf):
        places = [[[0, 0, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0]], [[2, 0, 0, 0], [3, 0, 0, 0]] * 2]
        made = tf.tpu.experimental.Topology(
            mesh_shape=(4, 2, 1, 1), device_coordinates=[places[0], [*places[1][:2], [3, 1, 0, 0]]]
        )
        built = tf.tpu.experimental.DeviceAssignment.build(made, (1, 1, 1, 1), num_replicas=5)
        return {
            "missing": made.missing_devices,
            "tasks": [int(made.task_ordinal_at_coordinates((x, 0, 0, 0))) for x in range(4)],
            "assigned": built.core_assignment,
        }

    np.testing.assert_equal(program(ours), program(theirs))


@pytest.mark.parametrize("variables", [{}, {"TPU_CONFIG": '{"tpu_node_name": "grpc://a:1"}'}])
def test_resolvers(variables, monkeypatch):
    for name in ("TPU_NAME", "TPU_WORKER_HOSTNAMES", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TPU_SKIP_MDS_QUERY", "1")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    def program(tf):
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            None if variables else "grpc://10.0.0.1:8470,grpc://10.0.0.2:8470",
            coordinator_name="coordinator",
            coordinator_address="10.0.0.9:1",
        )
        return {
            "cluster": resolver.cluster_spec().as_dict(),
            "master": (resolver.master(), resolver.get_master(), resolver.master("worker", 0)),
            "job": (resolver.get_job_name(), resolver.task_type, resolver.environment),
            "leader": resolver.get_coordination_service_leader(),
            "feature": resolver.tpu_hardware_feature,
        }

    np.testing.assert_equal(program(ours), program(theirs))


def test_local_resolvers():
    def program(tf):
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver("local")
        return {
            "cluster": resolver.cluster_spec().as_dict(),
            "master": resolver.master(),
            "accelerators": resolver.num_accelerators(),
        }

    np.testing.assert_equal(program(ours), program(theirs))
