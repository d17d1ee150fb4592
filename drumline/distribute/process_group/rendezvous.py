"""The rendezvous of processes at process 0's address, and the control channel that it leaves.

JAX's coordination service aborts a process when others do not come. The rendezvous takes place
before, on the same address: it names who is missing, and who has another cluster specification.

The connections stay open. The kernel closes a dead process's connections at once and keeps asking
whether a silent machine is there, however busy both processes are. So they report a death before
JAX's coordination service does, which aborts the survivors without a name when process 0 is lost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from drumline import _addresses
from drumline._rendezvous import (
    ChannelError,
    EventLoop,
    LineChannel,
    RendezvousServer,
    connect,
    hear,
)
from drumline.distribute.process_group.group import ProcessGroup
from drumline.distribute.process_group.peers import LocalProcess

_RETRY_SECONDS = 0.05
_GREETING_SECONDS = 10.0
_LONGEST = 1 << 20
"""Bytes of a line: all tasks, addresses and processes of some thousand hosts."""

_LONGEST_SHOWN = 4000


class Rendezvous(NamedTuple):
    """The result of a rendezvous.

    Attributes:
        processes: all of the group, by index.
        connections: to process 0, or from it to each other one, by index; they stay open.
    """

    processes: list[LocalProcess]
    connections: dict[int, socket.socket]


def meet(group: ProcessGroup, timeout_seconds: float) -> Rendezvous:
    """Wait until all processes of the group are there.

    Raises:
        RuntimeError: if this process 0 cannot listen on its address, if some do not come in time,
            or if they were given different clusters.
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


def _host(group: ProcessGroup, until: float) -> Rendezvous | str:
    come = {0: LocalProcess.this().to_json()}

    def introduce(channel: _JsonChannel, greeting: Any) -> int:
        _require_same_cluster(group, greeting, channel)
        index: int = greeting["index"]
        come[index] = _process(greeting.get("process")).to_json()
        return index

    with (
        contextlib.closing(EventLoop()) as loop,
        RendezvousServer(
            _listen(group),
            expected=range(1, group.num_processes),
            open_channel=_JsonChannel,
            introduce=introduce,
            lost=lambda channel, why: None,
            loop=loop,
            stranger_seconds=_GREETING_SECONDS,
        ) as server,
    ):
        if not server.wait(until):
            left = [group.tasks[index] for index in server.missing if index in come]
            missing = [group.tasks[index] for index in server.missing if index not in come]
            return "; ".join(
                [f"{', '.join(missing)} did not come"] * bool(missing)
                + [f"{task} came, and left before all were there" for task in left]
            )
        guests = server.members()
    everybody = [come[index] for index in range(group.num_processes)]
    for channel in guests.values():
        channel.send({"everybody": everybody})
    for index, channel in guests.items():
        if channel.broken:
            for each in guests.values():
                each.close()
            return f"{group.tasks[index]} came, and left before all were there"
    connections = {index: channel.detach() for index, channel in guests.items()}
    return Rendezvous([LocalProcess.from_json(text) for text in everybody], connections)


def _listen(group: ProcessGroup) -> socket.socket:
    address = group.addresses[0]
    try:
        return _addresses.listen(*_addresses.split(address))
    except OSError as error:
        raise RuntimeError(
            f"{group.task} cannot listen on its address in the cluster, {address}: {error}. The "
            f"address must be one of this machine and its port free; check that this is the "
            f"machine of {group.task}, and that no process of an earlier run is left."
        ) from error


def _visit(group: ProcessGroup, until: float) -> Rendezvous | str:
    greeting = {
        "tasks": group.tasks,
        "addresses": group.addresses,
        "index": group.process_index,
        "process": LocalProcess.this().to_json(),
    }
    problem = f"{group.tasks[0]} does not answer"
    with contextlib.closing(EventLoop()) as loop, contextlib.ExitStack() as on_failure:
        while time.monotonic() < until:
            try:
                host = connect(_addresses.split(group.addresses[0]), loop, until, _RETRY_SECONDS)
                channel = on_failure.enter_context(contextlib.closing(_JsonChannel(host)))
                channel.send(greeting)
                answer = hear(channel, loop, bool, until)[0]
            except OSError as error:
                problem, answer = f"{group.tasks[0]} does not answer ({error})", {}
            except ChannelError:
                problem = f"{group.tasks[0]} was there, but not all the others came"
                answer = {}
            if "everybody" in answer:
                try:
                    everybody = _everybody(group, answer["everybody"])
                except ChannelError as error:
                    raise RuntimeError(
                        f"{group.task} reached what is no process of this job at "
                        f"{group.describe(0)}: {error}. Is the port another program's?"
                    ) from None
                on_failure.pop_all()
                return Rendezvous(everybody, {0: channel.detach()})
            if "refused" in answer:
                reason = _printed(answer["refused"])
                raise RuntimeError(f"{group.task} was refused by {group.describe(0)}: {reason}")
            on_failure.close()
            loop.wait_until(lambda: False, deadline=min(time.monotonic() + _RETRY_SECONDS, until))
    return problem


