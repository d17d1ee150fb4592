"""How an Estimator runs."""

from __future__ import annotations

import copy
import os
from typing import Any

from drumline import distribute
from drumline.distribute.cluster_resolver import TFConfigClusterResolver
from drumline.distribute.parameter_server.strategy import ParameterServerStrategy

_UNSET = object()
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
        train_distribute: the strategy of `Estimator.train`.
        eval_distribute: that of `Estimator.evaluate`.

    Raises:
        ValueError: both ``save_checkpoints_steps`` and ``save_checkpoints_secs`` are given, or a
            number is negative.
        NotImplementedError: for a strategy of parameter servers, and for options that would have no
            effect.
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
        eval_distribute: Any = None,
    ):
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
        self._model_dir = None if model_dir is None else os.fspath(model_dir)
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
        resolver = TFConfigClusterResolver()
        self.cluster_spec = resolver.cluster_spec()
        alone = not self.cluster_spec.jobs
        self.task_type: str = "worker" if alone else resolver.task_type or "worker"
        self.task_id: int = 0 if alone else resolver.task_id or 0

    @property
    def model_dir(self) -> str | None:
        """Where checkpoints are."""
        return self._model_dir

    @property
    def in_cluster(self) -> bool:
        """Whether ``TF_CONFIG`` has a cluster."""
        return bool(self.cluster_spec.jobs)

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
        return sum(len(jobs.get(job, ())) for job in ("chief", "master", "worker")) or 1

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


def _check(strategy: Any) -> None:
    if strategy is None:
        return
    if isinstance(strategy, ParameterServerStrategy):
        raise NotImplementedError(
            "RunConfig: Estimators do not run on parameter servers here; use "
            "tf.distribute.MultiWorkerMirroredStrategy()."
        )
    if not isinstance(strategy, distribute.Strategy):
        raise TypeError(f"RunConfig: {strategy!r} is no strategy")
