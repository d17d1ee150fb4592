"""A cluster that is told."""

from __future__ import annotations

from drumline.distribute.cluster_resolver.cluster_resolver import ClusterResolver, master_url
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec


class SimpleClusterResolver(ClusterResolver):
    """A resolver of what it is given.

    As ``tf.distribute.cluster_resolver.SimpleClusterResolver``.

    Args:
        cluster_spec: the cluster.
        master: what `master` answers when no task is named.
        task_type: this process's job.
        task_id: its index within the job.
        environment: what `environment` answers.
        num_accelerators: what `num_accelerators` answers, as ``{"GPU": 8}``.
        rpc_layer: the protocol before ``://`` in `master`.

    Raises:
        TypeError: if `cluster_spec` is not a `ClusterSpec`, or `master` not a string.
    """

    def __init__(
        self,
        cluster_spec: ClusterSpec,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: dict[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError(
                f"cluster_spec must be a dl.train.ClusterSpec, got {type(cluster_spec).__name__}"
            )
        if not isinstance(master, str):
            raise TypeError(f"master must be a string, got {master!r}")
        self._cluster_spec = cluster_spec
        self._master = master
        self._task_type = task_type
        self._task_id = task_id
        self._environment = environment
        self._num_accelerators = dict(num_accelerators or {})
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The cluster that was given."""
        return self._cluster_spec

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The named task's address; without a task, the master that was given.

        Raises:
            ValueError: if the cluster has no such task.
        """
        address = self._master
        if task_type is not None and task_id is not None:
            address = self._cluster_spec.task_address(task_type, task_id)
        return master_url(address, rpc_layer or self._rpc_layer)

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: object = None,
    ) -> dict[str, int]:
        """The number that was given, of every task; nothing is detected."""
        return dict(self._num_accelerators)

    @property
    def environment(self) -> str | None:
        """The environment that was given."""
        return self._environment
