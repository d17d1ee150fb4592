"""Every method of Keras that drumline replaces, in the order in which a training calls them.

`install` runs once, when drumline is imported. A hook asks first whether its model or variable
belongs to a strategy and calls Keras's own method if not, so that a model made outside every scope
trains exactly as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from drumline.keras import callbacks, data_adapter, internals, layer_hooks, state, trainer
from drumline.keras.chief_only import write_on_chief_only
from drumline.keras.internals import replace_method
from drumline.keras.parameter_server.loops import on_servers, refuse_on_servers
from drumline.keras.step import batch_sharding, gradients


def install() -> None:
    """Teach Keras's JAX trainer about strategies and datasets. Calling it again does nothing."""
    _when_a_model_is_made()
    _when_fit_begins()
    _when_an_epoch_is_read()
    _when_a_step_is_made()
    _while_a_step_is_traced()
    _when_gradients_are_applied()
    _in_callbacks()


def _when_a_model_is_made() -> None:
    """In a scope: variables are placed as the strategy says, and the model remembers it."""
    variable, optimizer = internals.Variable, internals.BaseOptimizer
    # A model trains under the strategy in whose scope it was made, wherever `fit` is called.
    replace_method(internals.Trainer, "__init__", state.remember_strategy)
    # Metrics and loss scales are variables as well: `compile` makes them in the model's scope.
    replace_method(internals.Trainer, "compile", state.run_in_model_scope)
    # A layer built in an eager step gets values at once; Keras defers them in a stateless scope.
    replace_method(variable, "__init__", state.create_eagerly)
    # Variables made in the scope of a parameter-server strategy are created on the servers, ...
    for name in ("_initialize", "_initialize_with_initializer"):
        replace_method(variable, name, state.create_on_servers)
    # ... but for an optimizer's counters and the seeds of generators, which the chief holds, ...
    for owner in (optimizer, keras.random.SeedGenerator):
        replace_method(owner, "__init__", state.create_on_chief)
    replace_method(optimizer, "add_variable", state.create_on_chief)
    # ... and an optimizer's slots, which the servers hold beside the rows they belong to.
    replace_method(optimizer, "add_variable_from_reference", state.colocate_with_reference)
    # What a variable is assigned is moved to the devices of its strategy.
    replace_method(variable, "_direct_assign", state.place_assigned)
    # Keras takes `synchronized=True` on its TensorFlow backend alone.
    normalization = keras.layers.BatchNormalization
    replace_method(normalization, "__init__", layer_hooks.accept_synchronized)
    # `adapt` reads datasets through TensorFlow; here it reads drumline's.
    replace_method(keras.layers.Normalization, "adapt", layer_hooks.adapt_normalization)
    replace_method(keras.layers.Discretization, "adapt", layer_hooks.adapt_discretization)


def _when_fit_begins() -> None:
    """The calls that users make."""
    # They run in the model's scope, name a missing `batch()`, and have loops of their own where
    # the variables are on parameter servers.
    for name in ("fit", "evaluate", "predict"):
        replace_method(internals.JAXTrainer, name, _of_datasets)
    # As above, for one batch; Keras narrows integers before its step sees them, so they are
    # checked here.
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
        replace_method(internals.JAXTrainer, name, _of_batches)


def _when_an_epoch_is_read() -> None:
    """From what `fit` was given to batches on the devices."""
    epoch_iterator = internals.JAXEpochIterator
    # Keras knows no `Dataset`: its batches are handed on as they are.
    replace_method(internals.data_adapters, "get_data_adapter", data_adapter.adapt_datasets)
    # Keras would build a model from the first batch and throw the iteration away.
    replace_method(internals.Trainer, "_symbolic_build", data_adapter.build_from_spec)
    # Off the CPU, a batch travels to its replicas one step early.
    replace_method(epoch_iterator, "_get_iterator", trainer.iterate_on_devices)
    # The end of a dataset of unknown size is no reason for a warning.
    replace_method(epoch_iterator, "_interrupted_warning", data_adapter.silence_end_of_input)


def _when_a_step_is_made() -> None:
    """From a model to compiled functions of its state and a batch."""
    model_class = internals.JAXTrainer
    # Under several replicas, steps compiled over all of their devices.
    replace_method(model_class, "make_train_function", trainer.make_train_function)
    replace_method(model_class, "make_test_function", trainer.make_test_function)
    replace_method(model_class, "make_predict_function", trainer.make_predict_function)
    # Keras's own steps refuse batches that are committed to other devices than the model's.
    replace_method(model_class, "_make_function", trainer.place_batches)
    # A step's state lies where the strategy says, and is put back if the first batch never comes.
    replace_method(model_class, "_get_jax_state", state.place_state)
    # Keras would look for layers among all arrays of the state, after every step.
    state.leave_state_untracked()


def _while_a_step_is_traced() -> None:
    """On each replica, with its shard of the batch."""
    # A layer that reduces over the replicas has a replica context wherever it is called.
    replace_method(keras.Layer, "__call__", layer_hooks.enter_replica_context)
    # Dropout and its like draw differently on each replica.
    replace_method(keras.random.SeedGenerator, "next", layer_hooks.fold_in_replica_id)
    # Constants that a step writes need no merging: replicas write the same.
    for name in ("assign", "assign_add", "assign_sub"):
        replace_method(internals.Variable, name, layer_hooks.write_constants_alike)
    # A loss on activations, and a stateful layer, need the whole batch to give the same numbers.
    replace_method(keras.Layer, "add_loss", layer_hooks.refuse_added_losses)
    replace_method(keras.layers.RNN, "call", layer_hooks.refuse_sharded_state)
    # Layers that ask for it normalize with the moments of the global batch.
    replace_method(
        keras.layers.BatchNormalization, "_moments", layer_hooks.synchronize_masked_moments
    )
    replace_method(internals.backend_nn, "moments", layer_hooks.synchronize_moments)


def _when_gradients_are_applied() -> None:
    """In custom steps: `fit`'s are averaged by `gradients.averaged_gradients`."""
    # The outermost optimizer sums the gradients over the replicas, ...
    for optimizer in internals.OPTIMIZERS:
        replace_method(optimizer, "apply", gradients.sum_over_replicas)
    # ... unless TensorFlow's switches say that the user has done so.
    replace_method(internals.BaseOptimizer, "apply_gradients", gradients.aggregate_if_asked)


def _in_callbacks() -> None:
    """What writes files."""
    # `keras.callbacks.TensorBoard` writes through TensorFlow, and is replaced where that is absent.
    callbacks.replace_keras_tensorboard()
    # Of several processes one writes checkpoints, backups and logs.
    write_on_chief_only(callbacks.TensorBoard, callbacks.KERAS_OWN)


def _of_datasets(method: Callable[..., Any]) -> Callable[..., Any]:
    return state.run_in_model_scope(data_adapter.add_batch_hint(on_servers(method)))


def _of_batches(method: Callable[..., Any]) -> Callable[..., Any]:
    return state.run_in_model_scope(batch_sharding.check_integer_range(refuse_on_servers(method)))
