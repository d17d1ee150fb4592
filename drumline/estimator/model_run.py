"""One run of a model_fn over an input: its variables, its batches, and its compiled step."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from drumline import train
from drumline.estimator.graph import ModelGraph
from drumline.estimator.hooks.session_hooks import SessionRunHook, step_tensors
from drumline.estimator.spec import EstimatorSpec, ModeKeys, hooks_of
from drumline.estimator.values import ModelValues
from drumline.training.checkpoint.snapshot import find as found_objects

_NEEDED = {
    ModeKeys.TRAIN: "a loss and a train_op",
    ModeKeys.EVAL: "a loss",
    ModeKeys.PREDICT: "predictions",
}


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
        runs_ahead: whether steps beyond the one that is given begin by themselves: the loop has
            to call `pause_at`.

    Raises:
        TypeError: a function takes something else, or returns none of what it should.
        ValueError: the input is empty.
    """

    runs_ahead = False

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
        self._input = RunInput(input_fn, mode, self._options, values)
        with self._scope():
            self.graph = ModelGraph(mode, values)
        batches = self._iterated()
        first = next(batches, None)
        if first is None:
            raise ValueError(f"{_name(input_fn)} gives no batch: the dataset is empty")
        self._batches = itertools.chain([first], batches)
        self.spec: EstimatorSpec
        self._sums_loss = False
        self._build(first)
        self._run = self._step_function()
        saver = self.spec.scaffold.saver
        self.checkpoint: Any = saver or train.Checkpoint(variables=self._saved())
        self.graph.checkpoint = self.checkpoint
        self.graph.keep_checkpoints = config.keep_checkpoint_max or None
        self.graph.spans_processes = strategy is not None and strategy.spans_processes
        self._watched: list[list[Any]] = []
        self._summaries: dict[str, Any] = {}
        self._steps = StepCount()
        self._step_dtype = np.dtype(self.graph.global_step.dtype)

    def _build(self, first: Any) -> None:
        """Call model_fn for the first time, which makes its variables."""
        strategy, values = self._strategy, self._values
        # Of the host: variables may be on several devices.
        local = first if strategy is None else strategy.experimental_local_results(first)[0]
        local = values.map(values.on_host, local)
        with self._scope(), self.graph.build() as call:
            self.spec = self._call(*features_and_labels(local))
        # As in TensorFlow, evaluations give the mean of the replicas' losses, whatever they are.
        self._sums_loss = call.sums_loss and self._mode == ModeKeys.TRAIN

    def batches(self) -> Iterator[Any]:
        """The batches, the first one too."""
        return self._batches

    def pause_at(self, step: int | None) -> None:
        """Begin no step beyond a global step, where it `runs_ahead`; None for no limit."""

    def rest(self) -> Iterator[Any]:
        """The batches whose steps have begun, of those that `batches` has not given."""
        return iter(())

    def step(self, batch: Any) -> Any:
        """Run a step; the loss of all replicas, or the predictions."""
        outputs = self._run(batch)
        if type(outputs) is not tuple:  # the loss alone
            outputs = outputs, [], {}, None
        found, self._watched, self._summaries, counted = outputs
        if self._strategy is None:
            self._count(counted)
            return found
        self._count(
            None if counted is None else self._strategy.experimental_local_results(counted)[0]
        )
        return self._strategy.reduce("SUM" if self._sums_loss else "MEAN", found, axis=None)

    def _count(self, counted: Any) -> None:
        if counted is not None:
            self._steps.add(counted)
        elif self._mode == ModeKeys.TRAIN and self._values.counts_steps:
            self._steps.now += 1

    def watched(self, hook: SessionRunHook) -> list[Any] | None:
        """What a hook of model_fn's watches, of the last step and the first replica."""
        for each, found in zip(hooks_of(self.spec), self._watched, strict=True):
            if each is hook:
                if self._strategy is None:
                    return found
                return [self._strategy.experimental_local_results(one)[0] for one in found]
        return None

    def summaries(self) -> dict[str, Any]:
        """What model_fn has summaries of, by tag: of the last step and the first replica."""
        if self._strategy is None:
            return self._summaries
        local = self._strategy.experimental_local_results
        return {tag: local(value)[0] for tag, value in self._summaries.items()}

    def global_step(self) -> int:
        """How many steps were made, as `StepCount` knows without waiting for the last of them."""
        return self._steps.now

    def count_steps(self) -> int:
        """How many steps were made, as the variable says: it waits for them."""
        self._steps.begin(int(self._values.as_numpy(self.graph.global_step)))
        return self._steps.now

    def read(self, variable: Any) -> np.ndarray:
        """A variable's value after the step of the last batch, for hooks."""
        if variable is self.graph.global_step:
            return np.asarray(self._steps.now, self._step_dtype)
        return self._values.as_numpy(variable)

    def assign(self, values: Mapping[str, Any]) -> None:
        """Give the variables that checkpoints hold their values, by name; others stay."""
        for name, variable in self._saved().items():
            if name in values:
                variable.assign(values[name])
        self.count_steps()

    def restore(self, path: str | None) -> None:
        """Give variables their values of a checkpoint; None has them begin.

        Raises:
            ValueError: it has no value for a variable, or one of another shape.
        """
        if path is None:
            if self.spec.scaffold.init_fn is not None:
                self.spec.scaffold.init_fn(None)
            self.count_steps()
            return
        self._check_saver(path)
        status = self.checkpoint.restore(path)
        try:
            status.assert_existing_objects_matched()
        except AssertionError as error:
            raise ValueError(
                f"The checkpoint {path} is of another model: {error}. Choose an empty model_dir, "
                "or the model_fn that it was saved with."
            ) from None
        status.expect_partial()
        self.count_steps()

    def _check_saver(self, path: str) -> None:
        """Check that a scaffold's saver restores all variables that checkpoints hold."""
        if self.spec.scaffold.saver is None:
            return
        held = found_objects({"saver": self.checkpoint}).variables.values()
        ids = {id(each) for each in held}
        left = [name for name, each in self._saved().items() if id(each) not in ids]
        if left:
            raise ValueError(
                f"The saver of the scaffold has no {', '.join(left)}: training and evaluation "
                f"cannot continue from {path}. Give the objects that hold them to the "
                "tf.train.Checkpoint, the global step and the optimizer among them."
            )

    def saved_variables(self) -> dict[str, Any]:
        """The variables that checkpoints hold, by name."""
        return self._saved()

    def predicted(self, features: Any) -> EstimatorSpec:
        """What model_fn returns for features, for whoever traces it."""
        with self.graph.call():
            return self._call(features, None)

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
                f"{type(found).__name__}: it was called for the mode {self._mode!r}, and has to "
                f"give {_NEEDED[self._mode]} for it."
            )
        if found.mode != self._mode:
            raise ValueError(
                f"{_name(self._model_fn)} returned an EstimatorSpec for the mode {found.mode!r}, "
                f"and was called for {self._mode!r}: let it take the argument `mode`, and pass it "
                "on to EstimatorSpec."
            )
        hooks = len(hooks_of(found))
        if not self.graph.is_building and hooks != len(hooks_of(self.spec)):
            raise ValueError(
                f"{_name(self._model_fn)} returned {hooks} hook(s) in its EstimatorSpec, and "
                f"{len(hooks_of(self.spec))} at its first call: it must return the same at each "
                "call. What is to vary from step to step belongs into the hooks themselves."
            )
        return found

    def _step_function(self) -> Callable[[Any], Any]:
        graph, mode = self.graph, self._mode

        def estimator_step(features: Any, labels: Any = None) -> Any:
            before = graph.global_step.value
            with graph.call() as call:
                spec = self._call(features, labels)
            after = graph.global_step.value
            if mode != ModeKeys.TRAIN and after is not before:
                # In a graph nothing runs what counts steps, unless it is for training.
                graph.global_step.assign(before)
                after = before
            # What is known while tracing is none of the step's results.
            counted = None if after is before else of_32_bits(after) - of_32_bits(before)
            if mode == ModeKeys.TRAIN and self._values.counts_steps:
                graph.global_step.assign_add(1)
                counted = None if counted is None else counted + 1
            watched = [step_tensors(hook, self._values) for hook in hooks_of(spec)]
            found = spec.predictions if mode == ModeKeys.PREDICT else spec.loss
            if mode == ModeKeys.TRAIN and not (watched or call.summaries or counted is not None):
                return found  # taking a structure apart costs each step some microseconds
            return found, watched, call.summaries, counted

        if self._strategy is None:
            compiled = self._values.compiled(estimator_step)
            return lambda batch: compiled(*arguments_of(batch))
        return lambda batch: self._strategy.run(estimator_step, args=arguments_of(batch))

    def _iterated(self) -> Iterator[Any]:
        if self._strategy is None:
            return iter(self._input(None))

        def made(context: Any) -> Any:
            return self._input(context)

        return iter(self._strategy.distribute_datasets_from_function(made))


