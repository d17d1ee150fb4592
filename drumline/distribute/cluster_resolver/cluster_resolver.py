"""`ClusterResolver`, the base of all resolvers, a resolver of a given cluster, and a union."""

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
        """Return the cluster as it is now; it is asked for at each call."""

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
        """Return ``""``, unless a subclass was given another environment."""
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


class UnionResolver(ClusterResolver):
    """The clusters of several resolvers taken together; all else is the first one's.

    As ``tf.distribute.cluster_resolver.UnionResolver``.

    Args:
        *args: the resolvers.
        task_type: in place of the first resolver's.
        task_id: in place of the first resolver's.
        rpc_layer: in place of the first resolver's.

    Raises:
        TypeError: if an argument is not a `ClusterResolver`.
        ValueError: if there is none.
    """

    def __init__(
        self,
        *args: ClusterResolver,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not args:
            raise ValueError("UnionResolver needs at least one ClusterResolver")
        for resolver in args:
            if not isinstance(resolver, ClusterResolver):
                raise TypeError(
                    f"UnionResolver takes ClusterResolvers, got {type(resolver).__name__}"
                )
        self._resolvers = args
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """The union of the clusters.

        Lists of a job's addresses are put one after another. Where one resolver knows only some
        indices of a job, the others' must be different ones.

        Raises:
            KeyError: if two resolvers give an address for the same index of such a job.
        """
        merged: dict[str, Any] = {}
        clusters = [resolver.cluster_spec().as_dict() for resolver in self._resolvers]
        for job in dict.fromkeys(job for cluster in clusters for job in cluster):
            tasks = [cluster[job] for cluster in clusters if job in cluster]
            merged[job] = _merged(job, tasks)
        return ClusterSpec(merged)

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The named task's address; without a task, the first resolver's master.

        Raises:
            ValueError: if the cluster has no such task.
        """
        if task_type is not None and task_id is not None:
            address = self.cluster_spec().task_address(task_type, task_id)
            return master_url(address, rpc_layer or self._rpc_layer)
        return self._resolvers[0].master(rpc_layer=rpc_layer)

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: object = None,
    ) -> dict[str, int]:
        """What the first resolver says."""
        return self._resolvers[0].num_accelerators(task_type, task_id, config_proto)

    @property
    def environment(self) -> str | None:
        """What the first resolver says."""
        return self._resolvers[0].environment

    @property
    def task_type(self) -> str | None:
        """What was given, else what the first resolver says."""
        return self._resolvers[0].task_type if self._task_type is None else self._task_type

    @task_type.setter
    def task_type(self, task_type: str | None) -> None:
        self._task_type = task_type

    @property
    def task_id(self) -> int | None:
        """What was given, else what the first resolver says."""
        return self._resolvers[0].task_id if self._task_id is None else self._task_id

    @task_id.setter
    def task_id(self, task_id: int | None) -> None:
        self._task_id = task_id

    @property
    def rpc_layer(self) -> str | None:
        """What was given, else what the first resolver says."""
        return self._rpc_layer or self._resolvers[0].rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, rpc_layer: str | None) -> None:
        self._rpc_layer = rpc_layer


def _merged(job: str, parts: list[list[str] | dict[int, str]]) -> Any:
    if all(isinstance(part, list) for part in parts):
        return [address for part in parts for address in part]
    tasks: dict[int, str] = {}
    for part in parts:
        more = dict(enumerate(part)) if isinstance(part, list) else part
        both = set(tasks) & set(more)
        if both:
            raise KeyError(
                f"Two of the resolvers give addresses for the same tasks of job {job!r}: "
                f"{sorted(both)}"
            )
        tasks |= more
    return tasks


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
