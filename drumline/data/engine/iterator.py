"""The epochs of a plan, and the iterator over one that users hold, with the format of its state.

An epoch starts with a plan whose parts are placed on workers, which is rewritten, and lowered to
stages.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import itertools
import json
import operator
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

import numpy as np

from drumline import _recorder
from drumline._core import Items
from drumline._forks import never_freed, tell_in_child
from drumline._memory import epoch_ended
from drumline.data.elements.block import Block, splitter
from drumline.data.elements.errors import IteratorStateError, raised_for_good
from drumline.data.elements.ragged import RaggedTensorSpec, empty
from drumline.data.elements.rows import single
from drumline.data.elements.seeds import DrawnSeed
from drumline.data.elements.spec import AUTOTUNE, DatasetSpec, TensorSpec, has_datasets
from drumline.data.engine.lowering import Lowering, Runtime
from drumline.data.engine.observe.busiest import ObservedPipeline
from drumline.data.operations.batch import Unbatch
from drumline.data.operations.cache import Cache
from drumline.data.operations.filter import Filter
from drumline.data.operations.map import Map
from drumline.data.operations.nested.nesting import FlatMap, Interleave
from drumline.data.operations.nested.windows import held_rows
from drumline.data.operations.ordering.order import resolve_shard_hints
from drumline.data.operations.prefetch import Prefetch
from drumline.data.operations.reading.files import Files
from drumline.data.operations.seeding import drawn_seeds, seed_of, with_drawn_seeds
from drumline.data.options import Options, as_dataset
from drumline.data.plan.node import Node, bottom_up
from drumline.data.rewrite.optimize import optimize, rules_in_force
from drumline.data.runtime.meter import Observation
from drumline.data.runtime.stage import BatchSizeController, Stage, State
from drumline.data.workers.remote.cluster import Service
from drumline.data.workers.remote.nodes import Distribute, Piece, Remote, Shards


def place(plan: Node) -> Node:
    """Return the plan with every ``distribute`` replaced by remote plans.

    Where elements are handed out on demand, the operations that work element by element go to the
    workers: functions, and readers of files. All others stay with the consumer, so that the
    elements are those without ``distribute``.
    """
    return bottom_up(plan, _placed)


def _placed(node: Node) -> Node:
    if not isinstance(node, Distribute):
        return node
    if node.shards:
        _check_shards(node)
        return Shards((), node.service, node.policy, node.shards, node.input)
    return _Placement(node.service).placed(node.input)


def _check_shards(node: Distribute) -> None:
    for below in node.walk():
        if isinstance(below, Cache):
            raise ValueError(
                f"distribute({node.policy.name}): cache() before it would be filled by each worker "
                "again in every epoch; put it after distribute"
            )


@dataclasses.dataclass(frozen=True)
class _Placement:
    service: Service

    def placed(self, node: Node) -> Node:
        """Return the plan with the operations that workers can run on workers."""
        if isinstance(node, Interleave) and _reads_files(node):
            each = FlatMap((self._names(node),), node.function)
            return Remote((each,), self.service, node.cycle_length, node.block_length)
        if _by_position(node) and _computes(node):
            return Remote((Piece((node,), by_position=True),), self.service)
        if _by_element(node) or (isinstance(node, FlatMap) and _reads_files(node)):
            return Remote((self._part(node),), self.service)
        return node.with_inputs(*map(self.placed, node.inputs))

    def _part(self, node: Node) -> Node:
        if _by_position(node):
            return Piece((node,), by_position=True)
        if isinstance(node, Prefetch):
            return self._part(node.input)
        if _by_element(node):
            return node.with_inputs(self._part(node.input))
        if _one_after_the_other(node):
            return node.with_inputs(self._names(node))
        return Piece((self.placed(node),), by_position=False)

    def _names(self, node: Node) -> Piece:
        return Piece((self.placed(node.input),), by_position=False, one=True)


def _by_position(node: Node) -> bool:
    return Lowering(node, set()).indexed(node, (), (0,)) is not None


def _computes(node: Node) -> bool:
    return any(isinstance(below, Map) for below in node.walk())


def _by_element(node: Node) -> bool:
    """Return whether each element of the result depends on one of the input's alone."""
    return isinstance(node, Map | Filter | Unbatch) and not has_datasets(node.input.spec)


