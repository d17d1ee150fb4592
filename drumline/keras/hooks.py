"""Every method of Keras that drumline replaces, in the order in which a training calls them.

`install` runs once, when drumline is imported. A hook asks first whether its model or variable
belongs to a strategy and calls Keras's own method if not, so that a model made outside every scope
trains exactly as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from drumline import _recorder
from drumline.keras import data_adapter, internals, layer_hooks, state, trainer
from drumline.keras.callbacks import tensorboard
from drumline.keras.chief_only import write_on_chief_only
from drumline.keras.internals import replace_method
from drumline.keras.layers import host_models
from drumline.keras.parameter_server.loops import on_servers, refuse_on_servers
from drumline.keras.resuming import fit_run
from drumline.keras.step import reductions, row_update, train_step


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
    replace_method(
        internals.Trainer,
        "__init__",
        state.remember_strategy,
        "a model trains under the strategy in whose scope it was made, wherever fit is called",
    )
    replace_method(
        internals.Trainer,
        "compile",
        state.run_in_model_scope,
        "metrics and loss scales are variables as well, made in the model's scope",
    )
    replace_method(
        variable,
        "__init__",
        state.create_eagerly,
        "a layer built in an eager step gets values at once; Keras defers them in such a scope",
    )
    replace_method(
        variable,
        "_initialize",
        state.create_on_servers,
        "in the scope of a parameter-server strategy variables are created on the servers",
    )
    replace_method(
        variable,
        "_initialize_with_initializer",
        lambda initialize: state.create_on_servers(state.initialize_by_few_programs(initialize)),
        "in a strategy's scope variables are created on the servers, or with few programs",
    )
    for name in ("uniform", "normal", "truncated_normal"):
        replace_method(
            internals.backend_random,
            name,
            functools.partial(state.draw_by_size, whole_vectors=name != "uniform"),
            "a strategy's variables are initialized by programs for few sizes, not for each shape",
        )
    for owner in (optimizer, keras.random.SeedGenerator):
        replace_method(
            owner,
            "__init__",
            state.create_on_chief,
            "an optimizer's counters and the seeds of generators are held by the chief",
        )
    replace_method(
        optimizer,
        "add_variable",
        state.create_on_chief,
        "an optimizer's counters are held by the chief",
    )
    replace_method(
        optimizer,
        "add_variable_from_reference",
        state.colocate_with_reference,
        "servers hold an optimizer's slots beside the rows they belong to",
    )
    replace_method(
        variable,
        "_direct_assign",
        state.place_assigned,
        "what a variable is assigned is moved to the devices of its strategy",
    )
    replace_method(
        keras.layers.BatchNormalization,
        "__init__",
        layer_hooks.accept_synchronized,
        "Keras takes synchronized=True on its TensorFlow backend alone",
    )
    replace_method(
        keras.layers.Normalization,
        "build",
        layer_hooks.build_at_once,
        "a layer that is built in a dataset's function would keep tracers",
    )
    replace_method(
        keras.layers.RandomCrop,
        "transform_images",
        layer_hooks.crop_in_trace,
        "Keras's cannot be compiled: it slices by numbers that it has drawn",
    )
    for layer, adapt in (
        (keras.layers.Normalization, layer_hooks.adapt_normalization),
        (keras.layers.Discretization, layer_hooks.adapt_discretization),
    ):
        replace_method(layer, "adapt", adapt, "it reads datasets of drumline's; Keras's, tf.data's")


def _when_fit_begins() -> None:
    """The calls that users make."""
    for name, wrap in (
        ("fit", _fit_of_datasets),
        ("evaluate", lambda method: _validating(_of_datasets(method))),
        ("predict", _of_datasets),
    ):
        replace_method(
            internals.JAXTrainer,
            name,
            wrap,
            "it runs in the model's scope, computes layers of strings before the step, names a "
            "missing batch(), and has a loop of its own where the variables are on parameter "
            "servers",
        )
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch"):
        replace_method(
            internals.JAXTrainer,
            name,
            _of_batches,
            "it runs in the model's scope, computes layers of strings before the step, and checks "
            "integers that Keras narrows before its step sees them",
        )


def _when_an_epoch_is_read() -> None:
    """From what `fit` was given to batches on the devices."""
    epoch_iterator = internals.JAXEpochIterator
    replace_method(
        internals.data_adapters,
        "get_data_adapter",
        data_adapter.adapt_datasets,
        "Keras knows no Dataset: its batches are handed on as they are",
    )
    replace_method(
        internals.Trainer,
        "_symbolic_build",
        lambda build: fit_run.tell_input(data_adapter.build_from_spec(build)),
        "Keras would build a model from the first batch and throw the iteration away; and `fit` "
        "knows its position in the input from here on",
    )
    replace_method(
        epoch_iterator,
        "_enumerate_iterator",
        fit_run.count_from_position,
        "a `fit` that is resumed continues in the middle of an epoch",
    )
    replace_method(
        epoch_iterator,
        "_get_iterator",
        trainer.iterate_on_devices,
        "off the CPU, a batch travels to its replicas one step early",
    )
    replace_method(
        epoch_iterator,
        "_interrupted_warning",
        data_adapter.silence_end_of_input,
        "the end of a dataset of unknown size is no reason for a warning",
    )


def _when_a_step_is_made() -> None:
    """From a model to compiled functions of its state and a batch."""
    model_class = internals.JAXTrainer
    for name, make in (
        ("make_train_function", trainer.make_train_function),
        ("make_test_function", trainer.make_test_function),
        ("make_predict_function", trainer.make_predict_function),
    ):
        replace_method(
            model_class, name, make, "under several replicas, steps are compiled over all devices"
        )
    replace_method(
        model_class,
        "_make_function",
        lambda make: trainer.keep_state(trainer.place_batches(make)),
        "Keras's own steps refuse batches that are committed to other devices than the model's, "
        "and an interrupt between a step and its results would lose the variables' values",
    )
    for module in (internals.python_utils, internals.jax_trainer):
        if hasattr(module, "pythonify_logs"):  # the trainer of some releases has it, too
            replace_method(
                module,
                "pythonify_logs",
                trainer.interruptible_logs,
                "Keras loses an interrupt (Ctrl-C) that arrives while a step's results are awaited",
            )
    replace_method(
        model_class,
        "_get_jax_state",
        state.place_state,
        "a step's state lies where the strategy says, and is put back if no batch comes",
    )
    replace_method(
        model_class,
        "jax_state_sync",
        state.sync_step_variables,
        "a step's state may hold variables that the model does not track, as another optimizer's",
    )
    state.leave_state_untracked()


def _while_a_step_is_traced() -> None:
    """On each replica, with its shard of the batch."""
    replace_method(
        keras.Layer,
        "__call__",
        lambda call: host_models.with_host_results(layer_hooks.enter_replica_context(call)),
        "a layer that reduces over the replicas has a replica context wherever it is called; a "
        "model with layers of strings computes them before the rest, as JAX has no strings",
    )
    for model in (internals.Functional, keras.Sequential):
        replace_method(
            model,
            "call",
            host_models.with_host_call,
            "the compiled step of a model with layers of strings is given what these computed",
        )
    replace_method(
        keras.random.SeedGenerator,
        "next",
        layer_hooks.seed_of_place,
        "dropout and its like draw differently on each replica, and in a dataset's function by the "
        "element's position",
    )
    for name in ("assign", "assign_add", "assign_sub"):
        replace_method(
            internals.Variable,
            name,
            layer_hooks.write_constants_alike,
            "constants that a step writes need no merging: replicas write the same",
        )
    replace_method(
        keras.Layer,
        "add_loss",
        layer_hooks.refuse_added_losses,
        "a loss on activations needs the whole batch to give the same numbers",
    )
    replace_method(
        keras.layers.RNN,
        "call",
        layer_hooks.refuse_sharded_state,
        "a stateful layer needs the whole batch to give the same numbers",
    )
    replace_method(
        keras.layers.BatchNormalization,
        "_moments",
        layer_hooks.synchronize_masked_moments,
        "layers that ask for it normalize with the moments of the global batch",
    )
    replace_method(
        internals.backend_nn,
        "moments",
        layer_hooks.synchronize_moments,
        "layers that ask for it normalize with the moments of the global batch",
    )


def _when_gradients_are_applied() -> None:
    """In custom steps: `fit`'s are averaged by `gradients.averaged_gradients`."""
    for optimizer in internals.OPTIMIZERS:
        replace_method(
            optimizer,
            "apply",
            functools.partial(reductions.sum_over_replicas, updates_rows=row_update.updates_rows),
            "the outermost optimizer sums the gradients over the replicas",
        )
    replace_method(
        internals.BaseOptimizer,
        "apply_gradients",
        reductions.aggregate_if_asked,
        "TensorFlow's switches may say that the user has summed them",
    )


