"""`fit`, `evaluate` and `predict` on parameter servers: steps are scheduled ahead on the workers.

`run_epoch` schedules the steps of one epoch and reports them in order; the three loops differ in
the steps they run and in what they do with results. `on_servers` chooses them for Keras's methods.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import keras
import numpy as np

from drumline import _recorder
from drumline.distribute.parameter_server.coordinator import ClusterCoordinator, RemoteValue
from drumline.keras import internals
from drumline.keras.parameter_server.sources import DrawnSource, Source, source_of
from drumline.keras.parameter_server.steps import Steps, predict_step, test_step, train_step
from drumline.keras.resuming.fit_run import FitRun, run_of
from drumline.keras.state import coordinator_of, is_on_servers

_LOOK_SECONDS = 0.002

Began = Callable[[int], None]
Ended = Callable[[int, list[Any]], bool]


def run_epoch(
    coordinator: ClusterCoordinator,
    source: Source,
    steps: Steps,
    began: Began,
    ended: Ended,
    fit_run: FitRun | None = None,
) -> None:
    """Schedule the steps of an epoch and wait for them.

    Steps are scheduled ahead, so `began` runs before its steps do. `ended` runs in the order of
    the executions, when their steps have ended; a slow worker delays it, and no other worker.

    Args:
        coordinator: of the workers.
        source: of the batches.
        steps: what to run.
        began: called with the first step of each execution.
        ended: called with the last step of each execution, and the results of its steps; returns
            whether to schedule no more.
        fit_run: the `fit` whose epoch it is. It may begin in the middle of the epoch; and where it
            is to save, no step is scheduled before all others have ended, so that variables,
            input and callbacks are saved as they are behind one and the same step.
    """
    run = _Epoch(coordinator, ended)
    recorder = _recorder.active
    if recorder is not None and not recorder.is_here():
        recorder = None
    done = 0 if fit_run is None else fit_run.step
    function = source.function(steps)
    most = source.outstanding_per_worker * coordinator.strategy.num_workers
    with _cancelled_on_error(coordinator):
        for first, last, arguments in source.epoch(done):
            if recorder is not None and recorder.part != _recorder.VALIDATION:
                recorder.rows += sum(map(_recorder.rows_of, arguments))
            began(first)
            run.schedule(function, last, arguments)
            if fit_run is not None:
                fit_run.scheduled = last + 1
            run.report(wait_while_more_than=most)
            if fit_run is not None and fit_run.waits_for_steps:
                run.report(wait_while_more_than=0)
        run.report(wait_while_more_than=0)
        coordinator.join()
    if isinstance(source, DrawnSource):
        source.epoch_ended()


class _Stopped(Exception):
    """A callback wants no more steps."""


class _Epoch:
    """The executions of an epoch that were not reported yet."""

    def __init__(self, coordinator: ClusterCoordinator, ended: Ended) -> None:
        self._coordinator = coordinator
        self._ended = ended
        self._waiting: deque[tuple[int, list[RemoteValue]]] = deque()
        self._scheduled = 0

    def schedule(
        self, function: Callable[..., Any], last: int, arguments: Sequence[tuple[Any, ...]]
    ) -> None:
        """Schedule the steps of an execution."""
        values = [self._coordinator.schedule(function, args=args) for args in arguments]
        self._waiting.append((last, values))
        self._scheduled += len(values)

    @_recorder.counted_as(_recorder.COMPUTING, _recorder.WORKERS)
    def report(self, wait_while_more_than: int) -> None:
        """Report what has ended, until at most so many steps have not.

        Raises:
            _Stopped: if no more are wanted.
        """
        self._report_ended()
        while self._scheduled > wait_while_more_than:
            self._scheduled = sum(
                not value.ready for _, values in self._waiting for value in values
            )
            if self._scheduled <= wait_while_more_than:
                self._report_ended()
                return
            time.sleep(_LOOK_SECONDS)
            self._coordinator.done()
            self._report_ended()

    def _report_ended(self) -> None:
        while self._waiting and all(value.ready for value in self._waiting[0][1]):
            last, values = self._waiting.popleft()
            if self._ended(last, [value.fetch() for value in values]):
                raise _Stopped


@contextlib.contextmanager
def _cancelled_on_error(coordinator: ClusterCoordinator) -> Iterator[None]:
    """If the block ends early, steps that wait are cancelled, and those that run are waited for."""
    try:
        yield
    except BaseException as error:
        coordinator.queue.fail(error)
        with contextlib.suppress(_Stopped):
            coordinator.join()  # raises the error
            raise


def callback_list(
    model: keras.Model,
    source: Source,
    callbacks: Any,
    verbose: Any,
    epochs: int = 1,
    add_history: bool = False,
) -> Any:
    """Return Keras's ``CallbackList`` of a user's callbacks; such a list is returned as it is."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks
    return keras.callbacks.CallbackList(
        callbacks,
        add_history=add_history,
        add_progbar=verbose != 0,
        verbose=verbose,
        epochs=epochs,
        steps=source.num_batches,
        model=model,
    )


