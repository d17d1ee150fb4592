"""Host 0 waits for the others to come."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.rendezvous.channel import Channel, ChannelError
from drumline.jobs.launch.rendezvous.membership import objection
from drumline.jobs.launch.rendezvous.messages import Hello, Message, Refusal, Welcome
from drumline.jobs.launch.rendezvous.waiting import wait_until

_HELLO_SECONDS = 10.0
_STRANGERS = 64
"""How many connections may be open that have not said who they are."""


class Gathering:
    """Accepts the launchers of hosts 1 and up.

    Whoever connects and is none of them is sent away and named to the user; it does not end the
    job, since anybody who reaches the port can connect.

    Args:
        listener: where they connect.
        own: what host 0 would say in its `Hello`.
        token: what they must know, or None.
        loop: where they are waited for.
        say: shows the user a line.
    """

    def __init__(
        self,
        listener: socket.socket,
        own: Hello,
        token: str | None,
        loop: Loop,
        say: Callable[[str], None],
    ) -> None:
        self._listener = listener
        self._own = own
        self._token = token
        self._loop = loop
        self._say = say
        self._strangers: dict[Channel, float] = {}
        self._members: dict[int, Channel] = {}

    def gather(self, seconds: float) -> dict[int, Channel]:
        """The channels to all other hosts by rank, once all have come.

        Raises:
            LaunchError: naming those who have not come within `seconds`.
            Interrupted: at a signal.
        """
        deadline = time.monotonic() + seconds
        self._loop.watch(self._listener.fileno(), self._accept)
        try:
            if not wait_until(self._loop, self._complete, self._tick, deadline):
                missing = [n for n in range(1, self._own.nodes) if n not in self._members]
                names = ", ".join(map(str, missing))
                text = f"not all hosts came within {seconds:.0f} s; missing: --node-rank {names}"
                for channel in list(self._members.values()):
                    self._refuse(channel, text)
                raise LaunchError(f"{text}. Were they started, and do they reach this address?")
            return self._members
        except BaseException:
            for channel in [*self._members.values()]:
                self._forget(channel)
            raise
        finally:
            self._loop.forget(self._listener.fileno())
            self._listener.close()
            for channel in list(self._strangers):
                self._forget(channel)
            for channel in self._members.values():
                self._loop.forget(channel.fileno())

    def _complete(self) -> bool:
        return len(self._members) == self._own.nodes - 1

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it left before it was let in
            return
        if len(self._strangers) >= _STRANGERS:
            connection.close()
            return
        try:
            channel = Channel(connection, self._token, is_leader=True)
        except (ChannelError, OSError):
            connection.close()
            return
        self._strangers[channel] = time.monotonic() + _HELLO_SECONDS
        self._loop.watch(channel.fileno(), lambda: self._listen(channel))

    def _listen(self, channel: Channel) -> None:
        try:
            for message in channel.receive():
                self._heed(channel, message)
        except ChannelError as error:
            self._lose(channel, str(error))

    def _heed(self, channel: Channel, message: Message) -> None:
        if not isinstance(message, Hello) or channel not in self._strangers:
            raise ChannelError("it spoke out of turn")
        reason = objection(message, self._own, set(self._members))
        if reason:
            self._say(f"Host {message.node} ({channel.peer}) cannot join: {reason}.")
            self._refuse(channel, reason)
            return
        del self._strangers[channel]
        self._members[message.node] = channel
        channel.trust()
        channel.send(Welcome())
        self._say(f"Host {message.node} ({channel.peer}) has joined.")

    def _refuse(self, channel: Channel, reason: str) -> None:
        try:
            channel.send(Refusal(reason=reason))
        except ChannelError:
            self._say(f"The launcher at {channel.peer} was gone before it could be refused.")
        self._forget(channel)

    def _tick(self) -> None:
        now = time.monotonic()
        for channel, limit in list(self._strangers.items()):
            if now > limit:
                self._lose(channel, f"it did not say who it is within {_HELLO_SECONDS:.0f} s")
        for channel in list(self._members.values()):
            try:
                channel.keep_alive()
            except ChannelError as error:
                self._lose(channel, str(error))

    def _lose(self, channel: Channel, why: str) -> None:
        self._say(f"The connection from {channel.peer} was ended: {why}.")
        with contextlib.suppress(ChannelError):  # it may be gone, or be no launcher
            channel.send(Refusal(reason=why))
        self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        self._loop.forget(channel.fileno())
        self._strangers.pop(channel, None)
        for node, member in list(self._members.items()):
            if member is channel:
                del self._members[node]
        channel.close()
