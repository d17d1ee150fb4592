"""Elements drawn from several datasets: by chance, by a dataset of choices, or by class."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from drumline._core import mix64
from drumline._memory import BufferPool
from drumline.data.elements.block import Block
from drumline.data.elements.errors import at_element
from drumline.data.elements.rows import stack
from drumline.data.elements.seeds import uniform
from drumline.data.elements.spec import INFINITE, LEAF_STRUCTURE, UNKNOWN, ElementSpec, TensorSpec
from drumline.data.plan.node import Node, Pass, Specified, Trail
from drumline.data.runtime.stage import CountingStage, PushbackBuffer, ServingStage, Stage, State

if TYPE_CHECKING:
    from drumline.data.engine.lowering import Lowering


@dataclasses.dataclass(frozen=True, eq=False)
class Drawn(Specified):
    """Elements of several datasets, each time of one of them.

    Attributes:
        stop_on_empty: whether it ends when a dataset that is drawn from has.
    """

    stop_on_empty: bool

    def among(self, datasets: Sequence[Node], choices: int) -> int:
        """Return the cardinality, if there are ``choices`` draws."""
        sizes = [node.cardinality for node in datasets]
        if choices == 0 or all(size == 0 for size in sizes):
            return 0
        if choices != INFINITE:
            return UNKNOWN
        unending = [size == INFINITE for size in sizes]
        endless = all(unending) if self.stop_on_empty else any(unending)
        return INFINITE if endless else UNKNOWN


@dataclasses.dataclass(frozen=True, eq=False)
class SampleFromDatasets(Drawn):
    """Draws by chance.

    Attributes:
        weights: of the datasets; ``None``: the last input gives weights for each draw.
        seed: always set here, drawn when the user gave none.
        rerandomize: whether each epoch, and each pass of a ``repeat``, draws again.
    """

    weights: tuple[float, ...] | None
    seed: int
    rerandomize: bool
    name: ClassVar[str] = "sample_from_datasets"
    digest_name: ClassVar[str | None] = "Sample"

    @property
    def datasets(self) -> tuple[Node, ...]:
        """The datasets that elements are taken from."""
        return self.inputs if self.weights is not None else self.inputs[:-1]

    @property
    def cardinality(self) -> int:
        choices = INFINITE if self.weights is not None else self.inputs[-1].cardinality
        return self.among(self.datasets, choices)

    def arguments(self) -> str:
        weights = "a dataset" if self.weights is None else list(self.weights)
        return (
            f"weights={weights}, stop_on_empty_dataset={self.stop_on_empty}, "
            f"rerandomize_each_iteration={self.rerandomize}"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Choose(Drawn):
    """Takes the dataset whose number the first input gives."""

    name: ClassVar[str] = "choose_from_datasets"

    @property
    def cardinality(self) -> int:
        return self.among(self.inputs[1:], self.inputs[0].cardinality)

    def arguments(self) -> str:
        return f"stop_on_empty_dataset={self.stop_on_empty}"


@dataclasses.dataclass(frozen=True, eq=False)
class ByClass(Node):
    """Something about elements ``(class, data)``.

    Attributes:
        target: the shares that the classes shall have.
        initial: the shares that they have; ``None`` if these are counted on the way.
    """

    target: tuple[float, ...]
    initial: tuple[float, ...] | None

    def arguments(self) -> str:
        initial = "counted" if self.initial is None else list(self.initial)
        return f"target_dist={list(self.target)}, initial_dist={initial}"


@dataclasses.dataclass(frozen=True, eq=False)
class Thin(ByClass):
    """Drops elements at random, so many of each class that the shares are right."""

    seed: int
    name: ClassVar[str] = "reject"

    @property
    def cardinality(self) -> int:
        inner = self.input.cardinality
        return inner if inner in (0, INFINITE) else UNKNOWN


@dataclasses.dataclass(frozen=True, eq=False)
class OriginalShare(ByClass):
    """Return, after each element, a pair of weights: the share that need not be thinned."""

    name: ClassVar[str] = "share of the original"

    @property
    def spec(self) -> ElementSpec:
        return ElementSpec(LEAF_STRUCTURE, (TensorSpec((2,), np.float64),))


Numbers = tuple[np.ndarray, Exception | None]
"""Numbers of datasets, int64 (k,), and perhaps the error that stands for a further one."""


class Choices:
    """A sequence of datasets' numbers that can be resumed at any point."""

    allows_readahead = True

    def peek(self, limit: int) -> Numbers | None:
        """Return up to ``limit`` of the next numbers; ``None`` at the end."""
        raise NotImplementedError

    def commit(self, count: int) -> None:
        """Mark the first ``count`` of the last ``peek``, error included, as used."""
        raise NotImplementedError

    def state(self) -> State:
        """Return the position, for ``restore``."""
        raise NotImplementedError

    def restore(self, state: State) -> None:
        """Move fresh choices to ``state``."""
        raise NotImplementedError

    def inputs(self) -> Sequence[Stage]:
        """Return the stages they are read from."""
        return []

    def describe(self) -> str:
        """Return a few words for ``explain()``."""
        raise NotImplementedError


