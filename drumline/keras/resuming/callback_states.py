"""What callbacks know that no checkpoint of a model has.

Keras's own are listed here; a user's callback may have ``get_state()`` and ``set_state(state)``.
"""

from __future__ import annotations

import collections
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras

from drumline import _recorder
from drumline.keras.internals import has_own_method
from drumline.keras.resuming.user_state import has_own_state

_log = logging.getLogger("drumline")

_COUNTS = ("_batches_seen_since_last_saving", "_last_batch_seen")
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "BackupAndRestore": (*_COUNTS, "_current_epoch"),
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_weights", "best_epoch"),
    "History": ("history", "epoch"),
    "ModelCheckpoint": ("best", *_COUNTS, "_current_epoch"),
    "OrbaxCheckpoint": ("best", *_COUNTS, "_current_epoch", "_total_batches_seen"),
    "ReduceLROnPlateau": ("cooldown_counter", "wait", "best"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
    "TensorBoard": ("_global_train_batch", "_global_test_batch", "_previous_epoch_iterations"),
}
"""Attributes of Keras's callbacks that change in a training, by the class's name."""

_BAR = ("_values", "_values_order", "_seen_so_far")


def _attributes(callback: keras.callbacks.Callback) -> list[str]:
    names = [
        name
        for kind, attributes in _ATTRIBUTES.items()
        if isinstance(callback, getattr(keras.callbacks, kind, ()))
        for name in attributes
    ]
    return [name for name in names if name in vars(callback)]


def state_of(callback: keras.callbacks.Callback) -> dict[str, Any]:
    """What `set_state_of` takes; empty if there is nothing to save."""
    found: dict[str, Any] = {}
    if attributes := _attributes(callback):
        found["attributes"] = {name: getattr(callback, name) for name in attributes}
    if isinstance(callback, keras.callbacks.CSVLogger):
        found["log"] = _log_of(callback)
    if isinstance(callback, keras.callbacks.ProgbarLogger):
        found["bar"] = _bar_of(callback)
    if has_own_state(callback):
        own: Any = callback
        found["own"] = own.get_state()
    return found


def set_state_of(callback: keras.callbacks.Callback, state: dict[str, Any]) -> None:
    """Let a callback be as another one of its class was."""
    for name, value in state.get("attributes", {}).items():
        setattr(callback, name, value)
    if "log" in state and isinstance(callback, keras.callbacks.CSVLogger):
        _cut_back(callback, state["log"])
    if "bar" in state and isinstance(callback, keras.callbacks.ProgbarLogger):
        _set_bar(callback, state["bar"])
    if "own" in state:
        own: Any = callback
        own.set_state(state["own"])


def names_of(callbacks: Sequence[keras.callbacks.Callback]) -> list[str]:
    """A name for each callback, by its class and its place among those of its class."""
    seen: collections.Counter[str] = collections.Counter()
    names = []
    for callback in callbacks:
        kind = type(callback).__name__
        names.append(f"{kind}/{seen[kind]}")
        seen[kind] += 1
    return names


def states_of(callbacks: Sequence[keras.callbacks.Callback]) -> dict[str, Any]:
    """The states of those callbacks that have any, by name."""
    found = {}
    for name, callback in zip(names_of(callbacks), callbacks, strict=True):
        if state := state_of(callback):
            found[name] = state
    return found


def set_states_of(callbacks: Sequence[keras.callbacks.Callback], states: dict[str, Any]) -> None:
    """Give callbacks the states that `states_of` found for others of the same classes."""
    left = dict(states)
    for name, callback in zip(names_of(callbacks), callbacks, strict=True):
        if name in left:
            set_state_of(callback, left.pop(name))
    left = {name: state for name, state in left.items() if not name.startswith("ProgbarLogger/")}
    if left:
        _log.warning(
            "The backup has the state of callbacks that this `fit` was not given: %s.",
            ", ".join(sorted(left)),
        )


def keep_logs(
    callbacks: Sequence[keras.callbacks.Callback], states: dict[str, Any]
) -> list[keras.callbacks.Callback]:
    """Before they begin: let CSV logs be appended to where there are states for them.

    Returns:
        The callbacks that append now and did not before.
    """
    changed = []
    for name, callback in zip(names_of(callbacks), callbacks, strict=True):
        if isinstance(callback, keras.callbacks.CSVLogger) and name in states:
            if not callback.append:
                callback.append = True
                changed.append(callback)
    return changed


_TIMED = (
    *("on_epoch_begin", "on_epoch_end", "on_train_batch_begin", "on_train_batch_end"),
    *("on_batch_begin", "on_batch_end"),
)


def time_callbacks(callbacks: Sequence[keras.callbacks.Callback]) -> Callable[[], None]:
    """Let a step profile know each callback's time by its class.

    Returns:
        What gives the callbacks the methods back that they had.
    """
    changed: list[tuple[Any, str, Any]] = []
    for callback in callbacks:
        if hasattr(callback, "after_others"):  # it makes the profile, or passes it on
            continue
        counted = _recorder.counted_as(_recorder.PYTHON, type(callback).__name__)
        for name in _TIMED:
            if has_own_method(callback, keras.callbacks.Callback, name):
                changed.append((callback, name, vars(callback).get(name)))
                callback.__dict__[name] = counted(getattr(callback, name))

    def give_back() -> None:
        for callback, name, before in changed:
            if before is None:
                callback.__dict__.pop(name, None)
            else:
                callback.__dict__[name] = before

    return give_back


def _log_of(logger: Any) -> dict[str, Any] | None:
    """The end of a CSV log and its columns; None in a process that writes none."""
    if logger.csv_file is None or logger.csv_file.closed:
        return None
    logger.csv_file.flush()
    return {"size": os.path.getsize(logger.filename), "keys": logger.keys}


def _cut_back(logger: Any, state: dict[str, Any] | None) -> None:
    if state is None or logger.csv_file is None or logger.csv_file.closed:
        return
    logger.csv_file.flush()
    size = os.path.getsize(logger.filename)
    if size < state["size"]:
        _log.warning(
            "%s has %d bytes, and had %d when the backup was saved: rows are missing.",
            *(logger.filename, size, state["size"]),
        )
    else:
        os.truncate(logger.filename, state["size"])
    logger.keys = state["keys"]
    logger.writer = None
    logger.append_header = not min(size, state["size"])


def _bar_of(logger: Any) -> dict[str, Any]:
    bar = logger.progbar
    found: dict[str, Any] = {"seen": logger.seen, "target": logger.target}
    if bar is not None:
        found["bar"] = {name: getattr(bar, name) for name in _BAR if hasattr(bar, name)}
        found["seconds"] = time.time() - bar._start
        found["after_first"] = (
            None if bar._time_after_first_step is None else time.time() - bar._time_after_first_step
        )
    return found


def _set_bar(logger: Any, state: dict[str, Any]) -> None:
    logger.seen, logger.target = state["seen"], state["target"]
    bar = logger.progbar
    if bar is None or "bar" not in state:
        return
    bar.target = state["target"]
    for name, value in state["bar"].items():
        setattr(bar, name, value)
    now = time.time()
    bar._start = bar._time_at_epoch_start = now - state["seconds"]
    if state["after_first"] is not None:
        bar._time_after_first_step = now - state["after_first"]
