"""Several resolvers as one."""

from __future__ import annotations

from typing import Any

from drumline.distribute.cluster_resolver.cluster_resolver import ClusterResolver, master_url
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec


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
