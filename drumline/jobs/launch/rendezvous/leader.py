"""Host 0's side: it waits for the other hosts, and decides for all."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from collections.abc import Callable, Iterator

from drumline import _addresses
from drumline._lost_process import LostProcess
from drumline._rendezvous import ChannelError, RendezvousServer
from drumline.jobs.launch.coordination import Report, Verdict, merged
from drumline.jobs.launch.errors import Interrupted, LaunchError
from drumline.jobs.launch.failure_cause import Suspect
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.rendezvous.channel import LauncherChannel
from drumline.jobs.launch.rendezvous.messages import (
    Hello,
    HostFailure,
    Message,
    PartOfCluster,
    Refusal,
    ReportMessage,
    Silent,
    Trained,
    VerdictMessage,
    Welcome,
    WholeCluster,
    objection,
)
from drumline.jobs.launch.tasks import Addresses, joined


class Leader:
    """The `Coordination` of host 0.

    Args:
        channels: to the launchers of hosts 1 and up.
        loop: where their messages are waited for.

    Attributes:
        trouble: see `Coordination`.
        all_trained: see `Coordination`.
        all_silent: see `Coordination`.
    """

    def __init__(self, channels: dict[int, LauncherChannel], loop: Loop) -> None:
        self.trouble = ""
        self.all_trained = self.all_silent = False
        self._channels = channels
        self._hosts = set(channels)
        self._loop = loop
        self._final = ""
        self._parts: dict[int, PartOfCluster] = {}
        self._trained: set[int] = set()
        self._silent: set[int] = set()
        self._reports: dict[int, tuple[float, Report]] = {}
        for host, channel in channels.items():
            loop.watch(channel.fileno(), self._listener(host))

    def agree(self, part: Addresses) -> Addresses:
        """The whole cluster, once every host has named its part.

        Raises:
            LaunchError: if a host is lost or cannot start.
            Interrupted: at a signal.
        """
        self._wait(lambda: self._final or self.trouble or self._hosts <= set(self._parts))
        if self._final or self.trouble:
            raise LaunchError(self._final or self.trouble)
        others = [dict(self._parts[host].addresses) for host in sorted(self._hosts)]
        cluster = joined([part, *others])  # type: ignore[list-item]
        self._parts.clear()
        self._tell_all(WholeCluster(addresses=cluster))  # type: ignore[arg-type]
        return cluster

    def tick(self) -> None:
        """See that all are there."""
        for host, channel in list(self._channels.items()):
            with self._losing(host):
                channel.keep_alive()

    def report_trained(self) -> None:
        """Host 0's training is done."""
        self._note_trained(0)

    def report_trouble(self, text: str) -> None:
        """Stop the others."""
        self._tell_all(HostFailure(text=f"host 0: {text}"))

    def report_silent(self, silent: bool) -> None:
        """Whether host 0's processes are."""
        self._note_silent(0, silent)

    def conclude(self, report: Report) -> Verdict:
        """The verdict, once every host has reported or is lost."""
        if report.interrupted:
            verdict = Verdict(False, final="The launcher of host 0 was interrupted.")
            self._tell_all(VerdictMessage.of(verdict))
            return verdict
        self._reports[0] = (time.monotonic(), report)
        self._wait(lambda: set(self._channels) <= set(self._reports))
        now = time.monotonic()
        reports = [
            _aged(host, now - heard, report)
            for host, (heard, report) in sorted(self._reports.items())
        ]
        verdict = dataclasses.replace(merged(reports), final=self._final)
        if self._final:
            verdict = dataclasses.replace(verdict, trained=False)
        self._forget_this_start()  # before the others hear of it, and speak of the next
        self._tell_all(VerdictMessage.of(verdict))
        return verdict

    def _forget_this_start(self) -> None:
        self.trouble, self.all_trained, self.all_silent = "", False, False
        self._trained.clear()
        self._silent.clear()
        self._reports.clear()

    def close(self) -> None:
        """End all connections."""
        for host in list(self._channels):
            self._drop(host)

    def _wait(self, ready: Callable[[], object]) -> None:
        try:
            self._loop.wait_until(ready, self.tick)
        except Interrupted:
            self.report_trouble("its launcher was interrupted")
            raise

    def _listener(self, host: int) -> Callable[[], None]:
        def listen() -> None:
            with self._losing(host):
                channel = self._channels.get(host)
                for message in channel.receive() if channel else ():
                    self._heed(host, message)

        return listen

    def _heed(self, host: int, message: Message) -> None:
        if isinstance(message, PartOfCluster):
            self._parts[host] = message
        elif isinstance(message, Trained):
            self._note_trained(host)
        elif isinstance(message, Silent):
            self._note_silent(host, message.silent)
        elif isinstance(message, HostFailure):
            self._spread(f"host {host}: {message.text}")
        elif isinstance(message, ReportMessage):
            self._reports[host] = (time.monotonic(), message.report())
            if message.interrupted:
                self._final = f"The launcher of host {host} was interrupted."
        else:
            raise ChannelError(f"unexpected message {message.kind!r}")

    def _note_trained(self, host: int) -> None:
        self._trained.add(host)
        if self._hosts | {0} <= self._trained:
            self.all_trained = True
            self._tell_all(Trained())

    def _note_silent(self, host: int, silent: bool) -> None:
        (self._silent.add if silent else self._silent.discard)(host)
        if not self.all_silent and self._hosts | {0} <= self._silent:
            self.all_silent = True
            self._tell_all(Silent(silent=True))

    def _spread(self, text: str) -> None:
        if not self.trouble:
            self.trouble = text
            self._tell_all(HostFailure(text=text))

    @contextlib.contextmanager
    def _losing(self, host: int) -> Iterator[None]:
        """Take an error on the channel to `host` for its end."""
        try:
            yield
        except ChannelError as error:
            if host not in self._channels:
                return
            peer = self._channels[host].peer
            self._drop(host)
            expected = host in self._reports and self._reports[host][1].interrupted
            if not expected:
                text = LostProcess(f"the launcher of host {host}", str(error), peer).clause
                self._final = self._final or f"It cannot be restarted: {text}."
                self._spread(text)

    def _tell_all(self, message: Message) -> None:
        for channel in self._channels.values():
            channel.send(message)

    def _drop(self, host: int) -> None:
        channel = self._channels.pop(host)
        self._loop.forget(channel.fileno())
        channel.close()