def _reads_files(node: FlatMap | Interleave) -> bool:
    # Seeds are drawn by the position of the element in the whole dataset.
    return node.function.reads_files and node.function.seed is None


def _one_after_the_other(node: Node) -> bool:
    if isinstance(node, Files):
        return node.at_once in (None, 1)
    return isinstance(node, FlatMap) and _reads_files(node)


class EpochConfig(TypedDict):
    """The inputs of lowering besides the plan; part of an iterator's state.

    Attributes:
        rules: the names of the rules by which the plan was rewritten.
        caches: for each cache of the rewritten plan, in order, whether elements are served from it.
    """

    rules: list[str]
    caches: list[bool]


class Epochs:
    """A plan, rewritten once, ready to be started for any epoch."""

    def __init__(self, plan: Node, options: Options, observation: Observation | None = None):
        self.plan = plan
        self.runtime = Runtime(options, observation)
        self._placed = place(plan)
        self._rules = rules_in_force(options)
        self.optimized = self._rewritten(self._rules)
        if options.experimental_slack and not isinstance(self.optimized, Prefetch):
            raise ValueError(
                "Options.experimental_slack is for datasets that end with prefetch; this one ends "
                f"with {self.optimized.name}"
            )
        self._tunes = self.runtime.tuned and any(_left_open(node) for node in plan.walk())

    @functools.cached_property
    def operations(self) -> list[str]:
        """Each operation's name with a digest of its arguments, elements and given seed."""
        return [_identity(node) for node in self.plan.walk()]

    @functools.cached_property
    def seeds(self) -> list[int]:
        """The seeds that were drawn for operations that were given none."""
        return drawn_seeds(self.plan)

    def with_seeds(self, seeds: Sequence[int]) -> Epochs:
        """Return these epochs as if ``seeds`` had been drawn; threads and options are shared."""
        if list(seeds) == self.seeds:
            return self
        made = copy.copy(self)
        made.plan = with_drawn_seeds(self.plan, seeds)
        vars(made).pop("seeds")
        made._placed = place(made.plan)
        made.optimized = made._rewritten(made._rules)
        return made

    def start(self, epoch: int, form: EpochConfig | None) -> tuple[Stage, EpochConfig]:
        """Return the stage of an epoch, and its configuration.

        Args:
            epoch: shuffles differ between epochs.
            form: that of a state which the stage is to be restored to, whatever options and machine
                it comes from; the caches that it serves from are filled first if necessary.
                ``None`` follows the options, and serves from the caches that are full.
        """
        stage, form = self.lowered(epoch, form)
        self.runtime.connect()
        return stage, form

    def lowered(self, epoch: int, form: EpochConfig | None) -> tuple[Stage, EpochConfig]:
        """Return what ``start`` does, without connecting to the workers of a ``distribute``."""
        rules = self._rules if form is None else form["rules"]
        plan = self.optimized if rules == self._rules else self._rewritten(rules)
        stores = [node.store for node in plan.walk() if isinstance(node, Cache)]
        caches = [store.full for store in stores] if form is None else form["caches"]
        filled = {store for store, serve in zip(stores, caches, strict=True) if serve}
        Lowering.fill(plan, filled)
        recorder = _recorder.active
        is_observed = self._tunes or recorder is not None
        runtime = self.runtime.separately_observed() if is_observed else self.runtime
        stage = Lowering(plan, filled, runtime).stage(epoch, ragged=True)
        if self._tunes:
            runtime.tune(stage)
        if recorder is not None and recorder.is_here():
            recorder.pipelines.append(ObservedPipeline(stage, plan))
        return stage, {"rules": rules, "caches": caches}

    def _rewritten(self, rules: Collection[str]) -> Node:
        threads = self.runtime.options.threading.private_threadpool_size
        return optimize(resolve_shard_hints(self._placed, 1, 0), rules, threads)


