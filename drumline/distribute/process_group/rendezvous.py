"""The rendezvous of processes at process 0's address.

JAX's coordination service aborts a process when others do not come. The rendezvous takes place
before, on the same address: it names who is missing, and who has another cluster specification.
Where the processes have the cluster's token, no other takes part (`RendezvousChannel`). A stranger
is sent away, and a warning says so; he keeps no process from joining.

The connections stay open (`control_channel.py`). They report a death before JAX's coordination
service does, which aborts the survivors without a name when process 0 is lost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import logging
import socket
import time
from typing import Any, NamedTuple

from drumline import _addresses
from drumline._authentication import HOW_TO_SET, TokenError, given_token
from drumline._rendezvous import ChannelError, EventLoop, RendezvousServer, connect, hear
from drumline.distribute.process_group.control_channel import RefusedError, RendezvousChannel
from drumline.distribute.process_group.group import ProcessGroup
from drumline.distribute.process_group.peers import LocalProcess

_log = logging.getLogger("drumline")

_RETRY_SECONDS = 0.05
_GREETING_SECONDS = 10.0
"""How long each side has to say who it is."""
_MOST_LOGGED = 10
"""How many strangers have a line each in the log; the rest are counted."""

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
            if they were given different clusters, or not the same token.
    """
    until = time.monotonic() + timeout_seconds
    try:
        token = given_token()
    except TokenError as error:
        raise RuntimeError(str(error)) from None
    found = (_visit if group.process_index else _host)(group, token, until)
    if isinstance(found, str):
        raise RuntimeError(
            f"{group.task} has waited {timeout_seconds:g} s at {group.describe(0)}: {found}. Start "
            f"every task of the cluster with the same TF_CONFIG but for its task, and check that "
            f"each machine reaches that address."
        )
    return found


class _Strangers:
    """Who was sent away while the processes met: for the log, and for the error if they do not."""

    def __init__(self, group: ProcessGroup) -> None:
        self._place = group.describe(0)
        self._count = 0
        self._latest = ""

    def lost(self, channel: RendezvousChannel, why: str) -> None:
        """A connection has ended; that of a process of the group is not counted."""
        if channel.introduced:
            return
        self._count += 1
        self._latest = f"from {channel.peer}: {why}"
        if self._count <= _MOST_LOGGED:
            _log.warning("%s sends a connection away %s.", self._place, self._latest)

    def close(self) -> None:
        """Log how many were not."""
        if self._count > _MOST_LOGGED:
            more = self._count - _MOST_LOGGED
            _log.warning("%s has sent %d more connections away.", self._place, more)

    @property
    def shown(self) -> list[str]:
        """A part of a sentence that says what was seen of them, or nothing."""
        count = f"{self._count} connections were" if self._count > 1 else "a connection was"
        return [f"{count} sent away, the last {self._latest}"] * bool(self._count)


def _host(group: ProcessGroup, token: str | None, until: float) -> Rendezvous | str:
    come = {0: LocalProcess.this().to_json()}

    def introduce(channel: RendezvousChannel, greeting: Any) -> int:
        _require_same_cluster(group, greeting, channel, token)
        index: int = greeting["index"]
        come[index] = _process(greeting.get("process")).to_json()
        channel.introduced = True
        return index

    listener = _listen(group)
    if token is None:
        _warn_of_open_door(group, listener)
    with (
        contextlib.closing(EventLoop()) as loop,
        contextlib.closing(_Strangers(group)) as strangers,
        RendezvousServer(
            listener,
            expected=range(1, group.num_processes),
            open_channel=lambda connection: RendezvousChannel(connection, token, listens=True),
            introduce=introduce,
            lost=strangers.lost,
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
                + strangers.shown
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


def _warn_of_open_door(group: ProcessGroup, listener: socket.socket) -> None:
    """Other machines may be able to connect, unless the address is of this one alone."""
    host = str(listener.getsockname()[0]).partition("%")[0]
    if not ipaddress.ip_address(host).is_loopback:
        _log.warning(
            "%s waits for the others without a token: whoever reaches that address can take the "
            "place of a process. %s",
            *(group.describe(0), HOW_TO_SET),
        )


def _visit(group: ProcessGroup, token: str | None, until: float) -> Rendezvous | str:
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
                channel = on_failure.enter_context(
                    contextlib.closing(RendezvousChannel(host, token, listens=False))
                )
                _hear_greeting(channel, loop, until)
                channel.send(greeting)
                answer = hear(channel, loop, bool, until)[0]
            except RefusedError as error:
                raise RuntimeError(
                    f"{group.task} cannot join {group.describe(0)}: {error}"
                ) from None
            except OSError as error:
                problem, answer = f"{group.tasks[0]} does not answer ({error})", {}
            except ChannelError as error:
                problem = f"what answers there is not {group.tasks[0]} ({error})"
                if channel.greeted:
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


def _hear_greeting(channel: RendezvousChannel, loop: EventLoop, until: float) -> None:
    deadline = min(until, time.monotonic() + _GREETING_SECONDS)
    if hear(channel, loop, lambda heard: channel.greeted or heard, deadline):
        raise ChannelError("it said more before it was answered")


def _require_same_cluster(
    group: ProcessGroup, greeting: dict[str, Any], guest: RendezvousChannel, token: str | None
) -> None:
    """Refuse who was given another cluster; one that has the token has to be put right at once.

    Raises:
        ChannelError: if it is a stranger: he does not end the job.
        RuntimeError: if it is one of ours.
    """
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
    if token is None:
        raise ChannelError(refusal)
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
