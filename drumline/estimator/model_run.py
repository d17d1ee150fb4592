"""One run of a model_fn over an input: its variables, its batches, and its compiled step."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drumline import train
from drumline.estimator.graph import ModelGraph
from drumline.estimator.hooks import SessionRunHook, step_tensors
from drumline.estimator.spec import EstimatorSpec, ModeKeys, hooks_of
from drumline.estimator.values import ModelValues


class ModelRun:
    """A model_fn with the variables, batches and step of one mode.

    Args:
        model_fn: the user's.
        input_fn: gives a dataset, or the features and labels of every step.
        mode: one of `ModeKeys`.
        strategy: on whose replicas steps run; None for this process alone.
        params: what functions get that take ``params``.
        config: what functions get that take ``config``.
        values: what it computes with.

    Attributes:
        graph: the variables.
        spec: what the first call of model_fn returned.

    Raises:
        TypeError: a function takes something else, or returns none of what it should.
        ValueError: the input is empty.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        input_fn: Callable[..., Any],
        mode: str,
        strategy: Any,
        params: Any,
        config: Any,
        values: ModelValues,
    ):
        self._values = values
        self._model_fn = model_fn
        self._mode = mode
        self._strategy = strategy
        self._options = {"params": params, "config": config}
        with self._scope():
            self.graph = ModelGraph(mode, values)
        batches = self._batches_of(input_fn)
        first = next(batches, None)
        if first is None:
            raise ValueError(f"{_name(input_fn)} gives no batch: the dataset is empty")
        self._batches = itertools.chain([first], batches)
        # Of the host: variables may be on several devices.
        local = first if strategy is None else strategy.experimental_local_results(first)[0]
        local = values.map(values.on_host, local)
        with self._scope(), self.graph.build() as call:
            self.spec: EstimatorSpec = self._call(*_features_and_labels(local))
        # As in TensorFlow, evaluations give the mean of the replicas' losses, whatever they are.
        self._sums_loss = call.sums_loss and mode == ModeKeys.TRAIN
        self._run = self._step_function()
        self.checkpoint = train.Checkpoint(variables=self._saved())
        self.graph.checkpoint = self.checkpoint
        self.graph.keep_checkpoints = config.keep_checkpoint_max or None
        self.graph.spans_processes = strategy is not None and strategy.spans_processes
        self._watched: list[list[Any]] = []

    def batches(self) -> Iterator[Any]:
        """The batches, the first one too."""
        return self._batches

    def step(self, batch: Any) -> Any:
        """Run a step; the loss of all replicas, or the predictions."""
        found, self._watched = self._run(batch)
        if self._strategy is None:
            return found
        return self._strategy.reduce("SUM" if self._sums_loss else "MEAN", found, axis=None)

    def watched(self, hook: SessionRunHook) -> list[Any] | None:
        """What a hook of model_fn's watches, of the last step and the first replica."""
        for each, found in zip(hooks_of(self.spec), self._watched, strict=True):
            if each is hook:
                if self._strategy is None:
                    return found
                return [self._strategy.experimental_local_results(one)[0] for one in found]
        return None

    def global_step(self) -> int:
        """How many steps were made."""
        return int(self._values.as_numpy(self.graph.global_step))

    def assign(self, values: Mapping[str, Any]) -> None:
        """Give the variables that checkpoints hold their values, by name; others stay."""
        for name, variable in self._saved().items():
            if name in values:
                variable.assign(values[name])

    def restore(self, path: str | None) -> None:
        """Give variables their values of a checkpoint; None leaves them as they are.

        Raises:
            ValueError: it has no value for a variable, or one of another shape.
        """
        if path is None:
            return
        status = self.checkpoint.restore(path)
        try:
            status.assert_existing_objects_matched()
        except AssertionError as error:
            raise ValueError(
                f"The checkpoint {path} is of another model: {error}. Choose an empty model_dir, "
                "or the model_fn that it was saved with."
            ) from None
        status.expect_partial()

    def _saved(self) -> dict[str, Any]:
        """The variables that checkpoints hold: not those of metrics."""
        found, local = self.graph.variables, self.graph.local
        return {name: each for name, each in found.items() if id(each) not in local}

    def _scope(self) -> Any:
        return contextlib.nullcontext() if self._strategy is None else self._strategy.scope()

    def _call(self, features: Any, labels: Any) -> EstimatorSpec:
        """Call model_fn with what it takes."""
        names = _parameters(self._model_fn)
        given = {name: value for name, value in self._options.items() if name in names}
        if "mode" in names:
            given["mode"] = self._mode
        if "labels" in names:
            given["labels"] = labels
        elif labels is not None and self._mode != ModeKeys.PREDICT:
            raise ValueError(
                f"{_name(self._model_fn)} does not take labels, but input_fn returns labels."
            )
        found = self._model_fn(features, **given)
        if not isinstance(found, EstimatorSpec):
            raise ValueError(
                f"{_name(self._model_fn)} should return an EstimatorSpec, not "
                f"{type(found).__name__}"
            )
        if found.mode != self._mode:
            raise ValueError(
                f"{_name(self._model_fn)} returned an EstimatorSpec for the mode {found.mode!r}, "
                f"and was called for {self._mode!r}"
            )
        return found

    def _step_function(self) -> Callable[[Any], Any]:
        graph, mode = self.graph, self._mode

        def estimator_step(features: Any, labels: Any = None) -> Any:
            with graph.call():
                spec = self._call(features, labels)
            if mode == ModeKeys.TRAIN and self._values.counts_steps:
                graph.global_step.assign_add(1)
            watched = [step_tensors(hook, self._values) for hook in hooks_of(spec)]
            return spec.predictions if mode == ModeKeys.PREDICT else spec.loss, watched

        if self._strategy is None:
            compiled = self._values.compiled(estimator_step)
            return lambda batch: compiled(*_arguments(batch))
        return lambda batch: self._strategy.run(estimator_step, args=_arguments(batch))

    def _batches_of(self, input_fn: Callable[..., Any]) -> Iterator[Any]:
        if self._strategy is None:
            return iter(self._dataset(self._input(input_fn, None), input_fn))

        def made(context: Any) -> Any:
            return self._dataset(self._input(input_fn, context), input_fn)

        return iter(self._strategy.distribute_datasets_from_function(made))

    def _input(self, input_fn: Callable[..., Any], context: Any) -> Any:
        names = _parameters(input_fn)
        given = {name: value for name, value in self._options.items() if name in names}
        if "mode" in names:
            given["mode"] = self._mode
        if "input_context" in names and context is not None:
            given["input_context"] = context
        return input_fn(**given)

    def _dataset(self, made: Any, input_fn: Callable[..., Any]) -> Any:
        """The dataset that an input_fn gives; values are those of every step, as in a graph."""
        found = self._values.dataset(made)
        if found is None:
            raise TypeError(
                f"{_name(input_fn)} must return a Dataset, or the values of every step as "
                f"(features, labels), not {type(made).__name__}"
            )
        return found


def _features_and_labels(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, (tuple, list)):
        if len(batch) != 2:
            raise ValueError(
                f"input_fn should return (features, labels) as a len 2 tuple, not {len(batch)}"
            )
        return batch[0], batch[1]
    return batch, None


def _arguments(batch: Any) -> tuple[Any, ...]:
    features, labels = _features_and_labels(batch)
    return (features,) if labels is None else (features, labels)


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
