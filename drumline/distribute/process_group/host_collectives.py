"""Collectives of small host arrays between the processes of a strategy, outside of steps.

And rendezvous: what all processes have to do together, each says before it does it, so that one
that does it alone ends with an error, and not in a collective of something else.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.experimental import multihost_utils

from drumline import _recorder
from drumline.distribute.process_group import watchdog
from drumline.distribute.process_group.coordination import KeyValueStore
from drumline.distribute.process_group.group import ProcessGroup
from drumline.distribute.process_group.start import joined

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


def all_gather_host(strategy: Strategy, value: np.ndarray) -> np.ndarray:
    """What each process gives, an array ``(processes, ...)``; all call this together.

    Args:
        strategy: one that spans the processes; no program of it runs meanwhile.
        value: of the same shape and dtype in all processes; 64-bit types keep their bits.
    """
    strategy._in_flight.wait()
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    with _communicating(), watchdog(timeout_seconds=strategy._in_flight.timeout_seconds):
        together: np.ndarray = multihost_utils.process_allgather(flat)
    return together.view(value.dtype).reshape(len(together), *value.shape)


def _communicating() -> contextlib.AbstractContextManager[None]:
    """What a step profile knows of, if one is being made."""
    recorder = _recorder.active
    if recorder is None:
        return contextlib.nullcontext()
    return recorder.at(_recorder.COMMUNICATION, "host collectives")


def broadcast(strategy: Strategy, value: np.ndarray) -> np.ndarray:
    """What the first process gives, an array of the same shape and dtype in all processes."""
    strategy._in_flight.wait()
    with _communicating(), watchdog(timeout_seconds=strategy._in_flight.timeout_seconds):
        return np.asarray(multihost_utils.broadcast_one_to_all(value))


def broadcast_host(strategy: Strategy, value: np.ndarray) -> np.ndarray:
    """What the first process gives, on all of them."""
    first: np.ndarray = all_gather_host(strategy, value)[0]
    return first


RENDEZVOUS_SECONDS = 300.0
"""How long the other processes are waited for where all have to do the same."""

_LOOK_SECONDS = 2.0
"""How often to look meanwhile whether one of them waits for this process in a program."""

_END = ""


class JointActions:
    """What all processes of the group do together, one thing after another.

    Attributes:
        programs: how many programs on the devices of all processes this one has started.
    """

    def __init__(self) -> None:
        self._number = 0
        self.programs = 0

    def wait(self, what: str, detail: str = "") -> list[str]:
        """Return when all processes are about to do `what`, with the detail that each gives.

        Args:
            what: in words, the same in all.
            detail: what the others are to know, which may differ.

        Raises:
            RuntimeError: if a process is to do something else, or nothing for a while, or waits in
                a program for this one.
        """
        group, coordination = _joined()
        number, self._number = self._number, self._number + 1
        coordination.tell_rendezvous(number, json.dumps([what, detail]))
        details = []
        for process, task in enumerate(group.tasks):
            text = self._answer(number, process)
            other, told = ("", "") if text is None else json.loads(text)
            if other != what:
                does = f"is to {other}" if other else "waits for it in a step"
                if not other and not self._waits_in_program(process):
                    does = f"does not within {RENDEZVOUS_SECONDS:.0f} s"
                raise RuntimeError(
                    f"{group.task} is to {what}, which all processes have to do together, and "
                    f"{task} {does}. Variables that are cut over processes (`shard=`) are made, "
                    "read and saved by all of them in the same order: let every process build the "
                    "model, and call `model.save`, `get_weights` and the like."
                )
            details.append(told)
        return details

    def _answer(self, number: int, process: int) -> str | None:
        """What another process said; None if it says nothing, or waits for this one in a step."""
        end = time.monotonic() + RENDEZVOUS_SECONDS
        text = None
        while text is None and (left := end - time.monotonic()) > 0:
            text = _joined()[1].rendezvous(number, process, min(left, _LOOK_SECONDS))
            if text is None and self._waits_in_program(process):
                break
        return text

    def _waits_in_program(self, process: int) -> bool:
        """Whether it has started a program of all processes that this one has not come to."""
        return _joined()[1].under_way().get(process, 0) > self.programs

    def lead(self, action: Callable[[], Any]) -> Any:
        """In the first process: do what the others `follow`."""
        try:
            return action()
        finally:
            number, self._number = self._number, self._number + 1
            _joined()[1].tell_rendezvous(number, json.dumps([_END, ""]))

    def follow(self) -> Iterator[str]:
        """In the others: what the first process waits for them to do, until its action ends.

        Whoever iterates does it.
        """
        _, coordination = _joined()
        while True:
            text = None
            while text is None:  # it may take its time; if it ends, so does this process
                text = coordination.rendezvous(self._number, 0, RENDEZVOUS_SECONDS)
            what: str = json.loads(text)[0]
            if what == _END:
                coordination.tell_rendezvous(self._number, text)
                self._number += 1
                return
            yield what


joint_actions = JointActions()
"""Those of this process's group, of which it has one."""


def _joined() -> tuple[ProcessGroup, KeyValueStore]:
    found = joined()
    assert found is not None, "a strategy over processes has joined them"
    return found
