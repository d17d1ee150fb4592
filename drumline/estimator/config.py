"""How an Estimator runs."""

from __future__ import annotations

import copy
import json
import os
from typing import Any

from drumline import distribute
from drumline.distribute.cluster_resolver import ClusterSpec, TFConfigClusterResolver

_UNSET = object()
_INSTEAD = {
    "device_fn": "strategies place variables; leave it out.",
    "protocol": "processes speak TCP; leave it out.",
    "experimental_distribute": "give train_distribute and eval_distribute.",
    "experimental_max_worker_delay_secs": "workers start together; leave it out.",
}
_REPLACEABLE = (
    "model_dir",
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "train_distribute",
    "eval_distribute",
)


class RunConfig:
    """How an Estimator runs, as ``tf.estimator.RunConfig``; the cluster is that of ``TF_CONFIG``.

    Args:
        model_dir: where checkpoints are.
        tf_random_seed: seeds the generators when `Estimator.train` begins.
        save_summary_steps: after how many steps the loss is written as a summary; 0 for never.
        save_checkpoints_steps: after how many steps a checkpoint is saved.
        save_checkpoints_secs: after how many seconds; 600 if neither is given; None for never.
        session_config: a ``tf.compat.v1.ConfigProto``; without effect.
        keep_checkpoint_max: how many checkpoints are kept; 0 or None for all.
        keep_checkpoint_every_n_hours: must be the default.
        log_step_count_steps: after how many steps the loss is logged; None for never.
        train_distribute: the strategy of `Estimator.train`. In a cluster with the job ``"ps"`` it
            may be left out: parameter servers keep the variables then.
        device_fn: must be None: strategies place variables.
        protocol: must be None: processes speak TCP.
        eval_distribute: that of `Estimator.evaluate`; with a `ParameterServerStrategy` the
            process that calls it evaluates, as in TensorFlow.
        experimental_distribute: must be None: give the strategies themselves.
        experimental_max_worker_delay_secs: must be None: workers start together.
        session_creation_timeout_secs: without effect: there are no sessions.
        checkpoint_save_graph_def: without effect: there is no graph.

    Raises:
        ValueError: both ``save_checkpoints_steps`` and ``save_checkpoints_secs`` are given, or a
            number is negative.
        NotImplementedError: for options that would have no effect.
    """

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int = 100,
        save_checkpoints_steps: Any = _UNSET,
        save_checkpoints_secs: Any = _UNSET,
        session_config: Any = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: int = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Any = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: float | None = None,
        session_creation_timeout_secs: float = 7200,
        checkpoint_save_graph_def: bool = True,
    ):
        for name, value in (
            ("device_fn", device_fn),
            ("protocol", protocol),
            ("experimental_distribute", experimental_distribute),
            ("experimental_max_worker_delay_secs", experimental_max_worker_delay_secs),
        ):
            if value is not None:
                raise NotImplementedError(f"RunConfig({name}=): {_INSTEAD[name]}")
        if save_checkpoints_steps is _UNSET and save_checkpoints_secs is _UNSET:
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        elif save_checkpoints_secs is _UNSET:
            save_checkpoints_secs = None
        elif save_checkpoints_steps is _UNSET:
            save_checkpoints_steps = None
        elif None not in (save_checkpoints_steps, save_checkpoints_secs):
            raise ValueError(
                "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be set at the same "
                "time."
            )
        for name, value in (
            ("save_checkpoints_steps", save_checkpoints_steps),
            ("save_checkpoints_secs", save_checkpoints_secs),
            ("keep_checkpoint_max", keep_checkpoint_max),
            ("log_step_count_steps", log_step_count_steps),
        ):
            if value is not None and value < (0 if name == "keep_checkpoint_max" else 1):
                raise ValueError(f"RunConfig: {name} should be > 0, not {value}")
        if keep_checkpoint_every_n_hours != 10000:
            raise NotImplementedError(
                "RunConfig(keep_checkpoint_every_n_hours=): the latest keep_checkpoint_max "
                "checkpoints are kept, or all of them with keep_checkpoint_max=None."
            )
        for strategy in (train_distribute, eval_distribute):
            _check(strategy)
        described = _described()
        self._model_dir = _directory(model_dir, described.get("model_dir"))
        self.service: dict[str, Any] | None = described.get("service")
        if self.service is not None and not isinstance(self.service, dict):
            raise TypeError(
                f'If "service" is set in TF_CONFIG, it must be a dict. Given {type(self.service)}'
            )
        self.session_creation_timeout_secs = session_creation_timeout_secs
        self.checkpoint_save_graph_def = checkpoint_save_graph_def
        self.tf_random_seed = tf_random_seed
        self.save_summary_steps = save_summary_steps
        self.save_checkpoints_steps = save_checkpoints_steps
        self.save_checkpoints_secs = save_checkpoints_secs
        self.session_config = session_config
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        self.train_distribute = train_distribute
        self.eval_distribute = eval_distribute
        self._read_task(described)

    def _read_task(self, described: dict[str, Any]) -> None:
        resolver = TFConfigClusterResolver()
        cluster = resolver.cluster_spec()
        self._in_cluster = bool(cluster.jobs)
        if self._in_cluster:
            _check_task(resolver.task_type, resolver.task_id)
        else:
            _check_alone(described.get("task") or {})
        self.task_type: str = resolver.task_type or "worker"
        self.task_id: int = resolver.task_id or 0
        self.global_id_in_cluster = self._global_id(cluster)
        # As in TensorFlow an evaluator is no part of the cluster that trains.
        self.cluster_spec = ClusterSpec({}) if self.task_type == "evaluator" else cluster

    def of_this_task(self) -> RunConfig:
        """The same for the task that ``TF_CONFIG`` says now, in another process than it was made.

        Without the variable it is this one: a worker that knows no task has its chief's.
        """
        described = _described()
        if not described.get("cluster"):
            return self
        made = copy.copy(self)
        made._read_task(described)
        return made

    @property
    def model_dir(self) -> str | None:
        """Where checkpoints are."""
        return self._model_dir

    @property
    def in_cluster(self) -> bool:
        """Whether ``TF_CONFIG`` has a cluster."""
        return self._in_cluster

    @property
    def is_chief(self) -> bool:
        """Whether this is the first of the workers, which saves checkpoints."""
        if "chief" in self.cluster_spec.jobs:
            return self.task_type == "chief"
        return self.task_type in ("worker", "master") and self.task_id == 0

    @property
    def num_ps_replicas(self) -> int:
        """How many parameter servers the cluster has."""
        return len(self.cluster_spec.as_dict().get("ps", ()))

    @property
    def num_worker_replicas(self) -> int:
        """How many processes train, the chief among them."""
        jobs = self.cluster_spec.as_dict()
        if self.task_type == "evaluator":
            return 0
        return sum(len(jobs.get(job, ())) for job in ("chief", "master", "worker")) or 1

    def _global_id(self, cluster: ClusterSpec) -> int | None:
        """The task's place among all: the chief first, parameter servers last."""
        if not self._in_cluster:
            return 0
        if self.task_type == "evaluator":
            return None

        def place(job: str) -> tuple[int, str]:
            return (0 if job in ("chief", "master") else 2 if job == "ps" else 1), job

        jobs = sorted(cluster.jobs, key=place)
        before = jobs[: jobs.index(self.task_type)]
        return sum(len(cluster.job_tasks(job)) for job in before) + self.task_id

    def replace(self, **kwargs: Any) -> RunConfig:
        """One like this, with other values for some options.

        Raises:
            ValueError: there is no such option.
        """
        unknown = kwargs.keys() - set(_REPLACEABLE)
        if unknown:
            raise ValueError(f"RunConfig.replace: no property {', '.join(sorted(unknown))}")
        made = copy.copy(self)
        steps = kwargs.get("save_checkpoints_steps")
        if steps is not None and kwargs.get("save_checkpoints_secs") is None:
            kwargs = {**kwargs, "save_checkpoints_secs": None}
        elif kwargs.get("save_checkpoints_secs") is not None:
            kwargs = {**kwargs, "save_checkpoints_steps": None}
        for name, value in kwargs.items():
            if name.endswith("_distribute"):
                _check(value)
            setattr(made, "_model_dir" if name == "model_dir" else name, value)
        return made