def _aged(host: int, seconds: float, report: Report) -> Report:
    """`report` as of now, with the host named."""

    def located(suspect: Suspect) -> Suspect:
        age, log = suspect.age + seconds, f"on host {host}, {suspect.log}"
        return dataclasses.replace(suspect, age=age, log=log)

    return dataclasses.replace(report, suspects=tuple(map(located, report.suspects)))


def _listen(address: tuple[str, int]) -> socket.socket:
    try:
        return _addresses.listen(*address)
    except OSError as error:
        raise LaunchError(
            f"host 0 cannot listen at {address[0]}:{address[1]}: {error.strerror}. --rendezvous "
            f"takes an address of host 0 and a free port; is another launch using it, or "
            f"--node-rank 0 given on two hosts?"
        ) from None


_HELLO_SECONDS = 10.0


class HostRendezvous:
    """Accepts the launchers of hosts 1 and up.

    Whoever connects and is none of them is sent away and named to the user; it does not end the
    job, since anybody who reaches the port can connect.

    Args:
        address: where they connect.
        own: what host 0 would say in its `Hello`.
        token: what they must know, or None.
        loop: where they are waited for.
        say: shows the user a line.

    Raises:
        LaunchError: if the address is taken or not one of this host.
    """

    def __init__(
        self,
        address: tuple[str, int],
        own: Hello,
        token: str | None,
        loop: Loop,
        say: Callable[[str], None],
    ) -> None:
        self._own = own
        self._say = say
        self._server = RendezvousServer(
            _listen(address),
            expected=range(1, own.nodes),
            open_channel=lambda connection: LauncherChannel(connection, token, is_leader=True),
            introduce=self._introduce,
            lost=self._lost,
            loop=loop,
            stranger_seconds=_HELLO_SECONDS,
        )

    def gather(self, seconds: float) -> dict[int, LauncherChannel]:
        """The channels to all other hosts by rank, once all have come.

        Raises:
            LaunchError: naming those who have not come within `seconds`.
            Interrupted: at a signal.
        """
        with self._server as server:
            if not server.wait(time.monotonic() + seconds):
                names = ", ".join(map(str, server.missing))
                text = f"not all hosts came within {seconds:.0f} s; missing: --node-rank {names}"
                for channel in server.present.values():
                    channel.send(Refusal(reason=text))
                raise LaunchError(f"{text}. Were they started, and do they reach this address?")
            members = server.members()
        # Not sooner: a host that is welcome names its part at once, to one that listens to all.
        for channel in members.values():
            channel.send(Welcome())
        return members

    def _introduce(self, channel: LauncherChannel, message: object) -> int | None:
        if not isinstance(message, Hello):
            kind = getattr(message, "kind", None)
            raise ChannelError(f"unexpected message {kind!r} (expected 'hello')")
        reason = objection(message, self._own, self._server.present.keys())
        if reason:
            self._say(f"Host {message.node} ({channel.peer}) cannot join: {reason}.")
            channel.send(Refusal(reason=reason))
            return None
        channel.trust()
        self._say(f"Host {message.node} ({channel.peer}) has joined.")
        return message.node

    def _lost(self, channel: LauncherChannel, why: str) -> None:
        self._say(f"The connection from {channel.peer} was ended: {why}.")
        channel.send(Refusal(reason=why))  # it may be no launcher
