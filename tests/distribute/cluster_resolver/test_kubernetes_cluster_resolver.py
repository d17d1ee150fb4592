"""Pods as tasks, by a client that answers as Kubernetes's own does."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from drumline.distribute.cluster_resolver import (
    KubernetesClusterResolver,
    KubernetesExecutableLocation,
)


def pod(name: str, ip: str, phase: str = "Running") -> Any:
    """As ``kubernetes.client.V1Pod``: of its fields, those that are read."""
    try:
        from kubernetes import client
    except ImportError:
        return SimpleNamespace(
            metadata=SimpleNamespace(name=name),
            status=SimpleNamespace(phase=phase, pod_ip=ip, host_ip="192.0.2.9"),
        )
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name),
        status=client.V1PodStatus(phase=phase, pod_ip=ip, host_ip="192.0.2.9"),
    )


class Client:
    """A ``CoreV1Api`` with these pods, by label selector."""

    def __init__(self, pods: dict[str, list[Any]]) -> None:
        self._pods = pods

    def list_pod_for_all_namespaces(self, label_selector: str) -> Any:
        return SimpleNamespace(items=self._pods[label_selector])


def test_running_pods_are_tasks_in_the_order_of_their_names() -> None:
    pods = {"job-name=tensorflow": [pod("b", "10.0.0.2"), pod("a", "10.0.0.1")]}
    resolver = KubernetesClusterResolver(override_client=Client(pods))
    cluster = {"worker": ["10.0.0.1:8470", "10.0.0.2:8470"]}
    assert resolver.cluster_spec().as_dict() == cluster
    assert resolver.master() == ""
    resolver.task_type, resolver.task_id = "worker", 1
    assert resolver.master() == "grpc://10.0.0.2:8470"
    pods["job-name=tensorflow"].pop()
    assert resolver.cluster_spec().as_dict() == {"worker": ["10.0.0.2:8470"]}


def test_jobs_of_several_selectors() -> None:
    client = Client({"x=1": [pod("q", "10.0.0.9")], "x=2": [pod("a", "fd00::1")], "y": []})
    resolver = KubernetesClusterResolver(
        {"worker": ["x=1", "x=2"], "ps": ["y"]}, 2222, rpc_layer=None, override_client=client
    )
    assert resolver.cluster_spec().job_tasks("worker") == ["10.0.0.9:2222", "[fd00::1]:2222"]
    assert resolver.cluster_spec().num_tasks("ps") == 0
    assert resolver.master("worker", 0) == "10.0.0.9:2222"


def test_a_pod_that_does_not_run_is_named() -> None:
    client = Client({"job-name=tensorflow": [pod("a", "10.0.0.1", "Pending")]})
    with pytest.raises(RuntimeError, match="Pod 'a' is not running; phase: 'Pending'"):
        KubernetesClusterResolver(override_client=client).cluster_spec()


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(
        ImportError, match=r"pip install 'drumline\[kubernetes\]', or pass an override_client"
    ):
        KubernetesClusterResolver()


@pytest.mark.parametrize("location", list(KubernetesExecutableLocation))
def test_the_client_is_made_with_the_location_s_credentials(
    location: KubernetesExecutableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[KubernetesExecutableLocation] = []
    within, off = KubernetesExecutableLocation
    config = SimpleNamespace(
        load_incluster_config=lambda: used.append(within),
        load_kube_config=lambda: used.append(off),
    )
    client = Client({"job-name=tensorflow": [pod("a", "10.0.0.1")]})
    package = SimpleNamespace(config=config, client=SimpleNamespace(CoreV1Api=lambda: client))
    monkeypatch.setitem(sys.modules, "kubernetes", package)
    resolver = KubernetesClusterResolver(executable_location=location)
    assert used == [location]
    assert resolver.cluster_spec().num_tasks("worker") == 1


def test_an_unknown_location_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a KubernetesExecutableLocation, got 'here'"):
        KubernetesClusterResolver(executable_location="here")  # type: ignore[arg-type]
