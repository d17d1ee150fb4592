"""From measurements to decisions, window by window; knows no clock and no threads."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Hashable, Mapping, Sequence

from drumline.data.autotune.model import Budget, Station, widths_for

_WINDOWS = 5
_CHANGED = 1.4
_GAIN = 0.05
_HOLD = 40


@dataclasses.dataclass(frozen=True)
class Sample:
    """What a station did in one window.

    Attributes:
        key: which station it is.
        work: seconds of work, summed over workers.
        cpu: how many of them it computed.
        width: how many workers it had.
        most: how many it may have; a station that cannot change has as many as ``width``.
        nbytes: memory that each worker takes.
    """

    key: Hashable
    work: float
    cpu: float
    width: int = 1
    most: int = 1
    nbytes: int = 0


class _History:
    """What an element has cost a station in the last windows."""

    def __init__(self) -> None:
        self._costs: deque[tuple[float, float, int]] = deque(maxlen=_WINDOWS)
        self.cap: int | None = None
        self._capped_for = 0

    def add(self, work: float, cpu: float, width: int) -> bool:
        """Notes a window; tells whether the load has changed since the one before."""
        # The window after a change of width still has tasks that began before it.
        recent = list(self._costs)[-2:]
        steady = bool(recent) and all(entry[2] == width for entry in recent)
        changed = steady and _differs(work, recent[-1][0])
        if changed:
            self._costs.clear()
            self.cap = None
        self._costs.append((work, cpu, width))
        self._capped_for -= 1
        if self._capped_for <= 0:
            self.cap = None
        return changed

    def hold(self, width: int) -> None:
        """More workers than ``width`` did not help, and need not be tried for a while."""
        self.cap, self._capped_for = width, _HOLD

    @property
    def cpu(self) -> float:
        return self._costs[-1][1]

    @property
    def work(self) -> float:
        """Without the time in which it waited for a processor, as far as some window shows it."""
        return self.cpu + min(max(0.0, work - cpu) for work, cpu, _ in self._costs)


class Controller:
    """Decides after each window how many workers each station has in the next.

    The decision is the model's, for what was measured. Where more workers did not give more
    elements (functions that hold Python's lock, say), they are taken back.
    """

    def __init__(self, budget: Budget):
        self.budget = budget
        self._histories: dict[Hashable, _History] = {}
        self._tried: tuple[float, Mapping[Hashable, int]] | None = None

    def decide(
        self, samples: Sequence[Sample], elements: float, seconds: float
    ) -> dict[Hashable, int]:
        """The widths that should change, by station.

        Args:
            samples: of all stations; what they did in the window.
            elements: how many left the pipeline in it, more than none.
            seconds: how long it was.
        """
        changed = [self._note(sample, elements) for sample in samples]
        rate = elements / seconds
        undone = {} if any(changed) else self._undone(samples, rate)
        self._tried = None
        if undone:
            return undone
        stations = [self._station(sample) for sample in samples]
        found = widths_for(stations, self.budget)
        wanted = {
            sample.key: width
            for sample, width in zip(samples, found, strict=True)
            if sample.most > 1 and _worth(sample, width, self.budget.strict)
        }
        before = {sample.key: sample.width for sample in samples}
        grown = {key: before[key] for key, width in wanted.items() if width > before[key]}
        self._tried = (rate, grown) if grown else None
        return wanted

    def _note(self, sample: Sample, elements: float) -> bool:
        history = self._histories.setdefault(sample.key, _History())
        return history.add(sample.work / elements, sample.cpu / elements, sample.width)

    def _undone(self, samples: Sequence[Sample], rate: float) -> dict[Hashable, int]:
        """Back to what it was before the last try, if that gave nothing."""
        if self._tried is None:
            return {}
        before, grown = self._tried
        if rate >= before * (1 + _GAIN):
            return {}
        present = {sample.key for sample in samples}
        back = {key: width for key, width in grown.items() if key in present}
        for key, width in back.items():
            self._histories[key].hold(width)
        return back

    def _station(self, sample: Sample) -> Station:
        history = self._histories[sample.key]
        if sample.most <= 1:
            return Station(history.work / sample.width, history.cpu)
        most = sample.most if history.cap is None else min(sample.most, history.cap)
        return Station(history.work, history.cpu, sample.nbytes, most)


def _differs(now: float, before: float) -> bool:
    low, high = sorted((now, before))
    return high > _CHANGED * low


def _worth(sample: Sample, width: int, strict: bool) -> bool:
    """Small reductions are left: they gain nothing, and what is measured wavers."""
    if width < sample.width and not strict:
        return width <= 0.8 * sample.width
    return width != sample.width