def digest_of(plan: Node) -> str:
    """Return a digest of a plan's operations and arguments, without the code of functions."""
    return hashlib.sha256(" ".join(map(_identity, plan.walk())).encode()).hexdigest()[:12]


def _identity(node: Node) -> str:
    seed = seed_of(node)
    known = "drawn" if isinstance(seed, DrawnSeed) else seed
    text = f"{node.name}({node.arguments()}) {node.spec} {known} {len(node.inputs)}"
    return f"{node.name} {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _left_open(node: Node) -> bool:
    """Return whether the number of the operation's workers was left to drumline."""
    return isinstance(node, Map | Interleave) and node.workers == AUTOTUNE


def first_element(plan: Node) -> Any:
    """Return an element of the plan's first epoch; zeros of its spec if it has none.

    Raises:
        Exception: what making the element raised.
    """
    return first_elements(plan, 1)[0]


def first_elements(plan: Node, count: int) -> list[Any]:
    """Return one to ``count`` elements of the plan's first epoch, as ``first_element``."""
    split = splitter(plan.spec.structure)
    return [split(block.columns)[0] for block in _first_blocks(plan, count)]


def first_block(plan: Node) -> Block:
    """Return the first element, as ``first_element``, as a block of one row."""
    return _first_blocks(plan, 1)[0]


def _first_blocks(plan: Node, count: int) -> list[Block]:
    stage = Lowering(resolve_shard_hints(plan, 1, 0), set()).stage(0)
    found: list[Block] = []
    try:
        while len(found) < count and (block := stage.next(1)) is not None:
            if block.error is not None:
                if found:
                    break
                raise block.error
            found.append(block)
    finally:
        stage.close()
    if not found:
        found = [Block([_zero(leaf) for leaf in plan.spec.leaves], 1)]
    for block in found:
        for column in block.columns:
            column.flags.writeable = False
    return found


def _zero(leaf: TensorSpec) -> np.ndarray:
    if isinstance(leaf, DatasetSpec):
        # Of one element: a function may take the only one.
        rows = Block([_zero(inner) for inner in leaf.element.leaves], 1)
        return single(as_dataset(held_rows([rows], leaf.element)))[None]
    if isinstance(leaf, RaggedTensorSpec):
        return single(empty(leaf))[None]
    dims = tuple(dim or 0 for dim in leaf.shape)
    if leaf.is_string:
        return np.full((1, *dims), b"", leaf.dtype)
    return np.zeros((1, *dims), leaf.dtype)


_VERSION = 4
_KEYS = {"version", "plan", "seeds", "epoch", "form", "at", "used", "digest"}

IteratorState = dict[str, Any]


def checked_state(
    plan: list[str], seeds: list[int], epoch: int, form: Any, at: Any, used: int
) -> IteratorState:
    """Return a state with a digest of all of it, which detects any change.

    Args:
        plan: what identifies its operations.
        seeds: those drawn for operations that were given none.
        epoch: its number.
        form: what the stages depend on beside the plan.
        at: the position of the last stage before its last block.
        used: how many elements of that block were delivered.
    """
    state = {
        "version": _VERSION,
        "plan": plan,
        "seeds": seeds,
        "epoch": epoch,
        "form": form,
        "at": at,
        "used": used,
    }
    return {**state, "digest": _digest(state)}