class Weighted(Choices):
    """Drawn with constant weights."""

    def __init__(self, weights: Sequence[float], key: int):
        self._sums = np.cumsum(np.asarray(weights, np.float64))
        self._key = key
        self._drawn = 0

    def peek(self, limit: int) -> Numbers:
        marks = uniform(self._key, self._drawn, limit) * self._sums[-1]
        return np.searchsorted(self._sums, marks, side="right"), None

    def commit(self, count: int) -> None:
        self._drawn += count

    def state(self) -> State:
        return {"drawn": self._drawn}

    def restore(self, state: State) -> None:
        self._drawn = state["drawn"]

    def describe(self) -> str:
        return "at random"


class Read(Choices):
    """Elements of a stage."""

    def __init__(self, source: Stage):
        self.allows_readahead = source.allows_readahead
        self._source = source
        self._pushback = PushbackBuffer(source)
        self._read = 0

    def peek(self, limit: int) -> Numbers | None:
        block = self._pushback.peek(limit)
        if block is None:
            return None
        return block.columns[0][: block.n], block.error

    def commit(self, count: int) -> None:
        self._pushback.commit(count)
        self._read += count

    def state(self) -> State:
        return {"read": self._read, "input": self._pushback.state()}

    def restore(self, state: State) -> None:
        self._read = state["read"]
        self._pushback.restore(state["input"])

    def inputs(self) -> Sequence[Stage]:
        return [self._source]

    def describe(self) -> str:
        return "by the first"


class WeightedAnew(Read):
    """Drawn with weights that a stage gives, float (m,) for each draw."""

    def __init__(self, source: Stage, key: int):
        super().__init__(source)
        self._key = key

    def peek(self, limit: int) -> Numbers | None:
        found = super().peek(limit)
        if found is None:
            return None
        weights, error = np.asarray(found[0], np.float64), found[1]
        wrong = (weights < 0).any(axis=1) | ~(weights.sum(axis=1) > 0)
        if wrong.any():
            row = int(np.argmax(wrong))
            error = ValueError(
                f"sample_from_datasets: the weights of draw {self._read + row} must be at least 0, "
                f"and one of them positive; they are {weights[row].tolist()}"
            )
            weights = weights[:row]
        sums = np.cumsum(weights, axis=1)
        marks = uniform(self._key, self._read, len(weights))
        if not len(weights):
            return np.empty(0, np.int64), error
        return (sums <= (marks * sums[:, -1])[:, None]).sum(axis=1), error

    def describe(self) -> str:
        return "at random, with weights of the last"


@dataclasses.dataclass
class _Stop:
    """Where a block ends: before the draw ``place``, whose outcome may be an error."""

    place: int
    error: Exception | None = None
    failing: int | None = None
    ended: bool = False

    def earlier(self, place: int) -> bool:
        return place < self.place


