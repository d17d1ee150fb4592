"""Which task of a cluster with parameter servers this process is, and what it does for training.

A cluster's chief leads; in one without, worker 0 does. All other workers and the servers serve it
until its program ends. The chief computes steps too, as in TensorFlow: it is worker 0 of the
cluster that it trains on. Where the strategy is the user's own, its workers are those of its
cluster.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

from drumline._forks import ForkSafeLock
from drumline.distribute import ParameterServerStrategy, Server
from drumline.distribute.cluster_resolver import ClusterSpec, SimpleClusterResolver
from drumline.estimator.config import RunConfig
from drumline.estimator.values import ModelValues

Input = Callable[[Any], Any]

_inputs: list[Input] = []
_led: dict[str, tuple[Server, ParameterServerStrategy]] = {}
_lock = ForkSafeLock()


def own_input() -> Input | None:
    """What makes this worker's dataset, if its own program says so."""
    return _inputs[-1] if _inputs else None


def trains_on_servers(config: RunConfig) -> bool:
    """Whether training is that of a cluster with parameter servers."""
    if config.train_distribute is None:
        return config.num_ps_replicas > 0
    return isinstance(config.train_distribute, ParameterServerStrategy)


def serves(config: RunConfig) -> bool:
    """Whether this task is a worker or a server of another one's training."""
    if config.task_type not in ("worker", "ps") or not trains_on_servers(config):
        return False
    if config.train_distribute is None:
        return not config.is_chief
    return not config.train_distribute.leads


def serve(config: RunConfig, run_input: Input) -> None:
    """Serve the chief until its program has ended.

    Args:
        config: says which task this is.
        run_input: makes this worker's dataset of an `InputContext`.

    Raises:
        ValueError: there is no chief.
    """
    strategy = config.train_distribute
    if strategy is None:
        cluster = _with_the_chief_as_worker(config)
        before = _trainers(config.cluster_spec)
        number = config.task_id
        if config.task_type == "worker":
            number = before.index(config.cluster_spec.task_address("worker", config.task_id))
    else:
        cluster, number = strategy.cluster_resolver.cluster_spec(), config.task_id
        if "chief" not in cluster.jobs:
            raise ValueError(
                f"The cluster {cluster!r} has no chief, which uses the ParameterServerStrategy: "
                "add the job 'chief' to TF_CONFIG, or leave out RunConfig(train_distribute=), so "
                "that worker 0 leads."
            )
    server = Server(cluster, config.task_type, number)
    _inputs.append(run_input)
    try:
        server.join()
    finally:
        _inputs.remove(run_input)


def leading_strategy(config: RunConfig, values: ModelValues) -> ParameterServerStrategy:
    """The strategy of this process, which leads: the user's, or the one of ``TF_CONFIG``'s cluster.

    The latter is made once. Workers and servers are let go when the program ends.
    """
    if config.train_distribute is not None:
        strategy: ParameterServerStrategy = config.train_distribute
        return strategy
    cluster = _with_the_chief_as_worker(config)
    key = f"{type(values).__name__} {cluster!r}"
    with _lock:
        if key not in _led:
            own = Server(cluster, "worker", 0)
            _led[key] = own, values.parameter_servers(SimpleClusterResolver(cluster))
            atexit.register(own.close)
        return _led[key][1]


def _trainers(cluster: ClusterSpec) -> list[str]:
    """The addresses of the tasks that compute steps, the leading one first."""
    jobs = [job for job in ("chief", "master", "worker") if job in cluster.jobs]
    return [str(address) for job in jobs for address in cluster.job_tasks(job)]


def _with_the_chief_as_worker(config: RunConfig) -> ClusterSpec:
    cluster = config.cluster_spec
    return ClusterSpec({"worker": _trainers(cluster), "ps": cluster.job_tasks("ps")})
