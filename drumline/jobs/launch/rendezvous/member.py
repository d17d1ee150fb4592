"""The side of hosts 1 and up: they join host 0, report what happens, and follow its decisions."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable

from drumline.jobs.launch.coordination import Report, Verdict
from drumline.jobs.launch.errors import Interrupted, LaunchError
from drumline.jobs.launch.loop import Loop, wait_until
from drumline.jobs.launch.rendezvous.channel import Channel, ChannelError
from drumline.jobs.launch.rendezvous.messages import (
    Hello,
    HostFailure,
    Message,
    PartOfCluster,
    Refusal,
    ReportMessage,
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
    """

    def __init__(self, channel: Channel, loop: Loop, heard: Iterable[Message] = ()) -> None:
        self.trouble = ""
        self.all_trained = False
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

    def conclude(self, report: Report) -> Verdict:
        """Host 0's verdict."""
        self._tell(ReportMessage.of(report))
        if report.interrupted:
            return Verdict(False, final="This launcher was interrupted.")
        self._wait(lambda: self._verdict or self._lost)
        if self._verdict is None:
            return Verdict(False, report.suspects, f"It cannot be restarted: {self._lost}.")
        verdict, self._verdict = self._verdict, None
        self.trouble, self.all_trained = self._lost, False  # all else was about this start
        return verdict

    def close(self) -> None:
        """End the connection."""
        self._loop.forget(self._channel.fileno())
        self._channel.close()

    def _wait(self, ready: Callable[[], object]) -> None:
        try:
            wait_until(self._loop, ready, self.tick)
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
            try:
                self._channel.send(message)
            except ChannelError as error:
                self._lose(error)

    def _lose(self, error: ChannelError) -> None:
        self._loop.forget(self._channel.fileno())
        self._lost = f"the launcher of host 0 ({self._channel.peer}) is gone: {error}"
        self.trouble = self.trouble or self._lost


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
            raise ChannelError(f"unexpected message {heard[0].kind!r} (expected 'welcome')")
        channel.trust()
        return heard[1:]
    finally:
        loop.forget(channel.fileno())
