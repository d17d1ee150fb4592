"""The cluster that the environment variable ``TF_CONFIG`` describes."""

from __future__ import annotations

from drumline.distribute.cluster_resolver import tf_config
from drumline.distribute.cluster_resolver.cluster_resolver import ClusterResolver
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec


class TFConfigClusterResolver(ClusterResolver):
    """Reads ``TF_CONFIG``, each time it is asked.

    As ``tf.distribute.cluster_resolver.TFConfigClusterResolver``::

        TF_CONFIG='{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
                    "task": {"type": "worker", "index": 0}}'

    Whatever is asked, the whole variable is checked, and `TFConfigError` (a ``ValueError``) says
    what is wrong with it. Without the variable the cluster is empty: a process of its own.

    Args:
        task_type: in place of the variable's.
        task_id: in place of the variable's.
        rpc_layer: in place of the variable's.
        environment: what `environment` answers.
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self._environment = environment

    def cluster_spec(self) -> ClusterSpec:
        """The cluster; empty if the variable names none.

        Raises:
            TFConfigError: if the variable is not what it should be.
        """
        return ClusterSpec(self._read().cluster)

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The address of a task, by default this one's; empty in a cluster of one task or none.

        Raises:
            TFConfigError: if the variable is not what it should be.
            ValueError: if the cluster has no such task.
        """
        config = self._read()
        if config.session_master is not None:
            return config.session_master
        if sum(len(tasks) for tasks in config.cluster.values()) <= 1:
            return ""
        return super().master(task_type, task_id, rpc_layer)

    @property
    def task_type(self) -> str | None:
        """This process's job; None if neither the variable nor an argument says."""
        return self._read().task.type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """This process's index within its job; None if neither says."""
        return self._read().task.index

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def environment(self) -> str | None:
        """What was given."""
        return self._environment

    @property
    def rpc_layer(self) -> str | None:
        """The protocol before ``://`` in `master`."""
        return self._read().rpc_layer if self._rpc_layer is None else self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer

    def _read(self) -> tf_config.TFConfig:
        return tf_config.read(self._task_type, self._task_id)
