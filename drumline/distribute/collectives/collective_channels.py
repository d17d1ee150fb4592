"""The numbers by which processes match the collectives of a compiled program.

XLA runs the independent operations of a program in any order, and so in another order in another
process. Sums through shared memory therefore use numbered channels, each of which belongs to
one place in the program. Where a place would occur twice in a program, as in a function that JAX
traces once and calls twice, there is no number to give.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

from drumline._core import summing_limits
from drumline.training.jax_internals import current_trace

MOST_RANKS, LARGE_CHANNELS, SMALL_CHANNELS, SMALL_BYTES = summing_limits()


@dataclasses.dataclass(frozen=True)
class ChannelAllocator:
    """The first channels that are free.

    Attributes:
        large: of those for many bytes.
        small: of those for at most `SMALL_BYTES`.
    """

    large: int = 0
    small: int = 0

    def after(self, other: ChannelAllocator | None) -> ChannelAllocator:
        """The first channels that are free after both."""
        if other is None:
            return self
        return ChannelAllocator(max(self.large, other.large), max(self.small, other.small))


class Channels:
    """Gives the sums of one trace their channels.

    Args:
        first: the first ones to give.

    Attributes:
        trace: JAX's current one; whatever is traced within another trace inside of it may occur
            more than once in the program.
        first: the first ones that are free.
    """

    def __init__(self, first: ChannelAllocator) -> None:
        self.trace = current_trace()
        self.first = first

    def take(self, nbytes: int) -> int | None:
        """A channel for so many bytes, or None if none is left."""
        large, small = self.first.large, self.first.small
        if nbytes <= SMALL_BYTES:
            if small == SMALL_CHANNELS:
                return None
            self.first = ChannelAllocator(large, small + 1)
            return LARGE_CHANNELS + small
        if large == LARGE_CHANNELS:
            return None
        self.first = ChannelAllocator(large + 1, small)
        return large


class ChannelRange:
    """A function to be compiled, whose sums take the channels from `first` on.

    Args:
        function: it enters `numbering` where its sums may take channels.
        first: None if they may take none.

    Attributes:
        end: the channels that are free after it, once it has been traced up to there.
    """

    def __init__(self, function: Callable[..., Any], first: ChannelAllocator | None) -> None:
        self._function = function
        self._first = first
        self.end = first
        self.__name__ = function.__name__

    def __call__(self, *args: Any) -> Any:
        token = _start.set(self)
        try:
            return self._function(*args)
        finally:
            _start.reset(token)

    @contextlib.contextmanager
    def channels(self) -> Iterator[None]:
        """See `numbering`."""
        channels = None if self._first is None else Channels(self._first)
        token = _channels.set(channels)
        try:
            yield
        finally:
            _channels.reset(token)
            if channels is not None:
                self.end = channels.first.after(self.end)


_start: contextvars.ContextVar[ChannelRange | None] = contextvars.ContextVar(
    "drumline_numbered", default=None
)
_channels: contextvars.ContextVar[Channels | None] = contextvars.ContextVar(
    "drumline_channels", default=None
)


def allocate_channels() -> contextlib.AbstractContextManager[None]:
    """Let sums in the current trace take the channels of the `Numbered` function being traced."""
    numbered = _start.get()
    return contextlib.nullcontext() if numbered is None else numbered.channels()


def continued(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, part of the program being traced: its sums take the channels after those taken.

    It enters `numbering`, as a `Numbered` function does, and is called once.
    """

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        channels = channels_here()
        numbered = ChannelRange(function, None if channels is None else channels.first)
        outputs = numbered(*args)
        if channels is not None:
            channels.first = channels.first.after(numbered.end)
        return outputs

    return call


def channels_here() -> Channels | None:
    """The channels that a sum may take that is traced now, if there are."""
    channels = _channels.get()
    return channels if channels is not None and channels.trace is current_trace() else None
