"""The description of a workload: its contenders, its scale, its floors and its check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement

Problems = dict[str, str]


@dataclass(frozen=True)
class Scale:
    """How much work one run does.

    Attributes:
        elements: elements (or training examples) in one epoch.
        batch_size: elements in a full batch.
        later_epochs: epochs after the first.
    """

    elements: int
    batch_size: int
    later_epochs: int


@dataclass(frozen=True)
class Contender:
    """One way of doing a workload.

    Attributes:
        name: unique within the workload; what tables show.
        about: how it does the work, in one line.
        requires: modules its interpreter must be able to import.
        run: does the work once in this process and measures it.
    """

    name: str
    about: str
    requires: tuple[str, ...]
    run: Callable[[Scale], Measurement]


@dataclass(frozen=True)
class Workload:
    """A task that every contender does the same way, with the floors ours must reach.

    Attributes:
        name: what the command line calls it.
        title: what the report calls it.
        unit: what is counted, such as "elements".
        baseline: the contender whose speed is 1 in the picture.
        full, quick: the scale of a real run and of a trial.
        contenders: in the order in which a round runs them; ours is named ``drumline``.
        floors: the least speeds asked of ours.
        check: given the scale and one measurement for each contender, the problems found,
            by contender; empty when all did the same work.
        timeout_s: a run that takes longer counts as hung.
        turns: how often the contenders take turns in one process, where they differ by less than
            two processes of the same contender do; 0 where each has a process of its own.
    """

    name: str
    title: str
    unit: str
    baseline: str
    full: Scale
    quick: Scale
    contenders: tuple[Contender, ...]
    floors: tuple[Floor, ...]
    check: Callable[[Scale, Mapping[str, Measurement]], Problems]
    timeout_s: float = 300.0
    turns: int = 0

    def contender(self, name: str) -> Contender:
        """The contender of that name.

        Raises:
            KeyError: there is none; the message lists those there are.
        """
        for contender in self.contenders:
            if contender.name == name:
                return contender
        names = ", ".join(contender.name for contender in self.contenders)
        raise KeyError(f"workload {self.name!r} has no contender {name!r}; it has {names}")
