"""Connecting to a cluster, and to a TPU: to what hardware there is, and to CPUs in its place."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from drumline.config import cluster as config_cluster
from drumline.config import experimental_connect_to_cluster as connect_to_cluster
from drumline.distribute.cluster_resolver import (
    ClusterSpec,
    SimpleClusterResolver,
    TPUClusterResolver,
    TPUNotFoundError,
)
from drumline.distribute.process_group import start as join
from drumline.distribute.process_group.start import devices_of_tpu
from drumline.tpu.experimental import initialize_tpu_system, shutdown_tpu_system
from tests.tpus import cpus_as_tpus

TWO = ClusterSpec({"worker": ["127.0.0.1:1", "127.0.0.1:2"]})


@pytest.fixture
def on_cpus() -> Iterator[None]:
    with cpus_as_tpus():
        yield


@pytest.mark.parametrize(
    ("cluster", "task"),
    [
        (ClusterSpec({}), ("worker", 0)),
        (ClusterSpec({"worker": ["a:1"]}), ("worker", 0)),
        (ClusterSpec({"worker": ["a:1", "b:1"], "ps": ["c:1"]}), ("ps", 0)),
        (SimpleClusterResolver(ClusterSpec({"chief": ["a:1"], "ps": ["c:1"]})), ()),
    ],
)
def test_there_may_be_nothing_to_join(cluster: Any, task: Any) -> None:
    connect_to_cluster(cluster, *task)
    assert not jax.distributed.is_initialized()


def test_processes_are_joined_as_by_a_strategy() -> None:
    jax.devices()
    with pytest.raises(RuntimeError, match="JAX has started before this process joined"):
        connect_to_cluster(TWO, "worker", 0)
    with pytest.raises(RuntimeError, match="JAX has started before this process joined"):
        connect_to_cluster(SimpleClusterResolver(TWO, task_type="worker", task_id=1))


def test_what_is_no_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs job_name and task_index.*\['worker'\]"):
        connect_to_cluster(TWO)
    with pytest.raises(ValueError, match="takes no job_name"):
        connect_to_cluster(SimpleClusterResolver(TWO), "worker", 0)
    with pytest.raises(TypeError, match="takes a ClusterSpec or a ClusterResolver, got 'a:1'"):
        connect_to_cluster("a:1")  # type: ignore[arg-type]


def test_without_tpu_support_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_WORKER_ID", "1")
    resolver = TPUClusterResolver("grpc://192.0.2.1:1,grpc://192.0.2.2:1")  # which nobody has
    for connect in (connect_to_cluster, initialize_tpu_system):
        with pytest.raises(TPUNotFoundError, match=r"No TPU was found: JAX has .*cpu"):
            connect(resolver)


def test_initializing_again_changes_nothing(on_cpus: None) -> None:
    kept = jax.device_put(np.arange(3.0), jax.devices()[-1])
    resolver = TPUClusterResolver("local")
    first, second = initialize_tpu_system(resolver), initialize_tpu_system(resolver)
    assert first.serialized() == second.serialized()
    assert first.mesh_shape.tolist() == [len(jax.devices()), 1, 1, 1]
    assert resolver.tpu_hardware_feature is not None
    connect_to_cluster(resolver)
    assert TPUClusterResolver.connect("local").tpu_hardware_feature is not None
    shutdown_tpu_system(resolver)
    assert kept.tolist() == [0.0, 1.0, 2.0]


def test_a_tpu_is_asked_for(on_cpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_NAME", "local")
    assert initialize_tpu_system().num_tasks == 1
    with pytest.raises(TypeError, match="must be a TPUClusterResolver, got"):
        initialize_tpu_system(SimpleClusterResolver(TWO))  # type: ignore[arg-type]


def test_jax_and_the_resolver_must_agree(on_cpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    two = [SimpleNamespace(id=0, process_index=0), SimpleNamespace(id=1, process_index=1)]
    monkeypatch.setattr(jax, "devices", lambda platform: two)
    resolver = TPUClusterResolver("local")
    with pytest.raises(RuntimeError, match=r"of 2 machines.*resolver's is of 1.*a local TPU"):
        devices_of_tpu(resolver, join(resolver.as_workers()))


def test_what_joins_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_cluster, "_connect", None)
    with pytest.raises(TypeError, match="ClusterSpec or a ClusterResolver of drumline.*got 3"):
        connect_to_cluster(3)  # type: ignore[arg-type]
