"""Saving before a machine is taken away: who notices it, and the step at which all processes save.

Cluster managers send SIGTERM some time before they take a machine (Kubernetes, Slurm, spot
instances); others have to be asked. A `Preemption` notes that in one process, lets all others know,
and has them agree on the step behind which all stop.

The agreement follows the preemption service of JAX's coordination service. A thread of each process
looks for the notice on the blackboard. When it is there, the thread publishes how many steps its
process has taken and waits for the numbers of the others, whatever the steps do meanwhile. All stop
behind the step after the highest number: none can be past it, since a process that has published
its number takes one step at most before it knows the others'.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from drumline.distribute.process_group.coordination import KeyValueStore
from drumline.distribute.process_group.group import ProcessGroup
from drumline.distribute.process_group.start import any_process, joined
from drumline.failure_record import RESTART_STATUS
from drumline.training.checkpoint import CheckpointManager

_log = logging.getLogger("drumline")

_LOOK_SECONDS = 0.5
_ASK_SECONDS = 1.0
_AGREE_SECONDS = 60.0


@dataclasses.dataclass
class TerminationConfig:
    """How the end of a machine is noticed, and what happens then.

    As ``tf.distribute.experimental.TerminationConfig``.

    Args:
        termination_watcher_fn: returns whether the machine will be taken; called once a second in
            a thread. `dl.train.gce_termination_watcher` and its like make such functions. SIGTERM
            is heeded in any case.
        exit_fn: called when everything is saved; by default it ends the program with status 75.
        grace_period: for how many seconds steps are still run before the last save; 0 by default.
            Everything is saved once before, too.
        save_fn: saves, in the place of what saves otherwise.

    Example:
        >>> import os
        >>> def notice():  # a cloud's metadata service, a file that an agent writes, ...
        ...     return os.path.exists("/run/machine-ends")
        >>> config = dl.train.TerminationConfig(termination_watcher_fn=notice)
    """

    termination_watcher_fn: Callable[[], bool] | None = None
    exit_fn: Callable[[], Any] | None = None
    grace_period: float | None = None
    save_fn: Callable[[], Any] | None = None


class Preemption:
    """Whether this process or another one will be taken away, and where all stop.

    Args:
        watcher: see `TerminationConfig.termination_watcher_fn`.
        alone: whether the other processes of the group have no part in what this one does, so that
            it agrees with none.

    Attributes:
        reason: what was noticed, here or in another process; None before.
    """

    def __init__(self, watcher: Callable[[], bool] | None = None, *, alone: bool = False) -> None:
        self.reason: str | None = None
        self._noticed = threading.Event()
        self._ends = threading.Event()
        self._agreement = None if alone else _Agreement.of_group(self._noticed, self._ends)
        self._signals = _Sigterm(lambda: self.notice("SIGTERM was received"))
        if watcher is not None:
            self._watch(watcher)

    def notice(self, reason: str) -> None:
        """Note that this process will be taken away. May be called by a signal's handler."""
        if self.reason is None:
            self.reason = reason
        self._noticed.set()

    def stops_here(self) -> bool:
        """Whether all processes stop behind this step; all call this behind the same steps."""
        if self._agreement is None:
            return self._noticed.is_set()
        stops = self._agreement.stops_here()
        if stops and self.reason is None:
            self.reason = "another process will be taken away"
        return stops

    def is_time(self, moment: float) -> bool:
        """Whether a moment of the monotonic clock has come in a process; all call this together."""
        here = time.monotonic() >= moment
        return here if self._agreement is None else any_process(here)

    def close(self) -> None:
        """Watch no more; SIGTERM does again what it did before.

        That which was received and led to no end does it now: it is not lost.
        """
        self._ends.set()
        self._signals.close()

    def end(self, exit_fn: Callable[[], Any] | None, status: int = RESTART_STATUS) -> None:
        """Call `exit_fn`, or end the program with a status.

        In several processes it waits until all have come here: none ends while another writes.
        """
        self._ends.set()
        if self._agreement is not None:
            self._agreement.wait_for_all()
        self._signals.was_heeded()
        self.close()
        if exit_fn is not None:
            exit_fn()
        else:
            sys.exit(status)

    def _watch(self, watcher: Callable[[], bool]) -> None:
        def ask() -> None:
            while not self._ends.wait(_ASK_SECONDS):
                if watcher():
                    self.notice("the termination watcher says that this machine will be taken away")
                    return

        threading.Thread(target=ask, name="drumline-termination", daemon=True).start()


class _Sigterm:
    """Calls a function at SIGTERM, and the handler there was if it is a user's.

    In another thread than the main one, which alone may handle signals, it does nothing.
    """

    def __init__(self, noticed: Callable[[], None]) -> None:
        self._noticed = noticed
        self._received = False
        self._process = os.getpid()
        self._set = threading.current_thread() is threading.main_thread()
        if not self._set:
            _log.warning("SIGTERM is not heeded: this thread is not the program's main one.")
            return
        self._before = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, self._handle)

    def was_heeded(self) -> None:
        """Let what was received so far be done with."""
        self._received = False

    def close(self) -> None:
        """Put back what handled the signal, and let it handle one that nothing has heeded."""
        if self._set and threading.current_thread() is threading.main_thread():
            # Not where another handler was set meanwhile, which may call this one.
            if signal.getsignal(signal.SIGTERM) == self._handle:
                self._put_back()
        self._set = False

    def _put_back(self) -> None:
        # None: it was set by other means than Python's, and is to be replaced by none.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)
        received, self._received = self._received, False
        if received and not callable(self._before):  # one of the user's was called at once
            signal.raise_signal(signal.SIGTERM)

    def _handle(self, number: int, frame: Any) -> None:
        if os.getpid() != self._process:  # a forked child ends, as it would have
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        # Once: a second signal may interrupt the first one's handler, which holds the event's lock.
        if not self._received:
            self._received = True
            self._noticed()
        if callable(self._before):
            self._before(number, frame)


