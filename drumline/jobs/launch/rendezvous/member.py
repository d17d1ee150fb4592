"""The side of hosts 1 and up: they tell host 0 what happens, and do what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from drumline.jobs.launch.coordination import Report, Verdict
from drumline.jobs.launch.errors import Interrupted, LaunchError
from drumline.jobs.launch.loop import Loop
from drumline.jobs.launch.rendezvous.channel import Channel, ChannelError
from drumline.jobs.launch.rendezvous.messages import (
    Message,
    PartOfCluster,
    Refusal,
    ReportMessage,
    Trained,
    Trouble,
    VerdictMessage,
    WholeCluster,
)
from drumline.jobs.launch.rendezvous.waiting import wait_until
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
        self._tell(Trouble(text=text))

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
        elif isinstance(message, Trouble):
            self.trouble = self.trouble or message.text
        elif isinstance(message, Refusal):
            self.trouble = self.trouble or message.reason
        elif isinstance(message, VerdictMessage):
            self._verdict = message.verdict()
        else:
            raise ChannelError(f"it sent a {message.kind} out of turn")

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
