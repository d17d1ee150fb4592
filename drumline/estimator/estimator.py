"""``Estimator``: trains, evaluates and predicts with a model_fn, from checkpoints."""

from __future__ import annotations

import logging
import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from drumline import summary
from drumline.distribute import ParameterServerStrategy
from drumline.estimator.config import RunConfig
from drumline.estimator.hooks.session_hooks import Hooks
from drumline.estimator.model_run import ModelRun, RunInput
from drumline.estimator.servers.server_run import ServerRun
from drumline.estimator.servers.tasks import leading_strategy, serve, serves, trains_on_servers
from drumline.estimator.spec import ModeKeys, prediction_rows
from drumline.estimator.train_loop import TrainLoop, saved_step, saved_values
from drumline.estimator.values import ARRAYS, ModelValues
from drumline.estimator.warm_start import settings_of, warm_start
from drumline.training.checkpoint import index

_log = logging.getLogger("drumline")


class Estimator:
    """A model as a function, which is trained from checkpoint to checkpoint.

    As ``tf.estimator.Estimator``. Each of its methods starts from the latest checkpoint in
    ``model_dir``, if there is one.

    Args:
        model_fn: ``model_fn(features, labels, mode, params, config)``, of which all but the
            features may be left out; returns an `EstimatorSpec`. It is called when steps are
            traced, and must make the same variables each time.
        model_dir: where checkpoints are; by default that of the config, else a temporary one.
        config: a `RunConfig`, or a dictionary of its arguments.
        params: what model_fn and input_fn get if they take ``params``.
        warm_start_from: with whose values the first training begins: a checkpoint's path, a
            directory of some, or `WarmStartSettings`.

    Raises:
        ValueError: model_fn does not take features, two directories are given, or
            ``warm_start_from`` is something else.
    """

    values: ModelValues = ARRAYS

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        warm_start_from: Any = None,
    ):
        self._warm_start = settings_of(warm_start_from)
        if isinstance(config, Mapping):
            config = RunConfig(**config)
        config = RunConfig() if config is None else config
        if not isinstance(config, RunConfig):
            raise ValueError(f"config must be a RunConfig, not {config!r}")
        for strategy in (config.train_distribute, config.eval_distribute):
            if strategy is not None:
                self.values.check_strategy(strategy)
        chosen = None if model_dir is None else os.fspath(model_dir)
        if chosen and config.model_dir and chosen != config.model_dir:
            raise ValueError(
                "`model_dir` are set both in constructor and `RunConfig`, but with different "
                f"values. In constructor: {chosen!r}, in `RunConfig`: {config.model_dir!r}"
            )
        chosen = chosen or config.model_dir
        if not chosen:
            chosen = tempfile.mkdtemp()
            _log.warning("Using temporary folder as model directory: %s", chosen)
        self._model_fn = model_fn
        self._config = config.replace(model_dir=chosen)
        self._params = dict(params) if isinstance(params, Mapping) else params

    @property
    def model_dir(self) -> str:
        """Where checkpoints are."""
        found = self._config.model_dir
        assert found is not None
        return found

    @property
    def config(self) -> RunConfig:
        """How it runs."""
        return self._config

    @property
    def params(self) -> Any:
        """What model_fn gets as ``params``: a copy."""
        return dict(self._params) if isinstance(self._params, dict) else self._params

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The function."""
        return self._model_fn

    def latest_checkpoint(self) -> str | None:
        """The path of the latest checkpoint in `model_dir`; None if there is none."""
        return index.latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """The names of the variables in the latest checkpoint.

        Raises:
            ValueError: there is none.
        """
        return sorted(self._saved_values())

    def get_variable_value(self, name: str) -> np.ndarray:
        """The value of a variable in the latest checkpoint.

        Raises:
            ValueError: there is no checkpoint, or no such variable in it.
        """
        found = self._saved_values()
        if name not in found:
            raise ValueError(f"no variable {name!r}; there are {', '.join(sorted(found))}")
        return found[name]

    def eval_dir(self, name: str | None = None) -> str:
        """Where the summaries of `evaluate` are."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Iterable[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> Estimator:
        """Train from the latest checkpoint on, and save.

        With parameter servers the chief trains; workers and servers serve it until its program
        ends.

        Args:
            input_fn: gives a dataset of ``(features, labels)``; it may take ``mode``, ``params``,
                ``config`` and, under a strategy, ``input_context``. Each replica is given whole
                batches of it.
            hooks: `SessionRunHook`s.
            steps: how many steps more; by default until the data ends.
            max_steps: the global step at which it ends, counted from the first training.
            saving_listeners: `CheckpointSaverListener`s.

        Returns:
            This Estimator.

        Raises:
            ValueError: both ``steps`` and ``max_steps`` are given, or one is not positive.
            FloatingPointError: the loss is NaN.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for name, value in (("steps", steps), ("max_steps", max_steps)):
            if value is not None and value <= 0:
                raise ValueError(f"Must specify {name} > 0, given: {value}")
        if serves(self._config):
            options = {"params": self.params, "config": self._config}
            own = self.with_prepared_features(input_fn)
            serve(self._config, RunInput(own, ModeKeys.TRAIN, options, self.values))
            return self
        latest = self.latest_checkpoint()
        if max_steps is not None and latest is not None and saved_step(latest) >= max_steps:
            _log.info("Skipping training since max_steps has already saved.")
            return self
        if self._config.tf_random_seed is not None:
            keras.utils.set_random_seed(self._config.tf_random_seed)
        run = self._training_run(input_fn)
        chief = run.spec.training_chief_hooks if self._config.is_chief else ()
        all_hooks = Hooks(
            [*(hooks or ()), *run.spec.training_hooks, *chief],
            self.values,
            run.watched,
            run.read,
        )
        if latest is None and self._warm_start is not None:
            warm_start(self._warm_start, run.graph.variables, saved_values)
        loop = TrainLoop(run, self._config, all_hooks, saving_listeners or ())
        with run.graph.as_default():
            loop.run(latest, steps, max_steps)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """The mean loss and the metrics of the latest checkpoint.

        Args:
            input_fn: see `train`.
            steps: for how many batches; by default until the data ends.
            hooks: `SessionRunHook`s.
            checkpoint_path: of which checkpoint; by default the latest.
            name: of this evaluation's folder of summaries.

        Returns:
            The metrics by name, with ``loss`` and ``global_step``.

        Raises:
            ValueError: there is no checkpoint.
        """
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        path = checkpoint_path or self.latest_checkpoint()
        if path is None:
            raise ValueError(
                f"Could not find trained model in model_dir: {self.model_dir}; call train first."
            )
        return self._evaluate(input_fn, steps, hooks, name, lambda run: run.restore(path))

    def evaluate_with(
        self,
        values: Mapping[str, np.ndarray],
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """As `evaluate`, of variables' values by name in place of a checkpoint's."""
        return self._evaluate(input_fn, steps, hooks, name, lambda run: run.assign(values))

    def _evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None,
        hooks: Iterable[Any] | None,
        name: str | None,
        give: Callable[[ModelRun], None],
    ) -> dict[str, Any]:
        run = self._run(input_fn, ModeKeys.EVAL, self._config.eval_distribute)
        all_hooks = Hooks([*(hooks or ()), *run.spec.evaluation_hooks], self.values, run.watched)
        losses = []
        with run.graph.as_default():
            all_hooks.begin()
            give(run)
            all_hooks.started()
            for batch in run.batches():
                loss, stop = all_hooks.run(lambda batch=batch: run.step(batch))  # type: ignore[misc]
                losses.append(loss)
                if stop or len(losses) == steps:
                    break
            all_hooks.end()
        metrics = run.spec.eval_metric_ops
        found = {
            metric: np.float32(self.values.as_numpy(value.result()))
            for metric, value in metrics.items()
        }
        found["loss"] = np.float32(np.mean([float(loss) for loss in losses]))
        step = run.global_step()
        self._write_summaries(found, step, name)
        _log.info("Saving dict for global step %d: %s", step, found)
        return dict(sorted({**found, "global_step": np.int64(step)}.items()))

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """The predictions for each row, of the latest checkpoint, or of new variables.

        Args:
            input_fn: gives a dataset of features; labels are passed over.
            predict_keys: which of a dictionary of predictions; by default all.
            hooks: `SessionRunHook`s.
            checkpoint_path: of which checkpoint; by default the latest.
            yield_single_examples: whether to give rows; else batches.

        Returns:
            An iterator of numpy's arrays, or of dictionaries of them.
        """
        path = checkpoint_path or self.latest_checkpoint()
        if path is None:
            _log.info(
                "Could not find trained model in model_dir: %s, running initialization to predict.",
                self.model_dir,
            )
        run = self._run(input_fn, ModeKeys.PREDICT, None)
        prediction_rows(run.spec.predictions, predict_keys)
        all_hooks = Hooks([*(hooks or ()), *run.spec.prediction_hooks], self.values, run.watched)
        with run.graph.as_default():
            all_hooks.begin()
            run.restore(path)
            all_hooks.started()
        for batch in run.batches():
            with run.graph.as_default():
                found, stop = all_hooks.run(lambda batch=batch: run.step(batch))  # type: ignore[misc]
            values = self.values.map(self.values.as_numpy, prediction_rows(found, predict_keys))
            if yield_single_examples:
                yield from self._rows(values)
            else:
                yield values
            if stop:
                break
        with run.graph.as_default():
            all_hooks.end()

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Write a model for serving into a new directory; ``tf.estimator.Estimator`` does.

        Raises:
            NotImplementedError: it is an Estimator of ``dl.estimator``.
        """
        raise NotImplementedError(
            "Estimators of dl.estimator write no saved models: use tf.estimator.Estimator of "
            "drumline.compat, or keep the model in a keras.Model and use its export method."
        )

    def with_prepared_features(self, input_fn: Callable[..., Any]) -> Callable[..., Any]:
        """An input_fn that gives what the step takes: here the same."""
        return input_fn

    def _run(self, input_fn: Callable[..., Any], mode: str, strategy: Any) -> ModelRun:
        # As TensorFlow's, evaluations beside parameter servers are those of one process.
        if isinstance(strategy, ParameterServerStrategy):
            strategy = None
        input_fn = self.with_prepared_features(input_fn)
        made = ModelRun(
            self._model_fn, input_fn, mode, strategy, self.params, self._config, self.values
        )
        self._begin(made)
        return made

    def _begin(self, run: ModelRun) -> None:
        """Give a run's variables what they begin with, but for those of model_fn: nothing here."""

    def _training_run(self, input_fn: Callable[..., Any]) -> ModelRun:
        config = self._config
        if not trains_on_servers(config):
            return self._run(input_fn, ModeKeys.TRAIN, config.train_distribute)
        strategy = leading_strategy(config, self.values)
        input_fn = self.with_prepared_features(input_fn)
        made = ServerRun(
            self._model_fn, input_fn, ModeKeys.TRAIN, strategy, self.params, config, self.values
        )
        self._begin(made)
        return made

    def _saved_values(self) -> dict[str, np.ndarray]:
        path = self.latest_checkpoint()
        if path is None:
            raise ValueError(f"Couldn't find trained model at {self.model_dir}.")
        return saved_values(path)

    def _write_summaries(self, found: Mapping[str, Any], step: int, name: str | None) -> None:
        if not self._config.is_chief and self._config.task_type != "evaluator":
            return
        writer = summary.create_file_writer(self.eval_dir(name))
        with writer.as_default():
            for metric, value in found.items():
                # A metric of several thresholds is an array.
                kind = summary.write if np.ndim(value) else summary.scalar
                kind(metric, value, step=step)
        writer.close()

    def _rows(self, values: Any) -> Iterator[Any]:
        sizes: list[int] = []
        self.values.map(lambda leaf: sizes.append(len(leaf)), values)
        if len(set(sizes)) != 1:
            raise ValueError(
                f"Predictions of one batch have different numbers of rows: {sizes}; pass "
                "yield_single_examples=False."
            )
        for row in range(sizes[0]):
            yield self.values.map(operator.itemgetter(row), values)