def loss_logs(results: list[Any]) -> dict[str, float]:
    """Return the logs that callbacks get of an execution: the loss of its last batch."""
    return {"loss": float(np.asarray(jax.tree.leaves(results[-1])[0]))}


def evaluate(
    model: keras.Model,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    verbose: Any = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
) -> Any:
    """Keras's ``evaluate``, spread over the workers.

    Args and returns are Keras's. Arrays and datasets that end are sent from the chief, each batch
    to one worker; of a function every worker makes its own dataset, and `steps` is needed.
    """
    model._assert_compile_called("evaluate")
    coordinator = coordinator_of(model)
    source = source_of(
        coordinator,
        x,
        y=y,
        sample_weight=sample_weight,
        batch_size=batch_size,
        shuffle=False,
        steps=steps,
        steps_argument="steps",
        steps_per_execution=model.steps_per_execution,
    )
    source.build(model)
    callbacks = callback_list(model, source, callbacks, verbose)
    logs = evaluate_source(model, source, callbacks)
    return logs if return_dict else model._flatten_metrics_in_order(logs)


@_recorder.counted_as(_recorder.VALIDATION)
def evaluate_source(model: keras.Model, source: Source, callbacks: Any) -> dict[str, Any]:
    """The metrics of a model over an epoch of a source.

    Args:
        model: built and compiled.
        source: of the batches.
        callbacks: a ``CallbackList``.
    """
    coordinator = coordinator_of(model)
    if model.test_function is None:
        model.test_function = Steps(test_step(model), coordinator.strategy)
    model.stop_evaluating = False
    callbacks.on_test_begin()
    model.reset_metrics()

    def ended(last: int, results: list[Any]) -> bool:
        callbacks.on_test_batch_end(last, loss_logs(results))
        return bool(model.stop_evaluating)

    run_epoch(coordinator, source, model.test_function, callbacks.on_test_batch_begin, ended)
    logs: dict[str, Any] = internals.python_utils.pythonify_logs(model.get_metrics_result())
    callbacks.on_test_end(logs)
    return logs


def fit(
    model: keras.Model,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Any = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: bool = True,
    class_weight: Mapping[int, float] | None = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: int | list[int] = 1,
) -> Any:
    """Keras's ``fit``, with asynchronous steps on the workers.

    Args and returns are Keras's. Input that the chief has, and that ends, is sent by the chief,
    each batch to one worker. Of a `DatasetCreator`, or a function of an `InputContext`, every
    worker makes its own dataset; a `Dataset` without end is shared out among them. Both need
    ``steps_per_epoch``, which counts the steps of all workers.

    At the end of an epoch all steps have ended, and callbacks get the metrics of all. Callbacks of
    batches run when their step was scheduled, and when it has ended; they get the loss of
    that batch alone.
    """
    model._assert_compile_called("fit")
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = internals.train_validation_split(
            (x, y, sample_weight), validation_split=validation_split
        )
    source = source_of(
        coordinator_of(model),
        x,
        y=y,
        sample_weight=sample_weight,
        batch_size=batch_size,
        shuffle=shuffle,
        steps=steps_per_epoch,
        steps_argument="steps_per_epoch",
        steps_per_execution=model.steps_per_execution,
        class_weight=class_weight,
    )
    steps = _steps(model, source)
    source.build(model)
    run = run_of(model)
    if run is not None and isinstance(source, DrawnSource):
        run.drawn = source
    validation = None
    if validation_data is not None:
        validation = _validation(
            model, validation_data, validation_steps, validation_batch_size or batch_size
        )
    epochs = _at_most(epochs)
    callbacks = callback_list(model, source, callbacks, verbose, epochs, add_history=True)
    loop = _FitLoop(model, source, steps, validation, validation_freq, callbacks)
    loop.run(initial_epoch, epochs)
    return model.history


