"""Saving before a machine is taken away, as TensorFlow's names have it.

The work is done by `drumline.distribute.process_group.preemption`; here checkpoints are those of
the look-alike, and a program ends with the status that TensorFlow's does.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from drumline.compat.training.checkpoints import ManagerOfTensors
from drumline.distribute.process_group import preemption
from drumline.distribute.process_group.preemption import Preemption, TerminationConfig

__all__ = ["PreemptionCheckpointHandler", "PreemptionWatcher", "TerminationConfig"]

RESTART_STATUS = 143
"""The status with which the program ends: that of a process that SIGTERM ended."""


class PreemptionWatcher:
    """Watches for SIGTERM, as ``tf.distribute.experimental.PreemptionWatcher``.

    Attributes:
        preemption_message: what was noticed; None before.
    """

    def __init__(self) -> None:
        self._noticed = threading.Event()
        self.preemption_message: str | None = None
        self._preemption = _Noticing(self)

    def _notice(self, reason: str) -> None:
        self.preemption_message = reason
        self._noticed.set()

    def block_until_worker_exit(self) -> None:
        """Wait until SIGTERM has come, then end the program to be started again."""
        self._noticed.wait()
        sys.exit(RESTART_STATUS)


class _Noticing(Preemption):
    def __init__(self, watcher: PreemptionWatcher) -> None:
        self._watcher = watcher
        super().__init__()

    def notice(self, reason: str) -> None:
        super().notice(reason)
        self._watcher._notice(reason)


class PreemptionHandlerOfTensors(preemption.PreemptionCheckpointHandler):
    """Runs steps, and saves a checkpoint when the machine is to be taken away.

    As ``tf.distribute.experimental.PreemptionCheckpointHandler``; see `dl.train`'s, which ends the
    program with another status.
    """

    restart_status = RESTART_STATUS

    def _made_manager(self, given: Any, directory: str | os.PathLike[str] | None) -> Any:
        if hasattr(given, "checkpoints") or directory is None:
            return super()._made_manager(given, directory)
        return ManagerOfTensors(given, directory, max_to_keep=1)


PreemptionCheckpointHandler = PreemptionHandlerOfTensors
