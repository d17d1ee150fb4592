"""Keras's callbacks that write files, under a strategy of several processes: one of them writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np

from drumline import _recorder
from drumline.distribute import Strategy
from drumline.distribute.process_group.host_collectives import broadcast_host, joint_actions
from drumline.distribute.variable import broadcast_initial_values, forget_start
from drumline.keras.internals import replace_method, shadowed
from drumline.keras.resuming import saving
from drumline.keras.state import strategy_of

_LOGS = ("on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end")
_checkpointing = _recorder.counted_as(_recorder.CHECKPOINTING)
_BOARD = (*_LOGS, "on_train_batch_begin", "on_train_batch_end", "on_test_begin", "on_test_end")


def write_on_chief_only(*boards: type[keras.callbacks.Callback]) -> None:
    """Let checkpoints, backups, CSV logs and TensorBoard's files be written by the first process.

    Others would write the same into the same files at the same time. What they load they get from
    the first process, so that only that one needs the files.

    Args:
        boards: the classes that write for TensorBoard.
    """
    why = "of several processes the first writes files, and the others take from it what it reads"
    replace_method(keras.callbacks.ModelCheckpoint, "_save_model", _led_by_the_chief, why)
    _back_up_everything()
    replace_method(keras.callbacks.BackupAndRestore, "on_train_end", _on_the_chief, why)
    for board in boards:
        replace_method(board, "set_model", _opened_on_the_chief, why)
    orbax_checkpoint = getattr(keras.callbacks, "OrbaxCheckpoint", None)  # since Keras 3.13
    if orbax_checkpoint is not None:
        replace_method(
            orbax_checkpoint,
            "_save_checkpoint",
            lambda save: _checkpointing(_of_all_processes(save)),
            why,
        )
    for owner, names in ((keras.callbacks.CSVLogger, _LOGS), *((b, _BOARD) for b in boards)):
        for name in names:
            if name in vars(owner):
                reads = owner in boards and name == "on_epoch_end"  # as for histograms
                where = _led_by_the_chief if reads else _on_the_chief
                replace_method(owner, name, where, why)


def _back_up_everything() -> None:
    """Let `BackupAndRestore` ask `fit` for backups of all that it needs to continue."""
    backups = keras.callbacks.BackupAndRestore
    why = "a backup is one checkpoint of model, optimizer, input, callbacks and history"
    replace_method(backups, "__init__", saving.take_more_arguments, why)
    replace_method(backups, "_should_save_on_batch", saving.never_if_false, why)
    replace_method(
        backups, "_save_model", lambda save: saving.ask_for_backup(_on_the_chief(save)), why
    )
    replace_method(
        backups,
        "on_train_begin",
        lambda begin: saving.restore_alone(_restored_alike(begin)),
        why,
    )


def _on_the_chief(method: Callable[..., Any]) -> Callable[..., Any]:
    def only_on_the_chief(self: keras.callbacks.Callback, *args: Any, **kwargs: Any) -> Any:
        strategy = _spanning(self.model)
        if strategy is None or strategy.process_index == 0:
            return method(self, *args, **kwargs)
        return None

    return only_on_the_chief


def _led_by_the_chief(method: Callable[..., Any]) -> Callable[..., Any]:
    """As `_on_the_chief`; the others read with it what is cut over the processes."""
    on_the_chief = _on_the_chief(method)

    def led_by_the_chief(self: keras.callbacks.Callback, *args: Any, **kwargs: Any) -> Any:
        strategy = _spanning(self.model)
        if strategy is None or not strategy._cuts_slots:
            return on_the_chief(self, *args, **kwargs)
        if strategy.process_index == 0:
            return joint_actions.lead(lambda: method(self, *args, **kwargs))
        strategy._arrays.read_along()
        return None

    return led_by_the_chief


def _of_all_processes(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `OrbaxCheckpoint._save_checkpoint`, which all processes call together.

    Orbax refuses arrays of one process's devices; as copies on the devices of all, one copy is
    written.
    """

    def save_arrays_of_all(self: keras.callbacks.Callback, *args: Any, **kwargs: Any) -> Any:
        strategy = _spanning(self.model)
        if strategy is None:
            return save(self, *args, **kwargs)
        get_state_tree = self.model.get_state_tree

        def of_all(*args: Any, **kwargs: Any) -> Any:
            return jax.tree.map(strategy._arrays.for_program, get_state_tree(*args, **kwargs))

        with shadowed(self.model, "get_state_tree", of_all):
            return save(self, *args, **kwargs)

    return save_arrays_of_all


def _opened_on_the_chief(set_model: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``set_model``, in which TensorBoard's callbacks open their files."""

    def set_model_only_on_the_chief(self: keras.callbacks.Callback, model: keras.Model) -> None:
        strategy = _spanning(model)
        if strategy is None or strategy.process_index == 0:
            set_model(self, model)
        else:
            keras.callbacks.Callback.set_model(self, model)

    return set_model_only_on_the_chief


def _restored_alike(on_train_begin: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `BackupAndRestore.on_train_begin`: all processes resume where the first one does."""

    def on_train_begin_alike(self: keras.callbacks.Callback, logs: Any = None) -> None:
        strategy = _spanning(self.model)
        if strategy is None or strategy.process_index == 0:
            on_train_begin(self, logs)
        if strategy is None:
            return
        model = self.model
        epoch = np.array(getattr(model, "_initial_epoch", None) or 0)
        model._initial_epoch = int(broadcast_host(strategy, epoch))
        variables = [*model.variables, *model.optimizer.variables]
        forget_start(variables)
        broadcast_initial_values(strategy, variables)

    return on_train_begin_alike


def _spanning(model: keras.Model) -> Strategy | None:
    strategy = strategy_of(model)
    return strategy if strategy is not None and strategy.spans_processes else None
