"""Putting the hooks into Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from drumline.keras import (
    adapting,
    creation,
    data_adapter,
    internals,
    layer_hooks,
    ownership,
    seeds,
    server_variables,
    state,
    trainer,
    unbatched,
    whole_batch,
)
from drumline.keras.callbacks import TensorBoard, stand_in_for_keras
from drumline.keras.callbacks.stand_in import KERAS_OWN
from drumline.keras.chief_only import write_from_the_chief
from drumline.keras.parameter_server.dispatch import on_servers, refuse_on_servers
from drumline.keras.patching import replace_method
from drumline.keras.state_attribute import leave_state_untracked
from drumline.keras.step import batch_sharding, gradients


def install() -> None:
    """Teach Keras's JAX trainer about strategies and datasets. Calling it again does nothing.

    A model made outside every scope trains exactly as before.
    """
    model_class = internals.JAXTrainer
    replace_method(internals.Trainer, "__init__", ownership.remember_strategy)
    replace_method(internals.Trainer, "compile", ownership.in_own_scope)
    for name in ("fit", "evaluate", "predict"):
        replace_method(model_class, name, _of_datasets)
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
        replace_method(model_class, name, _of_batches)
    replace_method(model_class, "make_train_function", trainer.make_train_function)
    replace_method(model_class, "make_test_function", trainer.make_test_function)
    replace_method(model_class, "make_predict_function", trainer.make_predict_function)
    replace_method(model_class, "_make_function", trainer.step_on_moved_batches)
    replace_method(model_class, "_get_jax_state", state.place_state)
    replace_method(internals.Variable, "_direct_assign", state.place_assigned)
    replace_method(internals.JAXEpochIterator, "_get_iterator", trainer.iterate_on_devices)
    replace_method(internals.JAXEpochIterator, "_interrupted_warning", data_adapter.end_quietly)
    replace_method(internals.Trainer, "_symbolic_build", data_adapter.build_from_spec)
    replace_method(internals.data_adapters, "get_data_adapter", data_adapter.adapt_datasets)
    replace_method(keras.random.SeedGenerator, "next", seeds.differ_by_replica)
    replace_method(keras.Layer, "add_loss", whole_batch.refuse_added_losses)
    replace_method(keras.layers.RNN, "call", whole_batch.refuse_shares_of_state)
    replace_method(keras.Layer, "__call__", whole_batch.with_a_context)
    replace_method(keras.layers.Normalization, "adapt", adapting.of_moments)
    replace_method(keras.layers.Discretization, "adapt", adapting.of_quantiles)
    normalization = keras.layers.BatchNormalization
    replace_method(normalization, "__init__", layer_hooks.take_synchronized)
    replace_method(normalization, "_moments", layer_hooks.of_masked)
    replace_method(internals.backend_nn, "moments", layer_hooks.over_all_replicas)
    for optimizer in internals.OPTIMIZERS:
        replace_method(optimizer, "apply", gradients.sum_over_replicas)
    replace_method(internals.BaseOptimizer, "apply_gradients", gradients.aggregate_if_asked)
    replace_method(internals.Variable, "__init__", creation.create_at_once)
    for name in ("_initialize", "_initialize_with_initializer"):
        replace_method(internals.Variable, name, server_variables.create_on_servers)
    for owner in (internals.BaseOptimizer, keras.random.SeedGenerator):
        replace_method(owner, "__init__", server_variables.stay_on_the_chief)
    replace_method(internals.BaseOptimizer, "add_variable", server_variables.stay_on_the_chief)
    replace_method(
        internals.BaseOptimizer,
        "add_variable_from_reference",
        server_variables.keep_beside_reference,
    )
    leave_state_untracked()
    stand_in_for_keras()
    write_from_the_chief(TensorBoard, KERAS_OWN)


def _of_datasets(method: Callable[..., Any]) -> Callable[..., Any]:
    return ownership.in_own_scope(unbatched.hint_at_batch(on_servers(method)))


def _of_batches(method: Callable[..., Any]) -> Callable[..., Any]:
    return ownership.in_own_scope(batch_sharding.of_integers_that_fit(refuse_on_servers(method)))
