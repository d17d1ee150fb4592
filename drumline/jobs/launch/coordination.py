"""What the launchers of one job agree on; on a single host, each thing at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from drumline.jobs.launch.failure_cause import Suspect, in_order
from drumline.jobs.launch.tasks import Addresses


@dataclasses.dataclass(frozen=True)
class Report:
    """How one start of the job ended on one host.

    Attributes:
        trained: whether the chief and all workers here ended well.
        suspects: who may have made it fail.
        interrupted: the signal that ended this launcher, or 0.
        preempted: whether processes have saved and ended to be started again, and none has failed.
    """

    trained: bool
    suspects: tuple[Suspect, ...] = ()
    interrupted: int = 0
    preempted: bool = False


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How one start of the job ended on all hosts.

    Attributes:
        trained: whether the chief and all workers ended well, and no other process failed.
        suspects: who may have made it fail, the likeliest first.
        final: a reason why it must not be started again, or the empty string.
        preempted: whether processes have saved and ended to be started again, and none has failed.
    """

    trained: bool
    suspects: tuple[Suspect, ...] = ()
    final: str = ""
    preempted: bool = False


class LauncherGroup(Protocol):
    """The other launchers of the job."""

    @property
    def trouble(self) -> str:
        """What went wrong on another host, for which the processes here must end; or empty."""

    @property
    def all_trained(self) -> bool:
        """Whether the training is done on all hosts."""

    @property
    def all_silent(self) -> bool:
        """Whether the job has been found silent on all hosts."""

    def agree(self, part: Addresses) -> Addresses:
        """The whole cluster, of which this host makes up `part`."""

    def tick(self) -> None:
        """Do what is due; called several times a second."""

    def report_trained(self) -> None:
        """Tell the others that the training is done here."""

    def report_trouble(self, text: str) -> None:
        """Tell the others that something failed here."""

    def report_silent(self, silent: bool) -> None:
        """Tell the others whether the processes here have been silent for too long."""

    def conclude(self, report: Report) -> Verdict:
        """What all hosts make of it, from every host's report."""


class SingleHost:
    """The `LauncherGroup` of a job on one host."""

    trouble = ""

    def __init__(self) -> None:
        self.all_trained = self.all_silent = False

    def agree(self, part: Addresses) -> Addresses:
        """The cluster is `part`."""
        self.all_trained = self.all_silent = False
        return part

    def tick(self) -> None:
        """Nothing is ever due."""

    def report_trained(self) -> None:
        """There are no other hosts to wait for."""
        self.all_trained = True

    def report_trouble(self, text: str) -> None:
        """There are no other hosts to notify."""

    def report_silent(self, silent: bool) -> None:
        """There are no other hosts that may be not."""
        self.all_silent = silent

    def conclude(self, report: Report) -> Verdict:
        """What this host makes of it."""
        return merged([report])


def merged(reports: Sequence[Report]) -> Verdict:
    """The verdict on all hosts' reports."""
    all_suspects = in_order(suspect for report in reports for suspect in report.suspects)
    trained = all(report.trained and not report.interrupted for report in reports)
    preempted = any(report.preempted for report in reports) and not all_suspects
    return Verdict(trained and not all_suspects, tuple(all_suspects), preempted=preempted)
