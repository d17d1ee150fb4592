"""The first meeting of a cluster's processes, at process 0's address, before JAX is asked.

JAX's coordination service aborts a process when others do not come. This meeting takes place
before, on the same address: it names who is missing, and who has been told of another cluster.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any, NamedTuple

from drumline.distribute.processes import addresses
from drumline.distribute.processes.group import ProcessGroup
from drumline.distribute.processes.local_process import LocalProcess

_RETRY_SECONDS = 0.05
_GREETING_SECONDS = 2.0
_LONGEST = 1 << 20


class Meeting(NamedTuple):
    """What comes of a meeting.

    Attributes:
        processes: all of the group, by index.
        connections: to process 0, or from it to each other one, by index; they stay open.
    """

    processes: list[LocalProcess]
    connections: dict[int, socket.socket]


def meet(group: ProcessGroup, timeout_seconds: float) -> Meeting:
    """Wait until all processes of the group are there.

    Raises:
        RuntimeError: if this process 0 cannot listen on its address, if some do not come in time,
            or if they were told of different clusters.
    """
    until = time.monotonic() + timeout_seconds
    found = (_visit if group.process_index else _host)(group, until)
    if isinstance(found, str):
        raise RuntimeError(
            f"{group.task} has waited {timeout_seconds:g} s at {group.describe(0)}: {found}. Start "
            f"every task of the cluster with the same TF_CONFIG but for its task, and check that "
            f"each machine reaches that address."
        )
    return found


def _host(group: ProcessGroup, until: float) -> Meeting | str:
    come = {0: LocalProcess.this().to_json()}
    guests: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as on_failure:
        with addresses.listen(group.addresses[0], group.task) as listener:
            while len(come) < group.num_processes:
                if time.monotonic() > until:
                    missing = [task for i, task in enumerate(group.tasks) if i not in come]
                    return f"{', '.join(missing)} did not come"
                listener.settimeout(max(0.01, until - time.monotonic()))
                with contextlib.suppress(OSError):  # nobody for long, or one who left at once
                    guest = on_failure.enter_context(listener.accept()[0])
                    greeting = _receive(guest)
                    if greeting is None:
                        guest.close()
                        continue
                    _require_same_cluster(group, greeting, guest)
                    come[greeting["index"]] = greeting["process"]
                    guests[greeting["index"]] = guest
        everybody = [come[index] for index in range(group.num_processes)]
        for index, guest in guests.items():
            try:
                _send(guest, {"everybody": everybody})
            except OSError:
                return f"{group.tasks[index]} came, and left before all were there"
        on_failure.pop_all()
    return Meeting([LocalProcess.from_json(text) for text in everybody], guests)


def _visit(group: ProcessGroup, until: float) -> Meeting | str:
    greeting = {
        "tasks": group.tasks,
        "addresses": group.addresses,
        "index": group.process_index,
        "process": LocalProcess.this().to_json(),
    }
    problem = ""
    while (left := until - time.monotonic()) > 0:
        answer = None
        try:
            host = socket.create_connection(addresses.split(group.addresses[0]), left)
            with contextlib.ExitStack() as on_failure:
                on_failure.enter_context(host)
                _send(host, greeting)
                answer = _receive(host, left)
                if answer and "everybody" in answer:
                    on_failure.pop_all()
            problem = f"{group.tasks[0]} was there, but not all the others came"
        except OSError as error:
            problem = f"{group.tasks[0]} does not answer ({error})"
        if answer and "everybody" in answer:
            everybody = [LocalProcess.from_json(text) for text in answer["everybody"]]
            return Meeting(everybody, {0: host})
        if answer and "refused" in answer:
            raise RuntimeError(
                f"{group.task} was refused by {group.describe(0)}: {answer['refused']}"
            )
        time.sleep(_RETRY_SECONDS)
    return problem or f"{group.tasks[0]} does not answer"


def _require_same_cluster(
    group: ProcessGroup, greeting: dict[str, Any], guest: socket.socket
) -> None:
    told = {"tasks": greeting.get("tasks"), "addresses": greeting.get("addresses")}
    own = {"tasks": list(group.tasks), "addresses": list(group.addresses)}
    index = greeting.get("index")
    if told == own and isinstance(index, int) and 0 < index < group.num_processes:
        return
    refusal = (
        f"it was told of the cluster {told['tasks']} at {told['addresses']}, and {group.task} of "
        f"{own['tasks']} at {own['addresses']}; all must be told the same"
    )
    _send(guest, {"refused": refusal})
    raise RuntimeError(f"A process came to {group.describe(0)}, but {refusal}.")


def _send(peer: socket.socket, message: dict[str, Any]) -> None:
    peer.sendall(json.dumps(message).encode() + b"\n")


def _receive(peer: socket.socket, seconds: float = _GREETING_SECONDS) -> dict[str, Any] | None:
    """The peer's message; None if it sends none, or something else."""
    peer.settimeout(seconds)
    try:
        with peer.makefile("rb") as lines:
            message = json.loads(lines.readline(_LONGEST))
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None
