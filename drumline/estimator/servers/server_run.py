"""A run of a model_fn whose variables are on parameter servers, and whose steps workers make.

model_fn is traced on the chief, for each form of the batches, to make the workers' program; before
that its first call makes the variables, which is traced as well, or runs (`ModelValues`). Steps are
scheduled ahead, so that no worker waits for the chief, and never beyond the step at which the loop
is to pause: to save, or to end.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Any

import cloudpickle
import jax
import numpy as np

from drumline import distribute
from drumline._resumable import close_iterator
from drumline.distribute.parameter_server import ClosureCancelledError, OutOfRangeError
from drumline.distribute.parameter_server.coordinator.function import StepTracer
from drumline.estimator.hooks.session_hooks import step_tensors
from drumline.estimator.model_run import (
    ModelRun,
    RunInput,
    arguments_of,
    features_and_labels,
    of_32_bits,
)
from drumline.estimator.servers.tasks import own_input
from drumline.estimator.spec import hooks_of

_AHEAD = 8
"""How many steps a worker are scheduled before the first of them has ended."""


class ServerRun(ModelRun):
    """A `ModelRun` of training under a `ParameterServerStrategy`, for its chief.

    `batches` gives what steps have returned, in the order in which they were scheduled, and `step`
    what it says of loss and hooks.
    """

    runs_ahead = True
    _strategy: distribute.ParameterServerStrategy

    def _iterated(self) -> Iterator[Any]:
        """The chief's own batches, of which it looks at one."""
        return iter(self._input(distribute.InputContext(self._strategy.num_workers, 0, 1)))

    def _build(self, first: Any) -> None:
        self.graph.on_servers = True
        self.graph.settle = self._settle  # type: ignore[method-assign]
        close_iterator(self._batches)
        if self._values.traces_first_call:
            self._trace(first)
        else:
            self._run_once(first)
        self._coordinator = distribute.coordinator.ClusterCoordinator(self._strategy)
        self._pending: deque[Any] = deque()
        self._ended = False
        self._pause: int | None = None

    def _run_once(self, first: Any) -> None:
        local = self._values.map(self._values.on_host, first)
        with self._scope(), self.graph.build():
            self.spec = self._call(*features_and_labels(local))

    def _trace(self, first: Any) -> None:
        self.graph.is_traced = True
        leaves, structure = jax.tree.flatten(self._values.arrays(first))

        def model_call(batch: Any) -> Any:
            with self.graph.call():
                self.spec = self._call(*features_and_labels(batch))
            return self.spec.loss

        of_arrays = self._values.of_arrays(model_call)

        def traced(*arrays: Any) -> Any:
            return of_arrays(jax.tree.unflatten(structure, arrays))

        specs = [jax.ShapeDtypeStruct(np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves]
        StepTracer(self._strategy).trace(traced, specs, "model_fn")
        self.graph.built()

    def _step_function(self) -> Any:
        graph, values = self.graph, self._values

        def replica_step(features: Any, labels: Any = None) -> Any:
            before = of_32_bits(graph.global_step.value)
            with graph.call() as call:
                spec = self._call(features, labels)
            if values.counts_steps:
                graph.global_step.assign_add(1)
            watched = [step_tensors(hook, values) for hook in hooks_of(spec)]
            counted = of_32_bits(graph.global_step.value) - before
            return spec.loss, watched, call.summaries, counted

        def estimator_step(iterator: Any) -> Any:
            return self._strategy.run(replica_step, args=arguments_of(next(iterator)))

        return values.of_arrays(estimator_step)

    def batches(self) -> Iterator[Any]:
        """What the steps have returned, which are scheduled meanwhile."""
        self._coordinator.continues_at_end = True
        dataset = self._coordinator.create_per_worker_dataset(
            WorkerInput(self._input, self._values.arrays)
        )
        iterator = iter(dataset)
        while True:
            self._schedule(iterator)
            found = self._next()
            if found is None:
                return
            yield found

    def rest(self) -> Iterator[Any]:
        """What the steps return that have begun."""
        while (found := self._next()) is not None:
            yield found

    def step(self, batch: Any) -> Any:
        """The loss of a step; the hooks' values are its own."""
        loss, self._watched, self._summaries, counted = batch
        self._steps.begin(self._steps.now + int(counted))
        return loss

    def pause_at(self, step: int | None) -> None:
        self._pause = step

    def watched(self, hook: Any) -> list[Any] | None:
        """What a hook of model_fn's watches, of the last step."""
        for each, found in zip(hooks_of(self.spec), self._watched, strict=True):
            if each is hook:
                return list(found)
        return None

    def summaries(self) -> dict[str, Any]:
        """What model_fn has summaries of, by tag, of the last step."""
        return self._summaries

    def _schedule(self, iterator: Any) -> None:
        """Let workers make steps, so many that they do not wait, and none beyond the pause."""
        if self._ended:
            return
        self._set_rates()
        most = _AHEAD * self._strategy.num_workers
        if self._pause is not None:
            most = min(most, self._pause - self.global_step())
        try:
            while len(self._pending) < most:
                self._pending.append(self._coordinator.schedule(self._run, (iterator,)))
        except OutOfRangeError:
            self._ended = True

    def _next(self) -> Any:
        """What the next step has returned; None if none has begun."""
        while self._pending:
            value = self._pending.popleft()
            try:
                return value.fetch()
            except (OutOfRangeError, ClosureCancelledError):
                # All data have ended; steps after this one may have run still.
                if not self._ended:
                    self._ended = True
                    self._settle()
        return None

    def _settle(self) -> None:
        """Wait for the steps that have begun."""
        with contextlib.suppress(OutOfRangeError):
            self._coordinator.join()

    def _set_rates(self) -> None:
        """Give optimizers the learning rates that functions say at this step."""
        for optimizer, rate in self.graph.rates:
            value = float(np.asarray(self._values.as_numpy(rate())))
            if value != float(optimizer.learning_rate):
                optimizer.learning_rate = value


class WorkerInput:
    """The dataset of a worker: by its own program's input_fn, or else by the chief's, as sent.

    A worker whose program trains an Estimator has called `tasks.serve`: its function is its own,
    as in TensorFlow, and may use what cannot be sent.

    Args:
        run_input: the chief's.
        unwrap: gives the dataset of arrays.
    """

    def __init__(self, run_input: RunInput, unwrap: Any):
        self._run_input = run_input
        self._unwrap = unwrap

    def __call__(self, context: Any) -> Any:
        found = own_input() or self._run_input
        return self._unwrap(found(context))

    def __reduce__(self) -> Any:
        try:
            sent = cloudpickle.dumps((self._run_input, self._unwrap))
        except Exception as error:
            sent = str(error)
        return _received, (sent,)


class _UnsentInput:
    """What stands on a worker for an input_fn that could not be sent."""

    def __init__(self, error: str):
        self._error = error

    def __call__(self, context: Any) -> Any:
        raise TypeError(
            f"The chief's input_fn cannot be sent to this worker: {self._error}. Let this worker's "
            "program train the Estimator as well (dl.estimator.train_and_evaluate), so that it "
            "calls its own; or let input_fn open files itself, instead of using objects from "
            "outside of it."
        )


def _received(sent: Any) -> WorkerInput:
    if isinstance(sent, str):
        return WorkerInput(_UnsentInput(sent), lambda made: made)  # type: ignore[arg-type]
    run_input, unwrap = cloudpickle.loads(sent)
    config = run_input.options.get("config")
    if config is not None:
        run_input.options["config"] = config.of_this_task()
    return WorkerInput(run_input, unwrap)
