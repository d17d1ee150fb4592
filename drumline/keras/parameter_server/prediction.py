"""`predict` on parameter servers."""

from __future__ import annotations

from typing import Any

import jax
import keras
import numpy as np

from drumline.distribute.parameter_server.coordinator import ClusterCoordinator
from drumline.keras import internals
from drumline.keras.parameter_server.belonging import coordinator_of
from drumline.keras.parameter_server.running import callback_list, run_epoch
from drumline.keras.parameter_server.sources import DrawnSource, Source, source_of
from drumline.keras.parameter_server.steps import Steps, predict_step


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
