"""What every cluster resolver answers."""

from __future__ import annotations

import abc
from collections import Counter
from typing import Any

import jax

from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec


class ClusterResolver(abc.ABC):
    """Finds out which processes make up the cluster, and which of them this one is.

    As ``tf.distribute.cluster_resolver.ClusterResolver``. A subclass says `cluster_spec`,
    and sets ``_task_type``, ``_task_id`` and ``_rpc_layer`` where they apply.
    """

    _task_type: str | None = None
    _task_id: int | None = None
    _rpc_layer: str | None = None

    @abc.abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """The cluster as it is now; asked anew each time."""

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The address of a task, by default this one's, as ``"grpc://host:port"``.

        Empty if neither is known. Only scripts of TensorFlow's first version need it.

        Raises:
            ValueError: if the cluster has no such task.
        """
        job = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else task_id
        if job is None or index is None:
            return ""
        return master_url(self.cluster_spec().task_address(job, index), rpc_layer or self.rpc_layer)

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: object = None,
    ) -> dict[str, int]:
        """This process's accelerators by type, as ``{"GPU": 8}``; CPUs are none.

        It starts JAX, so it comes after the strategy is created.

        Args:
            task_type: None, or this process's own task: of others it is not known here.
            task_id: likewise.
            config_proto: unused.

        Raises:
            ValueError: if asked of another task.
        """
        asked = (task_type, task_id)
        if asked != (None, None) and asked != (self.task_type, self.task_id):
            raise ValueError(
                f"The accelerators of {task_type}:{task_id} are known to that task only; this "
                f"one is {self.task_type}:{self.task_id}."
            )
        kinds = Counter(device.platform.upper() for device in jax.local_devices())
        return {kind: count for kind, count in kinds.items() if kind != "CPU"}

    @property
    def environment(self) -> str | None:
        """Always ``""`` but where a subclass was told otherwise."""
        return ""

    @property
    def task_type(self) -> str | None:
        """This process's job: chief, worker, ps or evaluator; None if unknown."""
        return self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """This process's index within its job; None if unknown."""
        return self._task_id

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> str | None:
        """The protocol before ``://`` in `master`; nothing else follows from it."""
        return self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer


def master_url(address: str, rpc_layer: Any) -> str:
    """``"grpc://host:port"``, or the address alone without a protocol."""
    return f"{rpc_layer}://{address}" if rpc_layer else address
