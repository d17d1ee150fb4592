"""From measurements to decisions, window by window; knows no clock and no threads."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Hashable, Mapping, Sequence

from drumline.data.autotune.model import Budget, Station, affordable, widths_for, with_spare

_WINDOWS = 5
_CHANGED = 1.4
_GAIN = 0.05
_HOLD = 40
_PATIENCE = 10


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


@dataclasses.dataclass(frozen=True)
class Cap:
    """More workers than ``width`` did not help, and need not be tried for so many windows."""

    width: int
    windows: int = _HOLD


class _History:
    """What an element has cost a station in the last windows."""

    def __init__(self) -> None:
        self._costs: deque[tuple[float, float, int]] = deque(maxlen=_WINDOWS)
        self._needed: deque[int] = deque(maxlen=_PATIENCE)
        self.cap: Cap | None = None

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
        if self.cap is not None:
            windows = self.cap.windows - 1
            self.cap = Cap(self.cap.width, windows) if windows > 0 else None
        return changed

    def lately_needed(self, width: int) -> int | None:
        """The most that any of the last windows asked for, this one for ``width``.

        ``None`` before there were enough of them.
        """
        self._needed.append(width)
        return max(self._needed) if len(self._needed) == _PATIENCE else None

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
        """The widths of stations that may change.

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
        fewest = widths_for(stations, self.budget)
        enough = with_spare(stations, fewest, self.budget)
        over = not affordable(stations, [sample.width for sample in samples], self.budget)
        wanted = {
            sample.key: self._next(sample, few, plenty, over)
            for sample, few, plenty in zip(samples, fewest, enough, strict=True)
            if sample.most > 1
        }
        before = {sample.key: sample.width for sample in samples}
        grown = {key: before[key] for key, width in wanted.items() if width > before[key]}
        self._tried = (rate, grown) if grown else None
        return wanted

    def hold(self, key: Hashable, cap: Cap | None) -> None:
        """Hears what was seen of a station before."""
        self._histories.setdefault(key, _History()).cap = cap

    def cap(self, key: Hashable) -> Cap | None:
        """What was seen of a station and still holds."""
        return self._histories[key].cap if key in self._histories else None

    def _note(self, sample: Sample, elements: float) -> bool:
        history = self._histories.setdefault(sample.key, _History())
        return history.add(sample.work / elements, sample.cpu / elements, sample.width)

    def _next(self, sample: Sample, fewest: int, enough: int, over: bool) -> int:
        """How many workers a station gets of which the model says so.

        They become more only if they are fewer than the fewest: what more threads wait for one
        another is measured as work, so that spare ones would ask for spare ones.

        They are made fewer at once only where the budget is exceeded. Those one too many only wait,
        while a load that returns, with the next epoch at the latest, would find too few.
        """
        needed = self._histories[sample.key].lately_needed(enough)
        if over or fewest > sample.width:
            return enough
        return sample.width if needed is None or needed > 0.8 * sample.width else needed

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
            self._histories[key].cap = Cap(width)
        return back

    def _station(self, sample: Sample) -> Station:
        history = self._histories[sample.key]
        if sample.most <= 1:
            return Station(history.work / sample.width, history.cpu)
        most = sample.most if history.cap is None else min(sample.most, history.cap.width)
        return Station(history.work, history.cpu, sample.nbytes, most)


def _differs(now: float, before: float) -> bool:
    low, high = sorted((now, before))
    return high > _CHANGED * low
