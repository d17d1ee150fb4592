"""Joining the processes of a cluster, as ``tf.config`` names it.

What joins them is `drumline.distribute`'s, which registers it here: settings know no strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumline.distribute.cluster_resolver import ClusterResolver, ClusterSpec

_connect: Callable[..., None] | None = None


def register_connector(connect: Callable[..., None]) -> None:
    """Let `experimental_connect_to_cluster` use `connect`, which joins a cluster's processes."""
    global _connect
    _connect = connect


def experimental_connect_to_cluster(
    cluster_spec_or_resolver: ClusterSpec | ClusterResolver,
    job_name: str | None = None,
    task_index: int | None = None,
) -> None:
    """Join the processes of a cluster, as a strategy over several processes does when it is made.

    Follows ``tf.config.experimental_connect_to_cluster``, for scripts that run in every process:
    JAX has no remote devices. It comes before anything computes, as such a strategy does, and need
    not be called. Joining the same cluster again does nothing; nor does joining one of a single
    process. A cluster with parameter servers is left to `ParameterServerStrategy`: its processes
    compute no steps together.

    Args:
        cluster_spec_or_resolver: the cluster, as ``TPUClusterResolver()``.
        job_name: this process's job, for a `ClusterSpec`, which does not say it.
        task_index: likewise, its index in this job.

    Raises:
        RuntimeError: if JAX has started already, or the others do not come in time.
        TPUNotFoundError: for a TPU's machines where JAX has no TPU support.
        TypeError: if the first argument is no cluster.
        ValueError: if it is not said which task this is, or the cluster is none to compute with.

    Example:
        >>> alone = dl.distribute.cluster_resolver.ClusterSpec({"worker": ["10.0.0.1:2222"]})
        >>> dl.config.experimental_connect_to_cluster(alone, "worker", 0)
    """
    if _connect is None:  # who has a cluster has imported `drumline.distribute`
        raise TypeError(
            "experimental_connect_to_cluster takes a ClusterSpec or a ClusterResolver of "
            f"drumline.distribute.cluster_resolver, got {cluster_spec_or_resolver!r}"
        )
    _connect(cluster_spec_or_resolver, job_name, task_index)
