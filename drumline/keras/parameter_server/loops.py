"""`fit` on parameter servers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import keras

from drumline.keras import internals
from drumline.keras.parameter_server.belonging import coordinator_of
from drumline.keras.parameter_server.evaluation import evaluate_source
from drumline.keras.parameter_server.running import callback_list, loss_logs, run_epoch
from drumline.keras.parameter_server.sources import Source, source_of
from drumline.keras.parameter_server.steps import Steps, train_step


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
    batches run when their step was scheduled, and when it has ended; they are told the loss of
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
    validation = None
    if validation_data is not None:
        validation = _validation(
            model, validation_data, validation_steps, validation_batch_size or batch_size
        )
    epochs = _at_most(epochs)
    callbacks = callback_list(model, source, callbacks, verbose, epochs, add_history=True)
    loop = _Loop(model, source, steps, validation, validation_freq, callbacks)
    loop.run(initial_epoch, epochs)
    return model.history


class _Loop:
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

        def ended(last: int, results: list[Any]) -> bool:
            callbacks.on_train_batch_end(last, loss_logs(results))
            return bool(model.stop_training)

        run_epoch(
            coordinator_of(model),
            self._source,
            self._steps,
            callbacks.on_train_batch_begin,
            ended,
        )
        logs = dict(internals.pythonify_logs(model.get_metrics_result()))
        if self._validation is not None and model._should_eval(epoch, self._validation_freq):
            self._validation.restart()
            found = evaluate_source(model, self._validation, callbacks)
            logs.update({f"val_{name}": value for name, value in found.items()})
        callbacks.on_epoch_end(epoch, logs)
        return logs


def _steps(model: keras.Model, source: Source) -> Steps:
    """The step; kept on the model until it is compiled again, so that it is traced once."""
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