def of_32_bits(count: Any) -> Any:
    """A count as the int32 that devices subtract."""
    return jax.lax.convert_element_type(count, np.int32)


class StepCount:
    """The global step, without a wait for the step that a device makes.

    Steps add what the first of them has added, as they do but for a model_fn that counts some of
    its steps alone. What each has added is looked at when the next one has begun; once it was
    something else, each is waited for.

    Attributes:
        now: the global step.
    """

    def __init__(self) -> None:
        self.now = 0
        self._each: int | None = None
        self._differ = False
        self._last: Any = None

    def begin(self, step: int) -> None:
        """Count from a step that is known."""
        self.now = step
        self._last = None

    def add(self, counted: Any) -> None:
        """Count a step that has begun, and gives what it adds: an array of a device's."""
        if self._each is None or self._differ:
            self._check()
            self._each = int(counted)
            self.now += self._each
            return
        self._check()
        self.now += self._each
        self._last = counted

    def _check(self) -> None:
        if self._last is None or self._each is None:
            return
        error, self._last = int(self._last) - self._each, None
        self.now += error
        self._differ = self._differ or error != 0


class RunInput:
    """The dataset of a run, made by the user's function: ``run_input(input_context)``.

    Args:
        input_fn: the user's.
        mode: one of `ModeKeys`.
        options: what it gets by name, if it takes it.
        values: what the dataset is of.
    """

    def __init__(
        self,
        input_fn: Callable[..., Any],
        mode: str,
        options: Mapping[str, Any],
        values: ModelValues,
    ):
        self.input_fn = input_fn
        self.mode = mode
        self.options = dict(options)
        self.values = values

    def __call__(self, context: Any) -> Any:
        """The dataset of a pipeline; values are those of every step, as in a graph.

        Raises:
            TypeError: the function returned something else.
        """
        names = _parameters(self.input_fn)
        given = {name: value for name, value in self.options.items() if name in names}
        if "mode" in names:
            given["mode"] = self.mode
        if "input_context" in names and context is not None:
            given["input_context"] = context
        made = self.values.called_input(functools.partial(self.input_fn, **given))
        found = self.values.dataset(made)
        if found is None:
            raise TypeError(
                f"{_name(self.input_fn)} must return a Dataset, or the values of every step as "
                f"(features, labels), not {type(made).__name__}"
            )
        return found


def features_and_labels(batch: Any) -> tuple[Any, Any]:
    """A batch's features, and its labels or None.

    Raises:
        ValueError: it has more parts.
    """
    if isinstance(batch, (tuple, list)):
        if len(batch) != 2:
            raise ValueError(
                f"input_fn should return (features, labels) as a len 2 tuple, not {len(batch)}"
            )
        return batch[0], batch[1]
    return batch, None


def arguments_of(batch: Any) -> tuple[Any, ...]:
    """What a step gets of a batch: features, and labels if there are some."""
    features, labels = features_and_labels(batch)
    return (features,) if labels is None else (features, labels)


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
