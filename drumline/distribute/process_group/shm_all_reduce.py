"""Memory in which the devices of all processes of a job sum, if all are of one machine."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from drumline._core import share_summing_memory, summing_limits, summing_memory_bytes
from drumline._shared_memory import SWITCH, MemoryOffer, create_memory, is_enabled
from drumline.distribute.process_group.coordination import KeyValueStore
from drumline.distribute.process_group.environment import collective_limit_seconds
from drumline.distribute.process_group.peers import Membership

_NONCE_AT = 64
_MOST_SECONDS = 60


def share(membership: Membership, process_of_rank: Sequence[int]) -> str:
    """Share memory for sums with all processes, which call this together.

    Either all of them share it, or none does.

    Args:
        membership: this process's.
        process_of_rank: the process of each rank.

    Returns:
        Why it is not shared; empty if it is.

    Raises:
        jax.errors.JaxRuntimeError: if a process does not say in time whether it can.
    """
    problem = _known_to_all(membership, len(process_of_rank))
    if problem:
        return problem
    blackboard, index = membership.coordination, membership.group.process_index
    nbytes = summing_memory_bytes(len(process_of_rank))
    opened: int | str = _offer(blackboard, nbytes) if index == 0 else _accept(blackboard, nbytes)
    try:
        blackboard.tell_memory(f"opened/{index}", opened if isinstance(opened, str) else "")
        for other in range(membership.group.num_processes):
            problem = blackboard.memory(f"opened/{other}", _MOST_SECONDS)
            if problem:
                return problem
        if isinstance(opened, int):
            own = [membership.processes[process] for process in process_of_rank]
            names = [membership.group.tasks[process] for process in process_of_rank]
            peers = [(name, o.pid, o.started) for name, o in zip(names, own, strict=True)]
            share_summing_memory(opened, peers, collective_limit_seconds())
        return ""
    finally:
        if isinstance(opened, int):
            os.close(opened)


def _known_to_all(membership: Membership, ranks: int) -> str:
    """What keeps the processes from sharing memory, if all of them know of it."""
    machines = {process.machine for process in membership.processes}
    if len(machines) > 1 or "" in machines:
        return "the processes run on several machines, or in several containers"
    most = summing_limits()[0]
    return f"there are {ranks} replicas, more than {most}" if ranks > most else ""


def _offer(blackboard: KeyValueStore, nbytes: int) -> int | str:
    """New memory, of which the others are notified; or why there is none."""
    try:
        if not is_enabled():
            raise OSError(f"{SWITCH} is 0")
        descriptor = create_memory(nbytes, reserved=nbytes)
    except OSError as error:
        blackboard.tell_memory("offer", "{}")
        return f"there is no shared memory: {error}"
    memory = MemoryOffer.of(descriptor, _NONCE_AT).to_json()
    blackboard.tell_memory("offer", json.dumps({"memory": memory, "network": _network()}))
    return descriptor


def _accept(blackboard: KeyValueStore, nbytes: int) -> int | str:
    """The memory of process 0; or why it cannot be used."""
    offered = json.loads(blackboard.memory("offer", _MOST_SECONDS))
    if not offered:
        return "there is no shared memory"
    if offered["network"] != _network():
        return "the processes run on several hosts, in network namespaces of one machine"
    try:
        if not is_enabled():
            raise OSError(f"{SWITCH} is 0")
        offer = MemoryOffer.parse(offered["memory"])
        if offer is None or offer.nbytes != nbytes:
            raise OSError(f"process 0 does not offer {nbytes} bytes")
        return offer.open(_NONCE_AT)
    except OSError as error:
        return f"shared memory cannot be opened: {error}"


def _network() -> str:
    """The network namespace: processes in several of them are meant to be on several hosts."""
    return os.readlink("/proc/self/ns/net")