class _Agreement:
    """The step behind which all processes of the group stop, once one of them was to.

    Args:
        group: the processes.
        board: their blackboard.
        noticed: whether this process will be taken away.
        ends: set when nothing is to be watched any more.
    """

    _count = 0

    def __init__(
        self,
        group: ProcessGroup,
        board: KeyValueStore,
        noticed: threading.Event,
        ends: threading.Event,
    ) -> None:
        _Agreement._count += 1
        self._number = _Agreement._count  # processes make them in the same order
        self._group = group
        self._board = board
        self._noticed = noticed
        self._ends = ends
        self._steps = 0
        self._published: int | None = None
        self._last: int | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="drumline-preemption", daemon=True).start()

    @classmethod
    def of_group(cls, noticed: threading.Event, ends: threading.Event) -> _Agreement | None:
        """That of the processes that this one has joined; None if it is alone."""
        group = joined()
        return None if group is None else cls(*group, noticed, ends)

    def stops_here(self) -> bool:
        """Count a step, and say whether it is the last."""
        with self._changed:
            self._steps += 1
            if self._published is None:
                return False
            until = time.monotonic() + _AGREE_SECONDS
            while self._last is None:
                if not self._changed.wait(max(0.0, until - time.monotonic())):
                    raise TimeoutError(
                        f"{self._group.task} has waited {_AGREE_SECONDS:g} s for the other "
                        "processes to say at which step they are. A machine will be taken away, "
                        "and nothing was saved: all processes must take the same steps."
                    )
            return self._steps >= self._last

    def wait_for_all(self) -> None:
        """Return when all processes have called this, or one of them is gone."""
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            self._board.tell_steps(-self._number, self._steps)
            while len(self._board.steps(-self._number)) < self._group.num_processes:
                time.sleep(0.01)

    def _run(self) -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # the group is ending
            while not self._noticed.is_set() and not self._board.is_preempted(self._number):
                if self._ends.wait(_LOOK_SECONDS):
                    break
            else:
                self._board.tell_preempted(self._number)
            # Also where all steps are done: one that has some left may wait for this number.
            with self._changed:
                self._published = self._steps
            self._board.tell_steps(self._number, self._published)
            while len(steps := self._board.steps(self._number)) < self._group.num_processes:
                if self._ends.wait(0.01):
                    return
            with self._changed:
                self._last = max(steps.values()) + 1
                self._changed.notify_all()


class PreemptionCheckpointHandler:
    """Runs steps, and saves a checkpoint when a machine is to be taken away.

    As ``tf.distribute.experimental.PreemptionCheckpointHandler``. Made after the objects of the
    checkpoint, it restores the latest one there is. When one process gets SIGTERM, or its
    `termination_watcher_fn` returns true, all processes save behind the same step and end with
    status 75, by which `drumline launch` starts the job again.

    Args:
        cluster_resolver: accepted as in TensorFlow; the processes are those of the strategy.
        checkpoint_or_checkpoint_manager: what is saved.
        checkpoint_dir: where, if a checkpoint and no manager was given.
        termination_config: see `TerminationConfig`.

    Attributes:
        preemption: whether a machine will be taken away.

    Raises:
        ValueError: for a checkpoint without a directory.

    Example:
        >>> import tempfile
        >>> step = dl.Variable(0)
        >>> checkpoint = dl.train.Checkpoint(step=step)
        >>> handler = dl.train.PreemptionCheckpointHandler(None, checkpoint, tempfile.mkdtemp())
        >>> while int(step.numpy()) < 3:
        ...     _ = handler.run(step.assign_add, 1)
        >>> handler.total_run_calls
        3
    """

    restart_status = RESTART_STATUS

    def __init__(
        self,
        cluster_resolver: Any,
        checkpoint_or_checkpoint_manager: Any,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        termination_config: TerminationConfig | None = None,
    ) -> None:
        self._manager = self._made_manager(checkpoint_or_checkpoint_manager, checkpoint_dir)
        self._config = termination_config or TerminationConfig()
        self._due: float | None = None
        self._runs = 0
        self._save: Callable[..., Any] = self._config.save_fn or self._manager.save
        self._manager.restore_or_initialize()
        self.preemption = Preemption(self._config.termination_watcher_fn)

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
            if not self.preemption.stops_here():
                return
            self._due = time.monotonic() + (self._config.grace_period or 0)
            if self._config.grace_period:
                self._save(*args, **kwargs)
        if not self._config.grace_period or self.preemption.is_time(self._due):
            self._save(*args, **kwargs)
            self.preemption.end(self._config.exit_fn, self.restart_status)

    @contextlib.contextmanager
    def watch_preemption_scope(self) -> Iterator[None]:
        """Within the block steps may be run without `run`; at its end it is seen to.

        Not to be used with `run`.
        """
        yield
        self.save_checkpoint_if_preempted()

    def _made_manager(self, given: Any, directory: str | os.PathLike[str] | None) -> Any:
        if hasattr(given, "checkpoints"):
            return given
        if directory is None:
            raise ValueError("PreemptionCheckpointHandler: give checkpoint_dir with a Checkpoint.")
        return CheckpointManager(given, directory, max_to_keep=1)