class _FitLoop:
    """The epochs of one `fit`."""

    def __init__(
        self,
        model: keras.Model,
        source: Source,
        steps: Steps,
        validation: Source | None,
        validation_freq: int | list[int],
        callbacks: Any,
    ) -> None:
        self._model = model
        self._source = source
        self._steps = steps
        self._validation = validation
        self._validation_freq = validation_freq
        self._callbacks = callbacks

    def run(self, initial_epoch: int, epochs: int) -> None:
        model = self._model
        model.stop_training = False
        self._callbacks.on_train_begin()
        logs: dict[str, Any] = {}
        try:
            for epoch in range(model._initial_epoch or initial_epoch, epochs):
                logs = self._epoch(epoch)
                if model.stop_training:
                    break
        finally:
            if epochs > 0:
                model.optimizer.finalize_variable_values(model.trainable_weights)
        self._callbacks.on_train_end(logs=logs)

    def _epoch(self, epoch: int) -> dict[str, Any]:
        model, callbacks = self._model, self._callbacks
        model.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        run = run_of(model)

        def ended(last: int, results: list[Any]) -> bool:
            callbacks.on_train_batch_end(last, loss_logs(results))
            return bool(model.stop_training)

        run_epoch(
            coordinator_of(model),
            self._source,
            self._steps,
            callbacks.on_train_batch_begin,
            ended,
            run,
        )
        logs = dict(internals.python_utils.pythonify_logs(model.get_metrics_result()))
        if self._validation is not None and model._should_eval(epoch, self._validation_freq):
            self._validation.restart()
            found = evaluate_source(model, self._validation, callbacks)
            logs.update({f"val_{name}": value for name, value in found.items()})
        callbacks.on_epoch_end(epoch, logs)
        return logs


def _steps(model: keras.Model, source: Source) -> Steps:
    """Return the step, cached on the model until it is compiled again: it is traced once."""
    strategy = coordinator_of(model).strategy
    if source.class_weight:
        return Steps(train_step(model, source.class_weight), strategy)
    if model.train_function is None:
        model.train_function = Steps(train_step(model, None), strategy)
    steps: Steps = model.train_function
    return steps


def _validation(model: keras.Model, data: Any, steps: int | None, batch_size: int | None) -> Source:
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    return source_of(
        coordinator_of(model),
        x,
        y=y,
        sample_weight=sample_weight,
        batch_size=batch_size,
        shuffle=False,
        steps=steps,
        steps_argument="validation_steps",
        steps_per_execution=model.steps_per_execution,
    )


def _at_most(epochs: int) -> int:
    most = keras.config.max_epochs()
    if most and most < epochs:
        warnings.warn(f"Limiting epochs to {most}", stacklevel=4)
        return int(most)
    return epochs


def predict(
    model: keras.Model,
    x: Any,
    batch_size: int | None = None,
    verbose: Any = "auto",
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """Keras's ``predict``, spread over the workers; the outputs are in the order of the input.

    Args and returns are Keras's.

    Raises:
        TypeError: for a function or a dataset without end, which have no order over all workers.
    """
    coordinator = coordinator_of(model)
    source = source_of(
        coordinator,
        x,
        batch_size=batch_size,
        shuffle=False,
        steps=steps,
        steps_argument="steps",
        steps_per_execution=model.steps_per_execution,
    )
    if isinstance(source, DrawnSource):
        raise TypeError(
            "`predict` needs input with an order: arrays, or a Dataset that ends. Workers draw "
            "from a function, or a dataset that never ends, on their own; use `dataset.take(n)`."
        )
    if not all(layer.built for layer in model._flatten_layers()):
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(source.first_batch())
        with internals.StatelessScope():
            model(inputs)
    if model.predict_function is None:
        model.predict_function = Steps(predict_step(model), coordinator.strategy)
    callbacks = callback_list(model, source, callbacks, verbose)
    return _outputs(model, coordinator, source, callbacks)


def _outputs(
    model: keras.Model, coordinator: ClusterCoordinator, source: Source, callbacks: Any
) -> Any:
    batches: list[Any] = []
    model.stop_predicting = False
    callbacks.on_predict_begin()

    def ended(last: int, results: list[Any]) -> bool:
        batches.extend(results)
        callbacks.on_predict_batch_end(last, {"outputs": results[-1]})
        return bool(model.stop_predicting)

    run_epoch(coordinator, source, model.predict_function, callbacks.on_predict_batch_begin, ended)
    callbacks.on_predict_end()
    return jax.tree.map(lambda *outputs: np.concatenate(outputs), *batches)


_OURS: dict[str, Callable[..., Any]] = {"fit": fit, "evaluate": evaluate, "predict": predict}


def on_servers(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``, ``evaluate`` or ``predict``: models on parameter servers have another loop."""
    ours = _OURS[method.__name__]

    def method_or_ours(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        if is_on_servers(self):
            return ours(self, *args, **kwargs)
        return method(self, *args, **kwargs)

    return method_or_ours


def refuse_on_servers(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``train_on_batch`` and its like, which run a step on the chief."""

    def method_or_refuse(self: keras.Model, *args: Any, **kwargs: Any) -> Any:
        if is_on_servers(self):
            raise NotImplementedError(
                f"`{method.__name__}` runs one step here, and the variables of {self.name!r} are "
                "on parameter servers, for which workers run the steps. Use `fit`, or give a "
                "function to `ClusterCoordinator.schedule`."
            )
        return method(self, *args, **kwargs)

    return method_or_refuse
