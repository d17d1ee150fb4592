"""The side of hosts 1 and up: they join host 0, report what happens, and follow its decisions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from drumline._lost_process import LostProcess
from drumline._rendezvous import ChannelError, connect, hear
from drumline.jobs.launch.coordination import Report, Verdict
from drumline.jobs.launch.errors import Interrupted, LaunchError
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
)
from drumline.jobs.launch.tasks import Addresses


class Member:
    """The `Coordination` of a host other than host 0.

    Args:
        channel: to host 0's launcher, which has welcomed this host.
        loop: where its messages are waited for.
        heard: what it has said already.

    Attributes:
        trouble: see `Coordination`.
        all_trained: see `Coordination`.
        all_silent: see `Coordination`.
    """

    def __init__(self, channel: LauncherChannel, loop: Loop, heard: Iterable[Message] = ()) -> None:
        self.trouble = ""
        self.all_trained = self.all_silent = False
        self._said_silent = False
        self._channel = channel
        self._loop = loop
        self._lost = ""
        self._cluster: WholeCluster | None = None
        self._verdict: Verdict | None = None
        loop.watch(channel.fileno(), self._listen)
        for message in heard:
            self._heed(message)

    def agree(self, part: Addresses) -> Addresses:
        """The whole cluster, once host 0 has it together.

        Raises:
            LaunchError: if host 0 is lost or some host cannot start.
            Interrupted: at a signal.
        """
        self._tell(PartOfCluster(addresses=part))  # type: ignore[arg-type]
        self._wait(lambda: self._cluster or self.trouble)
        if self._cluster is None:
            raise LaunchError(self.trouble)
        cluster, self._cluster = self._cluster, None
        return {str(kind): list(addresses) for kind, addresses in cluster.addresses.items()}

    def tick(self) -> None:
        """See that host 0 is there."""
        if not self._lost:
            try:
                self._channel.keep_alive()
            except ChannelError as error:
                self._lose(error)

    def report_trained(self) -> None:
        """The training is done here."""
        self._tell(Trained())

    def report_trouble(self, text: str) -> None:
        """Something failed here."""
        self._tell(HostFailure(text=text))

    def report_silent(self, silent: bool) -> None:
        """Whether the processes here are."""
        if silent != self._said_silent:
            self._said_silent = silent
            self._tell(Silent(silent=silent))

    def conclude(self, report: Report) -> Verdict:
        """Host 0's verdict."""
        self._tell(ReportMessage.of(report))
        if report.interrupted:
            return Verdict(False, final="This launcher was interrupted.")
        self._wait(lambda: self._verdict or self._lost)
        if self._verdict is None:
            return Verdict(False, report.suspects, f"It cannot be restarted: {self._lost}.")
        verdict, self._verdict = self._verdict, None
        self.trouble = self._lost  # all else was about this start
        self.all_trained = self.all_silent = self._said_silent = False
        return verdict

    def close(self) -> None:
        """End the connection."""
        self._loop.forget(self._channel.fileno())
        self._channel.close()

    def _wait(self, ready: Callable[[], object]) -> None:
        try:
            self._loop.wait_until(ready, self.tick)
        except Interrupted:
            self.report_trouble("its launcher was interrupted")
            raise

    def _listen(self) -> None:
        try:
            for message in self._channel.receive():
                self._heed(message)
        except ChannelError as error:
            self._lose(error)

    def _heed(self, message: Message) -> None:
        if isinstance(message, WholeCluster):
            self._cluster = message
        elif isinstance(message, Trained):
            self.all_trained = True
        elif isinstance(message, Silent):
            self.all_silent = message.silent
        elif isinstance(message, HostFailure):
            self.trouble = self.trouble or message.text
        elif isinstance(message, Refusal):
            self.trouble = self.trouble or message.reason
        elif isinstance(message, VerdictMessage):
            self._verdict = message.verdict()
        else:
            raise ChannelError(f"unexpected message {message.kind!r}")

    def _tell(self, message: Message) -> None:
        if not self._lost:
            self._channel.send(message)

    def _lose(self, error: ChannelError) -> None:
        self._loop.forget(self._channel.fileno())
        lost = LostProcess("the launcher of host 0", str(error), self._channel.peer)
        self._lost = lost.clause
        self.trouble = self.trouble or self._lost


_RETRY_SECONDS = 0.5


def join(
    address: tuple[str, int], hello: Hello, token: str | None, loop: Loop, seconds: float
) -> tuple[LauncherChannel, list[Message]]:
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
    try:
        connection = connect(address, loop, deadline, _RETRY_SECONDS)
    except OSError as error:
        raise LaunchError(
            f"host 0 did not answer at {shown} within {seconds:.0f} s ({error.strerror or error}). "
            f"Was it started with the same --rendezvous, and is the port open?"
        ) from None
    try:
        channel = LauncherChannel(connection, token, is_leader=False)
        heard = _introduce(channel, hello, loop, deadline, shown)
    except (ChannelError, OSError) as error:
        connection.close()
        raise LaunchError(f"the launcher of host 0 at {shown} cannot be joined: {error}.") from None
    except BaseException:
        connection.close()
        raise
    return channel, heard


def _introduce(
    channel: LauncherChannel, hello: Hello, loop: Loop, deadline: float, shown: str
) -> list[Message]:
    heard = hear(channel, loop, lambda heard: channel.greeted or heard, deadline)
    if not heard:
        channel.send(hello)
        heard = hear(channel, loop, bool, deadline)
    if isinstance(heard[0], Refusal):
        raise LaunchError(f"host 0 at {shown} refused this host: {heard[0].reason}.")
    if not isinstance(heard[0], Welcome):
        raise ChannelError(f"unexpected message {heard[0].kind!r} (expected 'welcome')")
    channel.trust()
    return heard[1:]
