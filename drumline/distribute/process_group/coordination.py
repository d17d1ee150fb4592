"""What the processes of a group tell one another beside their collectives."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import jax

from drumline.distribute.process_group import jax_internals
from drumline.distribute.process_group.group import ProcessGroup
from drumline.failure_record import Kind

_FAILURE = "drumline/failure"
_LEFT = "drumline/left"
_STANDING = "drumline/standing"
_MEMORY = "drumline/memory"
_SAVES = "drumline/saves"
_RESTORED = "drumline/restored"
_JOB = "drumline/job"
_PREEMPTED = "drumline/preempted"
_RENDEZVOUS = "drumline/rendezvous"
_UNDER_WAY = "drumline/under_way"


@dataclasses.dataclass(frozen=True)
class Failure:
    """The first failure in the group.

    Attributes:
        task: the task that reported it.
        kind: see `drumline.failure_record`.
        message: one line; for a lost peer, what happened to it, without a subject.
        peer: the task that was lost, if known.
    """

    task: str
    kind: Kind
    message: str
    peer: str | None


class KeyValueStore:
    """The group's blackboard, which process 0 keeps: each key is written once, but for
    those of saves, which process 0 alone writes.

    Methods raise ``jax.errors.JaxRuntimeError`` if process 0 cannot be reached.
    """

    def __init__(self, client: Any, group: ProcessGroup) -> None:
        self._client = client
        self._group = group

    def tell_failure(self, failure: Failure) -> None:
        """Write `failure` down, unless another came first."""
        try:
            self._client.key_value_set(_FAILURE, json.dumps(dataclasses.asdict(failure)))
        except jax.errors.JaxRuntimeError as error:
            if "ALREADY_EXISTS" not in str(error):
                raise

    def failure(self) -> Failure | None:
        """The first failure that was reported, if any."""
        try:
            return Failure(**json.loads(self._client.key_value_try_get(_FAILURE)))
        except jax.errors.JaxRuntimeError as error:
            if "NOT_FOUND" not in str(error):
                raise
            return None

    def wait_for_failure(self, timeout_seconds: int) -> Failure | None:
        """The first failure, as soon as there is one; None when the time is over."""
        try:
            text = self._client.blocking_key_value_get(_FAILURE, timeout_seconds * 1000)
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            return None
        return Failure(**json.loads(text))

    def tell_leaving(self) -> None:
        """Say that this process has done its work."""
        self._client.key_value_set(f"{_LEFT}/{self._group.process_index}", "")

    def left(self) -> set[int]:
        """The processes that have done their work."""
        return {int(key.rpartition("/")[2]) for key, _ in self._client.key_value_dir_get(_LEFT)}

    def tell_standing(self, where: str) -> None:
        """Report this process's position, outside of the step that another waits in."""
        self._client.key_value_set(f"{_STANDING}/{self._group.process_index}", where)

    def standing(self) -> dict[int, str]:
        """The processes that were not in the step that another waits in, and their positions."""
        return {
            int(key.rpartition("/")[2]): where
            for key, where in self._client.key_value_dir_get(_STANDING)
        }

    def tell_memory(self, key: str, value: str) -> None:
        """Write down something about shared memory."""
        self._client.key_value_set(f"{_MEMORY}/{key}", value)

    def memory(self, key: str, timeout_seconds: int) -> str:
        """What was written about shared memory, as soon as it is."""
        value: str = self._client.blocking_key_value_get(f"{_MEMORY}/{key}", timeout_seconds * 1000)
        return value

    def tell_save(self, number: int, save: Mapping[str, Any]) -> None:
        """Say how far the process that writes checkpoints has come with its save `number`."""
        self._client.key_value_set(f"{_SAVES}/{number}", json.dumps(save), allow_overwrite=True)

    def forget_save(self, number: int) -> None:
        """Drop what `tell_save` said, if anything."""
        self._client.key_value_delete(f"{_SAVES}/{number}")

    def saves(self) -> dict[int, dict[str, Any]]:
        """What `tell_save` published and `forget_save` has not dropped, by number."""
        found = self._client.key_value_dir_get(_SAVES)
        return {int(key.rpartition("/")[2]): json.loads(text) for key, text in found}

    def tell_restored(self, number: int, process: int, restored: Mapping[str, Any]) -> None:
        """Say which checkpoint `process` has restored in its restoring `number`."""
        self._client.key_value_set(f"{_RESTORED}/{number}/{process}", json.dumps(restored))

    def restored(self, number: int) -> dict[int, dict[str, Any]]:
        """What the processes that are as far said by `tell_restored`, by process."""
        found = self._client.key_value_dir_get(f"{_RESTORED}/{number}/")
        return {int(key.rpartition("/")[2]): json.loads(text) for key, text in found}

    def name_job(self, name: str) -> None:
        """Give the group a name that no other has; process 0 does, once."""
        self._client.key_value_set(_JOB, name)

    def job(self, timeout_seconds: int = 60) -> str:
        """The name that process 0 has given the group."""
        name: str = self._client.blocking_key_value_get(_JOB, timeout_seconds * 1000)
        return name

    def tell_rendezvous(self, number: int, what: str) -> None:
        """Say what this process does at the rendezvous of this number."""
        process = self._group.process_index
        self._client.key_value_set(f"{_RENDEZVOUS}/{number}/{process}", what)
        if number > 1:  # all others were at the one before: none looks at earlier ones
            self._client.key_value_delete(f"{_RENDEZVOUS}/{number - 2}/{process}")

    def rendezvous(self, number: int, process: int, timeout_seconds: float) -> str | None:
        """What `process` said by `tell_rendezvous`, as soon as it does; None if it does not."""
        key = f"{_RENDEZVOUS}/{number}/{process}"
        try:
            text: str = self._client.blocking_key_value_get(key, int(timeout_seconds * 1000))
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            return None
        return text

    def tell_under_way(self, number: int) -> None:
        """Say that the program of this number, of all processes, takes a while here."""
        key = f"{_UNDER_WAY}/{self._group.process_index}"
        self._client.key_value_set(key, str(number), allow_overwrite=True)

    def under_way(self) -> dict[int, int]:
        """The latest numbers that processes said by `tell_under_way`, by process."""
        found = self._client.key_value_dir_get(_UNDER_WAY)
        return {int(key.rpartition("/")[2]): int(number) for key, number in found}

    def tell_preempted(self, number: int) -> None:
        """Say that a process will be taken away, for those that watch with this number."""
        key = f"{_PREEMPTED}/{number}/notice/{self._group.process_index}"
        self._client.key_value_set(key, "")

    def is_preempted(self, number: int) -> bool:
        """Whether a process has said so."""
        return bool(self._client.key_value_dir_get(f"{_PREEMPTED}/{number}/notice"))

    def tell_steps(self, number: int, steps: int) -> None:
        """Say how many steps this process has taken."""
        key = f"{_PREEMPTED}/{number}/steps/{self._group.process_index}"
        self._client.key_value_set(key, str(steps))

    def steps(self, number: int) -> dict[int, int]:
        """The steps of the processes that have said so."""
        found = self._client.key_value_dir_get(f"{_PREEMPTED}/{number}/steps")
        return {int(key.rpartition("/")[2]): int(text) for key, text in found}

    def live(self) -> set[int]:
        """The processes that are alive, once all those have asked."""
        return jax_internals.live_processes(self._client, range(self._group.num_processes))