def _in_callbacks() -> None:
    """What writes files."""
    tensorboard.replace_keras_tensorboard()
    # Of several processes one writes checkpoints, backups and logs.
    write_on_chief_only(tensorboard.TensorBoard, tensorboard.KERAS_OWN)

    for name in ("save", "save_weights"):
        replace_method(
            keras.Model,
            name,
            _recorder.counted_as(_recorder.CHECKPOINTING),
            "a step profile knows how long a callback saves",
        )

    callback_list = keras.callbacks.CallbackList
    for name, tell in (
        ("on_train_begin", fit_run.tell_training),
        ("on_train_end", fit_run.tell_training_end),
        ("on_epoch_begin", fit_run.tell_epoch),
        ("on_epoch_end", fit_run.tell_epoch_end),
        ("on_train_batch_begin", fit_run.skip_done_step),
        ("on_train_batch_end", fit_run.tell_step),
    ):
        replace_method(
            callback_list,
            name,
            tell,
            "what a `fit` needs to continue is saved behind all callbacks and restored before them",
        )


_validating = _recorder.counted_as(_recorder.VALIDATION)


def _fit_of_datasets(fit: Callable[..., Any]) -> Callable[..., Any]:
    hinting = host_models.of_strings(data_adapter.add_batch_hint(on_servers(fit)))
    return state.run_in_model_scope(fit_run.with_run(hinting, fit))


def _of_datasets(method: Callable[..., Any]) -> Callable[..., Any]:
    hinted = data_adapter.add_batch_hint(on_servers(method))
    return state.run_in_model_scope(host_models.of_strings(hinted))


def _of_batches(method: Callable[..., Any]) -> Callable[..., Any]:
    checked = train_step.check_integer_range(refuse_on_servers(method))
    return state.run_in_model_scope(host_models.of_strings(checked))