class ChooseStage(Stage):
    """Draws a whole block of numbers, takes from each stream what falls to it, and merges.

    A draw of a stream that has ended gives nothing, or ends it all.
    """

    def __init__(
        self,
        choices: Choices,
        sources: Sequence[Stage],
        stop_on_empty: bool,
        spec: ElementSpec,
        pool: BufferPool,
        operation: str,
    ):
        self.sources = list(sources)
        self.allows_readahead = choices.allows_readahead and all(
            source.allows_readahead for source in sources
        )
        self._choices = choices
        self._pushbacks = [PushbackBuffer(source) for source in sources]
        self._live = np.ones(len(sources), bool)
        self._stop_on_empty = stop_on_empty
        self._spec = spec
        self._pool = pool
        self._operation = operation
        self._draws = 0

    def next(self, limit: int) -> Block | None:
        while self._live.any():
            drawn = self._choices.peek(limit if self.allows_readahead else 1)
            if drawn is None:
                return None
            stop = self._valid(*drawn)
            places = self._places(drawn[0][: stop.place])
            blocks = self._pulled(places, stop)
            block = self._merged(places, blocks, stop)
            if stop.ended and not block.events:
                return None
            self._commit(places, stop)
            if block.events:
                return block
        return None

    def _valid(self, numbers: np.ndarray, error: Exception | None) -> _Stop:
        wrong = (numbers < 0) | (numbers >= len(self.sources))
        if not wrong.any():
            return _Stop(len(numbers), error)
        place = int(np.argmax(wrong))
        return _Stop(
            place,
            IndexError(
                f"{self._operation}: element {self._draws + place} chooses dataset "
                f"{numbers[place]}, but there are {len(self.sources)}: it must be at least 0 and "
                "less than that"
            ),
        )

    def _places(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Return, for each stream that has not ended, its draws, ascending."""
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(len(self.sources) + 1))
        return [
            order[bounds[i] : bounds[i + 1]] if live else order[:0]
            for i, live in enumerate(self._live)
        ]

    def _pulled(self, places: Sequence[np.ndarray], stop: _Stop) -> list[Block | None]:
        """Return a block of each stream; move ``stop`` to the first draw that cannot be served."""
        blocks: list[Block | None] = []
        for which, draws in enumerate(places):
            block = self._peek(which, len(draws)) if len(draws) else None
            blocks.append(block)
            if not len(draws):
                continue
            if block is None:
                self._note_end(which, int(draws[0]), stop)
            elif block.error is not None:
                if stop.earlier(int(draws[block.n])):
                    stop.place, stop.error = int(draws[block.n]), block.error
                    stop.failing, stop.ended = which, False
            elif block.n < len(draws) and stop.earlier(int(draws[block.n])):
                stop.place, stop.error = int(draws[block.n]), None
                stop.failing, stop.ended = None, False
        self._stop_at_other_shapes(places, blocks, stop)
        return blocks

    def _peek(self, which: int, count: int) -> Block | None:
        pushback, source = self._pushbacks[which], self.sources[which]
        if self.allows_readahead and not pushback.events:
            # A function compiled for many rows costs the same for few.
            pushback.peek(-(-count // source.preferred_block_size) * source.preferred_block_size)
        return pushback.peek(count)

    def _note_end(self, which: int, place: int, stop: _Stop) -> None:
        if not self._stop_on_empty:
            self._live[which] = False
        if (self._stop_on_empty or not self._live.any()) and stop.earlier(place):
            stop.place, stop.error, stop.failing, stop.ended = place, None, None, True

    def _stop_at_other_shapes(
        self, places: Sequence[np.ndarray], blocks: Sequence[Block | None], stop: _Stop
    ) -> None:
        found = [
            (int(draws[0]), block)
            for draws, block in zip(places, blocks, strict=True)
            if block is not None and block.n
        ]
        if len(found) < 2:
            return
        first = min(found, key=lambda pair: pair[0])[1]
        for place, block in found:
            if not block.same_shapes(first) and stop.earlier(place):
                stop.place, stop.error, stop.failing, stop.ended = place, None, None, False

    def _merged(
        self, places: Sequence[np.ndarray], blocks: Sequence[Block | None], stop: _Stop
    ) -> Block:
        served = [
            (draws[: int(np.searchsorted(draws, stop.place))], block)
            for draws, block in zip(places, blocks, strict=True)
            if block is not None
        ]
        served = [(draws, block) for draws, block in served if len(draws)]
        if not served:
            return Block(stack([], self._spec), 0, stop.error)
        if len(served) == 1:
            ((draws, block),) = served
            return Block([column[: len(draws)] for column in block.columns], len(draws), stop.error)
        live = np.zeros(stop.place, bool)
        for draws, _ in served:
            live[draws] = True
        rank = np.cumsum(live) - 1
        total = int(rank[-1]) + 1
        columns = []
        for leaf, model in enumerate(served[0][1].columns):
            out = self._pool.empty((total, *model.shape[1:]), model.dtype)
            for draws, block in served:
                out[rank[draws]] = block.columns[leaf][: len(draws)]
            out.flags.writeable = False
            columns.append(out)
        return Block(columns, total, stop.error)

    def _commit(self, places: Sequence[np.ndarray], stop: _Stop) -> None:
        for which, (pushback, draws) in enumerate(zip(self._pushbacks, places, strict=True)):
            if self._live[which]:
                pushback.commit(int(np.searchsorted(draws, stop.place)) + (which == stop.failing))
        used = stop.place + (stop.error is not None)
        self._choices.commit(used)
        self._draws += used

    def state(self) -> State:
        return {
            "draws": self._draws,
            "choices": self._choices.state(),
            "inputs": [pushback.state() for pushback in self._pushbacks],
        }

    def restore(self, state: State) -> None:
        self._draws = state["draws"]
        self._choices.restore(state["choices"])
        for pushback, saved in zip(self._pushbacks, state["inputs"], strict=True):
            pushback.restore(saved)

    def inputs(self) -> Sequence[Stage]:
        return [*self._choices.inputs(), *self.sources]

    def describe(self) -> str:
        return f"one of {len(self.sources)} datasets each time, {self._choices.describe()}"


_SMOOTHING = 10
"""How many elements of each class are taken for seen before the first, as in ``tf.data``."""


class Shares:
    """The classes' shares among the elements, given or counted.

    Attributes:
        counts: how many elements of each class were seen, if they are counted.
    """

    def __init__(self, target: Sequence[float], initial: Sequence[float] | None):
        self.target = np.asarray(target, np.float32)
        self._initial = None if initial is None else np.asarray(initial, np.float32)
        self.counts = np.full(len(self.target), _SMOOTHING, np.int64)

    def ratios(self, classes: np.ndarray) -> np.ndarray:
        """Return, after each element, the wanted by the actual share of each class.

        Args:
            classes: (n,), which are counted by this.

        Returns:
            float32 (n, number of classes), or (1, ...) if the shares are given.
        """
        if self._initial is not None:
            return ratios(self.target, self._initial)[None]
        seen = np.cumsum(classes[:, None] == np.arange(len(self.target)), axis=0) + self.counts
        if len(seen):
            self.counts = seen[-1]
        return ratios(self.target, (seen / seen.sum(axis=1, keepdims=True)).astype(np.float32))


def ratios(target: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """Wanted by actual share."""
    return target / (initial + np.finfo(np.float32).tiny)


class ByClassStage(CountingStage):
    """Base of the stages that have the state of shares."""

    def __init__(self, source: Stage, shares: Shares):
        super().__init__(source)
        self.preferred_block_size = source.preferred_block_size
        self._shares = shares

    def _peek(self, limit: int) -> tuple[Block, np.ndarray] | None:
        """Return a block and its classes; one that is not among the known ends it with an error."""
        block = self._pushback.peek(limit)
        if block is None:
            return None
        classes = block.columns[0][: block.n]
        known = len(self._shares.target)
        wrong = (classes < 0) | (classes >= known)
        if not wrong.any():
            return block, classes
        row = int(np.argmax(wrong))
        error = IndexError(f"class_func returned {classes[row]}, but there are {known} classes")
        at_element(error, self._position + row, "rejection_resample")
        columns = [column[:row] for column in block.columns]
        return Block(columns, row, error), classes[:row]

    def state(self) -> State:
        return {**super().state(), "counts": self._shares.counts.tolist()}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._shares.counts = np.array(state["counts"], np.int64)


class Thinned(ByClassStage):
    """Blocks without what is rejected; only ``ThinStage`` pulls it."""

    def __init__(self, source: Stage, shares: Shares, key: int):
        super().__init__(source, shares)
        self._key = key

    def next(self, limit: int) -> Block | None:
        found = self._peek(limit)
        if found is None:
            return None
        block, classes = found
        wanted = self._shares.ratios(classes)
        least = wanted.min(axis=1, keepdims=True)
        # Equal ratios everywhere: 0 / 0, nothing is accepted; all comes from the original then.
        with np.errstate(invalid="ignore"):
            accept = (wanted - least) / (wanted.max(axis=1, keepdims=True) - least)
        mine = accept[np.minimum(np.arange(block.n), len(accept) - 1), classes]
        keep = uniform(self._key, self._position, block.n) < mine
        self._use(block.events)
        out = block.select(keep)
        out.error = block.error
        return out

    def describe(self) -> str:
        return "reject by class"


class ThinStage(ServingStage):
    """Serves what a ``Thinned`` let through."""

    def __init__(self, source: Stage, shares: Shares, key: int):
        super().__init__(Thinned(source, shares, key))

    def describe(self) -> str:
        return "what was accepted"


class OriginalShareStage(ByClassStage):
    """Return, after each element, the weights of the original and the thinned dataset."""

    def next(self, limit: int) -> Block | None:
        found = self._peek(limit)
        if found is None:
            return None
        block, classes = found
        self._use(block.events)
        share = np.broadcast_to(self._shares.ratios(classes).min(axis=1), block.n)
        share = np.minimum(share.astype(np.float64), 1.0)
        return Block([np.stack([share, 1.0 - share], axis=1)], block.n, block.error)

    def describe(self) -> str:
        return "share of the original, by classes seen"


_DRAWING = 0x53414D504C45
"""Distinguishes the draws of these operations from shuffles of the same seed."""


def lower_sample(lowering: Lowering, node: SampleFromDatasets, trail: Trail, run: Pass) -> Stage:
    key = _key(node.seed, run if node.rerandomize else ())
    stages = [lowering.input(node, trail, run, i) for i in range(len(node.inputs))]
    choices: Choices
    if node.weights is None:
        choices = WeightedAnew(stages.pop(), key)
    else:
        choices = Weighted(node.weights, key)
    return ChooseStage(choices, stages, node.stop_on_empty, node.spec, lowering.pool, node.name)


def lower_choose(lowering: Lowering, node: Choose, trail: Trail, run: Pass) -> Stage:
    first, *others = (lowering.input(node, trail, run, i) for i in range(len(node.inputs)))
    return ChooseStage(Read(first), others, node.stop_on_empty, node.spec, lowering.pool, node.name)


def lower_thin(lowering: Lowering, node: Thin, trail: Trail, run: Pass) -> Stage:
    shares = Shares(node.target, node.initial)
    return ThinStage(lowering.input(node, trail, run), shares, _key(node.seed, (0, *run)))


def lower_original_share(lowering: Lowering, node: OriginalShare, trail: Trail, run: Pass) -> Stage:
    return OriginalShareStage(lowering.input(node, trail, run), Shares(node.target, node.initial))


def _key(seed: int, run: Pass) -> int:
    key = mix64(seed, _DRAWING)
    for part in run:
        key = mix64(key, part)
    return key
