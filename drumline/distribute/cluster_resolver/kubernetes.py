"""The cluster of the pods that match Kubernetes labels."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from drumline.distribute.cluster_resolver.cluster_resolver import ClusterResolver
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec


class KubernetesExecutableLocation(enum.Enum):
    """Where this process runs, which decides how the Kubernetes API is reached.

    As ``tf.distribute.cluster_resolver.KubernetesExecutableLocation``.
    """

    WITHIN_CLUSTER = 0
    OFF_CLUSTER = 1


class KubernetesClusterResolver(ClusterResolver):
    """The running pods that match label selectors, each a task, in the order of their names.

    As ``tf.distribute.cluster_resolver.KubernetesClusterResolver``, but for the address: it is the
    pod's own, on which its process listens, and not its node's. Which task this process is cannot
    be found out: set `task_type` and `task_id`.

    Args:
        job_to_label_mapping: the selectors of each job's pods, as ``{"worker":
            ["job-name=worker-a", "job-name=worker-b"]}``; by default workers are the pods of
            ``job-name=tensorflow``.
        tf_server_port: the port of every task.
        rpc_layer: the protocol before ``://`` in `master`.
        override_client: a ``kubernetes.client.CoreV1Api`` with credentials of your own.
        executable_location: within the cluster the pod's service account is used, off the cluster
            the user's kube config.

    Raises:
        ImportError: if the package ``kubernetes`` is missing and no client is given.
        ValueError: if `executable_location` is not a `KubernetesExecutableLocation`.
    """

    def __init__(
        self,
        job_to_label_mapping: Mapping[str, Sequence[str]] | None = None,
        tf_server_port: int = 8470,
        rpc_layer: str | None = "grpc",
        override_client: Any = None,
        executable_location: KubernetesExecutableLocation = (
            KubernetesExecutableLocation.WITHIN_CLUSTER
        ),
    ) -> None:
        if not isinstance(executable_location, KubernetesExecutableLocation):
            raise ValueError(
                f"executable_location must be a KubernetesExecutableLocation, got "
                f"{executable_location!r}"
            )
        self._client = override_client or _client(executable_location)
        self._selectors = dict(job_to_label_mapping or {"worker": ["job-name=tensorflow"]})
        self._port = tf_server_port
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The pods that run now, asked of Kubernetes.

        Raises:
            RuntimeError: if a pod does not run.
        """
        return ClusterSpec(
            {
                job: [address for selector in selectors for address in self._pods(selector)]
                for job, selectors in self._selectors.items()
            }
        )

    def _pods(self, selector: str) -> list[str]:
        found = self._client.list_pod_for_all_namespaces(label_selector=selector)
        pods = sorted(found.items, key=lambda pod: pod.metadata.name)
        for pod in pods:
            if pod.status.phase != "Running":
                raise RuntimeError(
                    f"Pod {pod.metadata.name!r} is not running; phase: {pod.status.phase!r}. "
                    f"Ask again when all pods of {selector!r} run."
                )
        return [self._address(pod.status.pod_ip) for pod in pods]

    def _address(self, ip: str) -> str:
        return f"[{ip}]:{self._port}" if ":" in ip else f"{ip}:{self._port}"


def _client(location: KubernetesExecutableLocation) -> Any:
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise ImportError(
            "KubernetesClusterResolver needs the package 'kubernetes': "
            "pip install 'drumline[kubernetes]', or pass an override_client."
        ) from error
    if location is KubernetesExecutableLocation.OFF_CLUSTER:
        config.load_kube_config()
    else:
        config.load_incluster_config()
    return client.CoreV1Api()
