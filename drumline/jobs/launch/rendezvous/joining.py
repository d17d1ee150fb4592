"""A host other than host 0 finds host 0 and is let in."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.rendezvous.channel import Channel, ChannelError
from drumline.jobs.launch.rendezvous.messages import Hello, Message, Refusal, Welcome
from drumline.jobs.launch.rendezvous.waiting import wait_until

_RETRY_SECONDS = 0.5
_CONNECT_SECONDS = 5.0


def join(
    address: tuple[str, int], hello: Hello, token: str | None, loop: Loop, seconds: float
) -> tuple[Channel, list[Message]]:
    """The channel to host 0, once it has welcomed this host, and what it said after that.

    Args:
        address: where host 0 listens, or soon will.
        hello: what this host says of itself.
        token: what both must know, or None.
        loop: where host 0's answer is waited for.
        seconds: how long to try.

    Raises:
        LaunchError: if host 0 does not answer in time, or refuses.
        Interrupted: at a signal.
    """
    deadline = time.monotonic() + seconds
    shown = f"{address[0]}:{address[1]}"
    connection = _connect(address, shown, loop, deadline, seconds)
    try:
        channel = Channel(connection, token, is_leader=False)
        heard = _introduce(channel, hello, loop, deadline, shown)
    except ChannelError as error:
        connection.close()
        raise LaunchError(f"the launcher of host 0 at {shown} cannot be joined: {error}.") from None
    except BaseException:
        connection.close()
        raise
    return channel, heard


def _connect(
    address: tuple[str, int], shown: str, loop: Loop, deadline: float, seconds: float
) -> socket.socket:
    problem: OSError | None = None
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(address, timeout=_CONNECT_SECONDS)
        except OSError as error:
            problem = error
        pause = time.monotonic() + _RETRY_SECONDS
        wait_until(loop, lambda: False, lambda: None, min(pause, deadline))
    raise LaunchError(
        f"host 0 did not answer at {shown} within {seconds:.0f} s "
        f"({problem.strerror or problem if problem else 'no time to try'}). Was it started with "
        f"the same --rendezvous, and is the port open?"
    )


def _introduce(
    channel: Channel, hello: Hello, loop: Loop, deadline: float, shown: str
) -> list[Message]:
    heard: list[Message] = []
    broken: list[ChannelError] = []

    def listen() -> None:
        try:
            heard.extend(channel.receive())
        except ChannelError as error:
            broken.append(error)
            loop.forget(channel.fileno())

    def wait(ready: Callable[[], object]) -> None:
        came = wait_until(loop, lambda: broken or ready(), lambda: None, deadline)
        if heard and isinstance(heard[0], Refusal):
            raise LaunchError(f"host 0 at {shown} refused this host: {heard[0].reason}.")
        if broken:
            raise broken[0]
        if not came:
            raise ChannelError("it did not answer in time")

    loop.watch(channel.fileno(), listen)
    try:
        wait(lambda: channel.greeted)
        channel.send(hello)
        wait(lambda: heard)
        if not isinstance(heard[0], Welcome):
            raise ChannelError("it spoke out of turn")
        channel.trust()
        return heard[1:]
    finally:
        loop.forget(channel.fileno())
