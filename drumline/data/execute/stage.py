"""What every running operation offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumline.data.execute.block import Block
from drumline.data.execute.workers import Resizable
from drumline.data.observe.meter import Meter

State = dict[str, Any]
"""A JSON-able description of a position in a stream."""


class Described:
    """Something that ``explain()`` shows as a line with its parts below."""

    def describe(self) -> str:
        """One line."""
        raise NotImplementedError

    def parts(self) -> Sequence[Described]:
        """What it is made of."""
        raise NotImplementedError


class Stage(Described):
    """A stream of elements, pulled in blocks.

    A position of the stream is one element, or one error in an element's place. ``next`` covers at
    most ``limit`` positions and never reads more of its input than that requires, unless the stage
    is ``eager`` (reading ahead has no visible effect).
    """

    eager: bool = True
    """Whether elements may be computed before they are asked for: not so for a user's generator."""

    granule: int = 1
    """The number of elements that is cheapest to ask for at once (or a multiple of it)."""

    threaded: bool = False
    """Whether a thread of its own pulls from its inputs."""

    workers: int = 0
    """How many threads or processes compute for it beside the one that pulls from it."""

    workers_may_wait: bool = False
    """Whether workers may be occupied without computing: not so in compiled programs."""

    pool: Resizable | None = None
    """Its workers, if they are threads of this process or wait for others."""

    meter: Meter | None = None
    """What measures it while the dataset is observed."""

    def next(self, limit: int) -> Block | None:
        """The next block, at least one and at most ``limit`` positions; ``None`` at the end."""
        raise NotImplementedError

    def state(self) -> State:
        """The position, such that ``restore`` on a fresh stage goes on with the same elements."""
        raise NotImplementedError

    def restore(self, state: State) -> None:
        """Moves a fresh stage to ``state``."""
        raise NotImplementedError

    def advance(self, count: int) -> None:
        """Moves ``count`` positions on without delivering them."""
        while count > 0:
            block = self.next(count)
            if block is None:
                return
            count -= block.events

    def expect(self, positions: int) -> None:
        """Hears that no more than ``positions`` further ones will be asked for.

        Who makes elements of a user's ahead makes none past that.
        """

    def gathered(self, size: int) -> None:
        """Hears that its elements are put together by ``size``: a hint."""

    def queue(self) -> tuple[int, int] | None:
        """How much was made ahead and how much may be, ``None`` for a stage without a queue."""
        return None

    def most_nbytes(self) -> int | None:
        """About how many bytes it holds at most beside its blocks; ``None`` if elements say."""
        return 0

    def held_nbytes(self) -> int | None:
        """About how many bytes it holds now, of what ``most_nbytes`` counts; ``None``: not known.

        Only while the dataset is observed is it asked.
        """
        return None

    def inputs(self) -> Sequence[Stage]:
        """The stages this one pulls from."""
        return []

    def parts(self) -> Sequence[Described]:
        return self.inputs()

    def close(self) -> None:
        """Stops threads and releases what the stage holds."""
        for stage in self.inputs():
            stage.close()


class StartsEarly(Stage):
    """A stage that can begin its work before it is first asked."""

    def start(self) -> None:
        """Begins, without waiting; not to be restored after that."""
        raise NotImplementedError