def _described() -> dict[str, Any]:
    """What ``TF_CONFIG`` says beside the cluster; the resolver refuses what is no JSON."""
    text = os.environ.get("TF_CONFIG", "").strip()
    TFConfigClusterResolver()
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def _directory(given: Any, described: str | None) -> str | None:
    directory = None if given is None else os.fspath(given)
    if directory == "":
        raise ValueError("model_dir should be non-empty.")
    if described == "":
        raise ValueError("model_dir in TF_CONFIG should be non-empty.")
    if directory and described and directory != described:
        raise ValueError(
            "`model_dir` provided in RunConfig construct, if set, must have the same value as the "
            f"model_dir in TF_CONFIG. model_dir: {directory}, TF_CONFIG['model_dir']: {described}"
        )
    return directory or described


def _check_task(task_type: str | None, task_id: int | None) -> None:
    if not task_type:
        raise ValueError('If "cluster" is set in TF_CONFIG, task type must be set.')
    if task_id is None:
        raise ValueError('If "cluster" is set in TF_CONFIG, task index must be set.')


def _check_alone(task: dict[str, Any]) -> None:
    if task.get("type", "worker") != "worker":
        raise ValueError('If "cluster" is not set in TF_CONFIG, task type must be WORKER.')
    if int(task.get("index", 0)) != 0:
        raise ValueError('If "cluster" is not set in TF_CONFIG, task index must be 0.')


def _check(strategy: Any) -> None:
    if strategy is None:
        return
    if not isinstance(strategy, distribute.Strategy):
        raise TypeError(f"RunConfig: {strategy!r} is no strategy")