def check_state(state: Any, plan: list[str]) -> None:
    """Reject what is not a complete state of a plan.

    Raises:
        IteratorStateError: it is not one of this version, was changed, or is of another plan.
    """
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        raise IteratorStateError(
            f"not a dataset iterator's state of version {_VERSION}: {state!r:.80}. Give the "
            "dict that iterator.state() returned under this version of drumline"
        )
    if missing := _KEYS - set(state):
        raise IteratorStateError(f"the iterator's state is damaged: it lacks {sorted(missing)}")
    if state["digest"] != _digest({k: v for k, v in state.items() if k != "digest"}):
        raise IteratorStateError(
            "the iterator's state is damaged: it is not as it was when it was taken; restore "
            "another checkpoint, or begin the epoch again"
        )
    if state["plan"] != plan:
        raise IteratorStateError(
            f"the state was taken from another dataset: {_difference(state['plan'], plan)}. Build "
            "the same operations with the same arguments and seeds before restoring"
        )


def _difference(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """Return the first operation, from the source on, that is another one."""
    pairs = itertools.zip_longest(theirs, ours, fillvalue="nothing")
    number, (there, here) = next(
        (number, pair) for number, pair in enumerate(pairs, 1) if pair[0] != pair[1]
    )
    there, here = there.split()[0], here.split()[0]
    if there == here:
        return f"its operation {number}, {there}, has other arguments, elements or seeds"
    return f"its operation {number} is {there}, where this one's is {here}"


def _digest(state: IteratorState) -> str:
    try:
        text = json.dumps(state, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise IteratorStateError(f"the iterator's state is damaged: {error}") from error
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


T = TypeVar("T")

_END = object()


class _ParentsStage(Stage):
    """Replaces the parent's stages in a forked child, until it has its own."""

    def close(self) -> None:
        """Do nothing: the stages are the parent's, and their locks may be held forever."""


class DatasetIterator(Items, Generic[T]):
    """Iterates over one epoch of a dataset; ``state`` and ``restore`` make it resumable.

    Leaves are numpy arrays (read-only, valid as long as they are referenced), numpy scalars, or
    ``bytes``.
    """

    _stage: Stage

    def __init__(
        self,
        epochs: Epochs,
        epoch: int,
    ):
        self._epochs = epochs
        self._spec = epochs.plan.spec
        self._split = splitter(self._spec.structure)
        self._lock = threading.RLock()
        # Where to continue after an interrupt, which left the stages in an undefined state.
        self._torn: State | None = None
        self._begin(epoch, None)
        tell_in_child(self)

    def forked(self) -> None:
        """Continue in a forked child with new stages, as the threads of these are the parent's."""
        self._torn = self._torn or self._position()
        self._at_hand, self._count = iter(()), 0
        never_freed(self._stage)
        self._stage = _ParentsStage()
        self._lock = threading.RLock()

    def _begin(self, epoch: int, form: Any) -> None:
        self._epoch = epoch
        self._stage, self._form = self._epochs.start(epoch, form)
        self._block_size = BatchSizeController(self._spec.row_nbytes())
        self._at_hand = iter(())
        self._count = 0
        self._error: Exception | None = None
        self._before: State = self._stage.state()
        self._ended = False

    @property
    def stage(self) -> Stage:
        """The running plan."""
        return self._stage

    def __reduce__(self) -> str:
        raise TypeError(
            "an iterator of a dataset cannot be pickled: pickle the dataset and iterator.state(), "
            "and restore the state in an iterator of the copy"
        )

    def __repr__(self) -> str:
        return f"<DatasetIterator epoch={self._epoch} element_spec={self.element_spec}>"

    if TYPE_CHECKING:

        def __iter__(self) -> DatasetIterator[T]: ...

        def __next__(self) -> T: ...

    def next(self) -> T:
        """The next element, as ``next(iterator)``; iterators of tf.data have this method."""
        return next(self)

    def _further(self) -> T:
        # The slow path of `__next__`, called from Rust when the buffer is empty.
        recorder = _recorder.active
        if recorder is None or not recorder.is_here() or recorder.part == _recorder.INPUT:
            return self._fetched()
        with recorder.at(_recorder.INPUT):
            return self._fetched()

    def _fetched(self) -> T:
        with self._lock:
            try:
                # Another thread that shares the iterator may have fetched a block meanwhile.
                return next(self._at_hand)
            except StopIteration:
                pass
            if self._torn is not None:
                self._move(self._torn)
                self._torn = None
            try:
                return self._refilled()
            except Exception:
                raise
            except BaseException:
                self._torn = self._position()
                raise

    def _refilled(self) -> T:
        """Refill the buffer; a ``StopIteration`` that user code raises becomes another error."""
        try:
            found = self._refill()
        except StopIteration as stop:
            raise raised_for_good(stop) from stop
        if found is _END:
            raise StopIteration
        element: T = found
        return element

    def _refill(self) -> Any:
        if self._error is not None:
            error, self._error = self._error, None
            self._count += 1
            raise error
        while not self._ended:
            limit = (
                self._block_size.start(self._stage.preferred_block_size)
                if self._stage.allows_readahead
                else 1
            )
            self._before, self._count = self._stage.state(), 0
            block = self._stage.next(limit)
            self._block_size.stop()
            if block is None:
                self._ended = True
                self._before = self._stage.state()
                self._stage.close()
                epoch_ended()
                break
            for column in block.columns:
                column.flags.writeable = False
            items = self._split(block.columns)
            self._at_hand, self._count = iter(items), len(items)
            self._error = block.error
            if items:
                return next(self._at_hand)
            if self._error is not None:
                return self._refill()
        return _END

    @property
    def element_spec(self) -> Any:
        """A ``TensorSpec`` for each leaf, in the structure of the elements."""
        return self._spec.tree()

    def state(self) -> State:
        """Return the position, small and JSON-able, independent of the process.

        Pass it to ``restore`` of an iterator over an equal dataset, in this process or another.
        Seeds that the dataset's operations were not given are part of it.
        """
        return checked_state(self._epochs.operations, **(self._torn or self._position()))

    def _position(self) -> State:
        used = self._count - operator.length_hint(self._at_hand) if self._count else 0
        return {
            "seeds": self._epochs.seeds,
            "epoch": self._epoch,
            "form": self._form,
            "at": self._before,
            "used": used,
        }

    def restore(self, state: State) -> None:
        """Continue where ``state`` was taken, with the seeds that were drawn there.

        The dataset's later iterators have its own ones.

        Raises:
            IteratorStateError: the state is damaged, or of another plan or version of drumline.
            Exception: what reading the input again raised. The iterator stays where it was.
        """
        check_state(state, self._epochs.operations)
        before = self._torn or self._position()
        try:
            self._move(state)
        except Exception:
            self._move(before)
            raise
        except BaseException:
            self._torn = before
            raise
        self._torn = None

    def _move(self, state: State) -> None:
        self._stage.close()
        self._epochs = self._epochs.with_seeds(state["seeds"])
        self._begin(state["epoch"], state["form"])
        self._stage.restore(state["at"])
        self._stage.advance(state["used"])
        self._before = self._stage.state()

    def blocks(self, preferred_block_size: int) -> Iterator[Block]:
        """Yield the rest of the elements in blocks.

        Args:
            preferred_block_size: the number of elements that is cheapest to request at once; no
                more are read ahead of one that fails.

        Raises:
            Exception: what making an element raised, after the block before it.
        """
        while True:
            wanted = max(preferred_block_size, self._stage.preferred_block_size)
            limit = (
                self._block_size.start(wanted)
                if self._stage.allows_readahead
                else preferred_block_size
            )
            block = self._stage.next(limit)
            self._block_size.stop()
            if block is None:
                epoch_ended()
                return
            yield block
            if block.error is not None:
                raise block.error

    def close(self) -> None:
        """Stop the threads behind the iterator; it yields nothing more."""
        self._at_hand = iter(())
        self._ended = True
        self._torn = None
        self._stage.close()
