"""`evaluate` on parameter servers."""

from __future__ import annotations

from typing import Any

import keras

from drumline.keras import internals
from drumline.keras.parameter_server.belonging import coordinator_of
from drumline.keras.parameter_server.running import callback_list, loss_logs, run_epoch
from drumline.keras.parameter_server.sources import Source, source_of
from drumline.keras.parameter_server.steps import Steps, test_step


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
    logs: dict[str, Any] = internals.pythonify_logs(model.get_metrics_result())
    callbacks.on_test_end(logs)
    return logs