def _require_same_cluster(
    group: ProcessGroup, greeting: dict[str, Any], guest: _JsonChannel
) -> None:
    sent = {"tasks": greeting.get("tasks"), "addresses": greeting.get("addresses")}
    own = {"tasks": list(group.tasks), "addresses": list(group.addresses)}
    index = greeting.get("index")
    if sent == own and isinstance(index, int) and 0 < index < group.num_processes:
        return
    if sent == {"tasks": None, "addresses": None}:
        raise ChannelError("it did not say which cluster it was given")
    refusal = (
        f"it was given the cluster {_printed(sent['tasks'])} at {_printed(sent['addresses'])}, and "
        f"{group.task} of {_printed(own['tasks'])} at {_printed(own['addresses'])}; all must be "
        f"given the same"
    )
    guest.send({"refused": refusal})
    raise RuntimeError(f"A process came to {group.describe(0)}, but {refusal}.")


def _process(text: object) -> LocalProcess:
    """The process that a peer said it is.

    Raises:
        ChannelError: if it is none.
    """
    try:
        process = LocalProcess.from_json(text) if isinstance(text, str) else None
    except (TypeError, ValueError, RecursionError):
        process = None
    if process is None or [type(each) for each in dataclasses.astuple(process)] != [str, int, int]:
        raise ChannelError("it did not say which process it is")
    return process


def _everybody(group: ProcessGroup, said: object) -> list[LocalProcess]:
    if not isinstance(said, list) or len(said) != group.num_processes:
        raise ChannelError(f"it did not name the group's {group.num_processes} processes")
    return [_process(text) for text in said]


def _printed(said: object) -> str:
    """What a peer said, short and without control characters, for a message to the user."""
    text = said if isinstance(said, str) and said.isprintable() else ascii(said)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


class _JsonChannel(LineChannel[dict[str, Any]]):
    """Objects of JSON; what they mean depends on who says them."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, _LONGEST)

    def encode(self, message: dict[str, Any]) -> bytes:
        return json.dumps(message).encode()

    def decode(self, line: bytes) -> dict[str, Any]:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise ChannelError("it sent what is no message")
        return message


_GLANCE_SECONDS = 1.0


def silence_seconds(heartbeat_timeout_seconds: int) -> int:
    """How long process 0 may be silent, less than it takes JAX to end this process for it."""
    return max(1, heartbeat_timeout_seconds * 3 // 5)


class ControlChannel:
    """This process's open connections, by the index of the process at the other end."""

    def __init__(self, connections: Mapping[int, socket.socket], heartbeat_timeout: int) -> None:
        self._connections = dict(connections)
        self._stopped = threading.Event()
        for connection in self._connections.values():
            connection.setblocking(False)
            _ask_often(connection, silence_seconds(heartbeat_timeout))

    def watch(self, ended: Callable[[int, bool], None], glance: Callable[[], None]) -> None:
        """Call `ended` for each connection that ends, and `glance` every second, until `stop`.

        `ended` is given the process and whether it was silent for too long (else it hung up).
        """
        with selectors.DefaultSelector() as selector:
            for index, connection in self._connections.items():
                selector.register(connection, selectors.EVENT_READ, index)
            while not self._stopped.is_set():
                for key, _ in selector.select(_GLANCE_SECONDS):
                    selector.unregister(key.fileobj)
                    silent = _was_silent(self._connections[key.data])
                    if not self._stopped.is_set():
                        ended(key.data, silent)
                if not self._stopped.is_set():
                    glance()

    def stop(self) -> None:
        """End `watch`."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.close()


def _was_silent(connection: socket.socket) -> bool:
    try:
        connection.recv(1)
    except OSError as error:
        return error.errno in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
    return False


def _ask_often(connection: socket.socket, silence: int) -> None:
    """Let the kernel end the connection when the other machine is silent for that long."""
    every = max(1, silence // 4)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", every),
        ("TCP_KEEPINTVL", every),
        ("TCP_KEEPCNT", max(1, silence // every - 1)),
        ("TCP_USER_TIMEOUT", silence * 1000),
    ):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
