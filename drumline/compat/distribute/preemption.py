"""Saving before a machine is taken away, as ``PreemptionCheckpointHandler``.

Cluster managers send SIGTERM some time before they take a machine. The process that gets it, or
whose own function says that it will be taken, notes that; between two steps all processes of the
strategy learn of it, save one checkpoint together and end with a status after which they are to be
started again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from drumline import distribute
from drumline.compat.training.checkpoints import ManagerOfTensors
from drumline.distribute.process_group.host_collectives import all_gather_host

RESTART_STATUS = 143
"""The status with which the program ends: that of a process that SIGTERM ended."""


@dataclasses.dataclass
class TerminationConfig:
    """How the end of a machine is learned of, and what happens then.

    As ``tf.distribute.experimental.TerminationConfig``.

    Attributes:
        termination_watcher_fn: says whether the machine will be taken; asked once a second. By
            default SIGTERM says it.
        exit_fn: called after the checkpoint is saved; by default it ends the program.
        grace_period: for how many seconds steps may be run before the checkpoint is saved; 0 by
            default. While they pass, the checkpoint is saved once before, too.
        save_fn: saves, in the place of the checkpoint's own `save`.
    """

    termination_watcher_fn: Callable[[], bool] | None = None
    exit_fn: Callable[[], Any] | None = None
    grace_period: float | None = None
    save_fn: Callable[[], Any] | None = None


class PreemptionWatcher:
    """Watches for SIGTERM, as ``tf.distribute.experimental.PreemptionWatcher``.

    Attributes:
        preemption_message: what was noticed; None before.
    """

    def __init__(self) -> None:
        self._noticed = threading.Event()
        self.preemption_message: str | None = None
        _watch_sigterm(self._notice)

    def _notice(self) -> None:
        self.preemption_message = "SIGTERM was received"
        self._noticed.set()

    def block_until_worker_exit(self) -> None:
        """Wait until SIGTERM has come, then end the program to be started again."""
        self._noticed.wait()
        sys.exit(RESTART_STATUS)


class PreemptionCheckpointHandler:
    """Runs steps, and saves a checkpoint when the machine is to be taken away.

    As ``tf.distribute.experimental.PreemptionCheckpointHandler``. Made after the checkpoint's
    objects, it restores the latest checkpoint there is.

    Args:
        cluster_resolver: of the strategy; accepted, the strategy in force knows its processes.
        checkpoint_or_checkpoint_manager: what is saved.
        checkpoint_dir: where, if a checkpoint and no manager was given.
        termination_config: see `TerminationConfig`.

    Raises:
        ValueError: for a checkpoint without a directory.
    """

    def __init__(
        self,
        cluster_resolver: Any,
        checkpoint_or_checkpoint_manager: Any,
        checkpoint_dir: str | None = None,
        termination_config: TerminationConfig | None = None,
    ):
        given = checkpoint_or_checkpoint_manager
        if hasattr(given, "checkpoints"):
            self._manager: Any = given
        elif checkpoint_dir is None:
            raise ValueError("PreemptionCheckpointHandler: give checkpoint_dir with a Checkpoint.")
        else:
            self._manager = ManagerOfTensors(given, checkpoint_dir, max_to_keep=1)
        self._config = termination_config or TerminationConfig()
        self._strategy = distribute.get_strategy()
        self._noticed = threading.Event()
        self._due: float | None = None
        self._runs = 0
        self._save: Callable[[], Any] = self._config.save_fn or self._manager.save
        self._manager.restore_or_initialize()
        self._begin_watching()

    @property
    def total_run_calls(self) -> int:
        """How often `run` was called since this program began."""
        return self._runs

    def run(self, distributed_train_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a step; then save and end if a machine is to be taken away.

        Args:
            distributed_train_function: the step.
            args: its arguments.
            kwargs: more of them, by name.

        Returns:
            What the step returns.
        """
        result = distributed_train_function(*args, **kwargs)
        self._runs += 1
        self.save_checkpoint_if_preempted()
        return result

    def save_checkpoint_if_preempted(self, *args: Any, **kwargs: Any) -> None:
        """Save and end if a machine is to be taken away; all processes call this together.

        Args:
            args: for the function that saves.
            kwargs: more of them, by name.
        """
        if self._due is None:
            if not self._anywhere():
                return
            self._due = time.monotonic() + (self._config.grace_period or 0)
            if self._config.grace_period:
                self._save(*args, **kwargs)
        if self._all_due():
            self._save(*args, **kwargs)
            self._exit()

    @contextlib.contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Within the block steps may be run without `run`; at its end it is seen to.

        Not to be used with `run`.
        """
        yield
        self.save_checkpoint_if_preempted()

    def _begin_watching(self) -> None:
        watcher = self._config.termination_watcher_fn
        if watcher is None:
            _watch_sigterm(self._noticed.set)
            return

        def ask() -> None:
            while not watcher():
                time.sleep(1)
            self._noticed.set()

        threading.Thread(target=ask, name="drumline preemption", daemon=True).start()

    def _anywhere(self) -> bool:
        return self._any_process(self._noticed.is_set())

    def _all_due(self) -> bool:
        assert self._due is not None
        return self._any_process(time.monotonic() >= self._due)

    def _any_process(self, here: bool) -> bool:
        if not self._strategy.spans_processes:
            return here
        return bool(np.any(all_gather_host(self._strategy, np.array([here], np.uint8))))

    def _exit(self) -> None:
        if self._config.exit_fn is not None:
            self._config.exit_fn()
        else:
            sys.exit(RESTART_STATUS)


def _watch_sigterm(notice: Callable[[], None]) -> None:
    """Call `notice` at SIGTERM, and what was there before if it was a handler of the user's.

    Raises:
        RuntimeError: in another thread than the main one, which alone may handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("Preemption is watched from the main thread, which gets the signals.")
    before = signal.getsignal(signal.SIGTERM)
    process = os.getpid()

    def handler(number: int, frame: Any) -> None:
        if os.getpid() != process:  # a forked child ends, as it would have
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        notice()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGTERM, handler)
