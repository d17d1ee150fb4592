"""Lower a plan to running stages, by the table `LOWERINGS`.

They share the threads, buffers and measurements of one `Runtime`.
"""

from __future__ import annotations

import collections
import copy
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from drumline._forks import finalize
from drumline._memory import BufferPool, available_bytes
from drumline.data.elements.spec import AUTOTUNE
from drumline.data.engine.tuning import Budget, Operation, TunedWidth, Tuner
from drumline.data.functions.call import BlockFunction
from drumline.data.functions.python_function import PythonFunction
from drumline.data.functions.segmented import PartlyPythonFunction
from drumline.data.operations.batch import (
    Batch,
    PaddedBatch,
    RaggedBatch,
    Rebatch,
    Unbatch,
    locate_batch,
    lower_batch,
    lower_padded_batch,
    lower_ragged_batch,
    lower_rebatch,
    lower_unbatch,
)
from drumline.data.operations.cache import (
    Cache,
    CacheStore,
    Snapshot,
    index_cache,
    locate_cache,
    lower_cache,
)
from drumline.data.operations.checks import (
    AssertCardinality,
    IgnoreErrors,
    Scan,
    TakeWhile,
    Unique,
    locate_assert_cardinality,
    lower_assert_cardinality,
    lower_ignore_errors,
    lower_scan,
    lower_take_while,
    lower_unique,
)
from drumline.data.operations.choose import (
    Choose,
    OriginalShare,
    SampleFromDatasets,
    Thin,
    lower_choose,
    lower_original_share,
    lower_sample,
    lower_thin,
)
from drumline.data.operations.combine import (
    Concatenate,
    Zip,
    index_concatenate,
    index_zip,
    lower_concatenate,
    lower_zip,
)
from drumline.data.operations.filter import Filter, lower_filter
from drumline.data.operations.map import Map, index_map, lower_map
from drumline.data.operations.nested.groups import GroupByWindow, lower_group_by_window
from drumline.data.operations.nested.nesting import (
    FlatMap,
    Interleave,
    lower_flat_map,
    lower_interleave,
)
from drumline.data.operations.nested.windows import (
    BufferedElements,
    StackedWindows,
    Window,
    WindowPieces,
    lower_rows,
    lower_stacked_windows,
    lower_window,
    lower_window_pieces,
)
from drumline.data.operations.numbering import (
    Enumerate,
    RandomKeys,
    index_enumerate,
    index_random_keys,
    lower_enumerate,
    lower_random_keys,
)
from drumline.data.operations.ordering.order import (
    GlobalShuffle,
    ParallelSourceStage,
    Repeat,
    Shard,
    Shuffle,
    Skip,
    SourceStage,
    Take,
    index_global_shuffle,
    index_shard,
    index_skip,
    index_take,
    locate_repeat,
    locate_shuffle,
    lower_repeat,
    lower_shard,
    lower_shuffle,
    lower_skip,
    lower_take,
)
from drumline.data.operations.packing import Pack, lower_pack
from drumline.data.operations.prefetch import (
    AutomaticRoom,
    Prefetch,
    PrefetchToDevice,
    locate_prefetch,
    lower_prefetch,
    lower_prefetch_to_device,
)
from drumline.data.operations.reading.files import (
    ArrayRecordFiles,
    File,
    Files,
    index_array_records,
    lower_file,
    lower_files,
    packed_reads,
)
from drumline.data.operations.reading.sources import (
    Counter,
    Generator,
    Random,
    Range,
    SequenceItems,
    Slices,
    SlicesWithDatasets,
    Stored,
    StoredParts,
    index_items,
    index_range,
    index_slices,
    index_slices_with_datasets,
    index_stored,
    lower_counter,
    lower_generator,
    lower_random,
    lower_stored_parts,
)
from drumline.data.options import Options
from drumline.data.plan.node import Node, Pass, Trail
from drumline.data.runtime.meter import Observation
from drumline.data.runtime.stage import (
    MAX_ELEMENTS,
    DenseStage,
    RandomAccessSource,
    Sequential,
    Stage,
    may_be_ragged,
    may_vary,
)
from drumline.data.runtime.threads import (
    LARGEST_NBYTES,
    MOST_THREADS,
    MOST_WORKERS,
    PooledThreads,
    ReadLimiter,
    Workers,
    available_cores,
)
from drumline.data.storage.saved import index_snapshot, lower_snapshot
from drumline.data.workers.processes.process_function import ProcessFunction, ProcessWorkers
from drumline.data.workers.remote.cluster import RemoteSession, Service
from drumline.data.workers.remote.distribute import here, piece, remote, remote_split, shards
from drumline.data.workers.remote.nodes import Distribute, Piece, Remote, RemoteSplit, Shards

_THREADS = "drumline-map"
_SHARE_OF_MEMORY = 4


class Runtime:
    """The options, measurements, threads and buffers that the stages of a dataset share.

    Args:
        options: of the dataset.
        observation: measures every stage; ``None`` measures nothing and costs nothing.

    Attributes:
        pool: where stages take their buffers from; the next epoch reuses those of the last.
        decisions: what autotuning changed.
    """

    def __init__(self, options: Options | None = None, observation: Observation | None = None):
        self.options = options if options is not None else Options()
        statistics = self.options.experimental_statistics
        if observation is None and statistics is not None:
            observation = statistics.observation
        self.observation = observation
        self.pool = BufferPool(threads=self.options.threading.max_intra_op_parallelism or None)
        self.decisions: list[str] = []
        self._found: dict[Operation, TunedWidth] = {}
        self._sessions: dict[Service, RemoteSession] = {}
        self._process_functions: dict[PythonFunction, ProcessFunction] = {}
        size = self.options.threading.private_threadpool_size
        self._private = PooledThreads(size, _THREADS) if size else None
        if self._private is not None:
            finalize(self, self._private.shutdown).atexit = False

    @property
    def tuned(self) -> bool:
        """Whether numbers given as ``AUTOTUNE`` change while the dataset runs."""
        return self.options.autotune.enabled is not False

    @property
    def cores(self) -> int:
        """How many cores workers may keep busy whose number is left to drumline."""
        return self.options.autotune.cpu_budget or available_cores()

    @functools.cached_property
    def nbytes(self) -> int:
        """How many bytes buffers may hold together whose sizes are left to drumline."""
        return self.options.autotune.ram_budget or available_bytes() // _SHARE_OF_MEMORY

    def room(self, plan: Node) -> AutomaticRoom | None:
        """Return what tunes the size of one of a plan's prefetches; ``None``: not tuned."""
        if not self.tuned:
            return None
        sharing = sum(isinstance(node, Prefetch) and node.size is None for node in plan.walk())
        return AutomaticRoom(self.nbytes / 2 / max(1, sharing), self.decisions.append)

    def tune(self, stage: Stage) -> None:
        """Tune the numbers of workers below ``stage`` that were given as ``AUTOTUNE``.

        It begins with what was found in an earlier epoch.
        """
        observation = self.observation
        assert observation is not None
        strict = self.cores < available_cores()
        budget = Budget(self.cores, self.nbytes / 2, strict)
        tuner = Tuner(budget, observation.clock, self.decisions, self._found)
        tuner.resume(stage)
        observation.after(stage, tuner.tick)

    def separately_observed(self) -> Runtime:
        """Return the same for one iterator, whose measurements must not mix with others'."""
        if self.observation is not None:
            return self
        inner = copy.copy(self)
        # Queues are not measured, as nothing reads that: it would cost where the GIL is contended.
        inner.observation = Observation(queues=False)
        return inner

    def made(self, stage: Stage, name: str, trail: tuple[int, ...]) -> Stage:
        """Return the stage of the operation ``name``, measured if the dataset is observed."""
        if self.observation is None:
            return stage
        return self.observation.watch(stage, name, trail)

    def unobserved(self) -> Runtime:
        """Return the same, for the many short-lived stages of datasets inside datasets."""
        if self.observation is None:
            return self
        inner = copy.copy(self)
        inner.observation = None
        return inner

    def session(self, service: Service) -> RemoteSession:
        """Return the session of a service, reused by later epochs; not connected to yet."""
        if service not in self._sessions:
            self._sessions[service] = RemoteSession(service)
        return self._sessions[service]

    def connect(self) -> None:
        """Connect to the services of all sessions.

        Raises:
            RuntimeError: one cannot be reached.
        """
        for session in self._sessions.values():
            session.connect()

    def workers(self, wanted: int, unbounded: bool = False) -> Workers[Any]:
        """Return threads for one stage: ``wanted`` of them, or a number that may change.

        They are among those that stages share, if the user gave a number, unless ``unbounded``.
        """
        automatic = wanted == AUTOTUNE and self.tuned
        width = self._first_width() if wanted == AUTOTUNE else min(wanted, MOST_THREADS)
        if self._private is not None and not unbounded:
            size = self.options.threading.private_threadpool_size or 1
            return Workers(self._private, min(width, size), automatic, owned=False, most=size)
        most = MOST_WORKERS if automatic else width
        return Workers(PooledThreads(most, _THREADS), width, automatic)

    def reading(self, node: Interleave) -> ReadLimiter | None:
        """Return how many of an interleave's datasets may be read at once; ``None`` for no threads.

        A number that is found begins at all that are open: reads wait more than they compute.
        """
        if not node.workers:
            return None
        if node.workers != AUTOTUNE:
            return ReadLimiter(min(node.workers, MOST_THREADS))
        most = min(MOST_WORKERS, 2 * node.cycle_length)
        opened = 2 * min(MOST_THREADS, node.cycle_length)
        nbytes = min(LARGEST_NBYTES, self.nbytes // 2 // opened)
        return ReadLimiter(min(most, node.cycle_length), self.tuned, most, nbytes)

    def processes(self, node: Map) -> tuple[BlockFunction, Workers[Any]] | None:
        """Return the map's function as worker processes run it, and these.

        ``None`` if threads are to run it.
        """
        function = _whole_python(node)
        if self.options.python_workers != "processes" or node.workers is None:
            return None
        if function is None:
            return None
        if function not in self._process_functions:
            self._process_functions[function] = ProcessFunction(function)
        automatic = node.workers == AUTOTUNE and self.tuned
        width = self.cores if node.workers == AUTOTUNE else min(node.workers, MOST_WORKERS)
        pool = ProcessWorkers(width, automatic, self.cores)
        return self._process_functions[function], pool

    def left_in_turn(self, node: Map) -> bool:
        """Return whether a map runs in the consumer's thread although processes are enabled."""
        wanted = self.options.python_workers == "processes"
        return wanted and node.workers is None and _whole_python(node) is not None

    def _first_width(self) -> int:
        """Return all cores if it stays so; if it changes, one less, which the consumer needs."""
        return max(1, self.cores - 1) if self.tuned else self.cores


def _whole_python(node: Map) -> PythonFunction | None:
    """Return a map's function as Python, if it has to run Python."""
    function = node.function.run
    if isinstance(function, PartlyPythonFunction):
        return function.python
    return function if isinstance(function, PythonFunction) else None


AsStage = Callable[["Lowering", Any, Trail, Pass], Stage]
AsIndexed = Callable[["Lowering", Any, Trail, Pass], RandomAccessSource | None]


class Lowered(NamedTuple):
    """How nodes of one class run.

    Attributes:
        stage: makes the stream of a node's elements; ``None`` for nodes that always have
            random access.
        indexed: gives random access to them, or ``None`` where this node's inputs do not allow it.
        located: the same for operations that run as streams where elements are asked for in
            order: for ``index`` and global shuffles.
    """

    stage: AsStage | None = None
    indexed: AsIndexed | None = None
    located: AsIndexed | None = None


LOWERINGS: dict[type[Node], Lowered] = {
    Batch: Lowered(stage=lower_batch, located=locate_batch),
    Unbatch: Lowered(stage=lower_unbatch),
    PaddedBatch: Lowered(stage=lower_padded_batch),
    RaggedBatch: Lowered(stage=lower_ragged_batch),
    Rebatch: Lowered(stage=lower_rebatch),
    TakeWhile: Lowered(stage=lower_take_while),
    Unique: Lowered(stage=lower_unique),
    IgnoreErrors: Lowered(stage=lower_ignore_errors),
    AssertCardinality: Lowered(stage=lower_assert_cardinality, located=locate_assert_cardinality),
    Scan: Lowered(stage=lower_scan),
    Counter: Lowered(stage=lower_counter),
    Random: Lowered(stage=lower_random),
    SampleFromDatasets: Lowered(stage=lower_sample),
    Choose: Lowered(stage=lower_choose),
    Thin: Lowered(stage=lower_thin),
    OriginalShare: Lowered(stage=lower_original_share),
    Enumerate: Lowered(indexed=index_enumerate, stage=lower_enumerate),
    Zip: Lowered(indexed=index_zip, stage=lower_zip),
    Concatenate: Lowered(indexed=index_concatenate, stage=lower_concatenate),
    Piece: Lowered(indexed=piece),
    Distribute: Lowered(stage=here),
    RemoteSplit: Lowered(stage=remote_split),
    Remote: Lowered(stage=remote),
    Shards: Lowered(stage=shards),
    File: Lowered(stage=lower_file),
    Files: Lowered(stage=lower_files),
    ArrayRecordFiles: Lowered(indexed=index_array_records),
    Map: Lowered(indexed=index_map, stage=lower_map),
    Filter: Lowered(stage=lower_filter),
    Cache: Lowered(indexed=index_cache, stage=lower_cache, located=locate_cache),
    Prefetch: Lowered(stage=lower_prefetch, located=locate_prefetch),
    BufferedElements: Lowered(stage=lower_rows),
    Window: Lowered(stage=lower_window),
    StackedWindows: Lowered(stage=lower_stacked_windows),
    WindowPieces: Lowered(stage=lower_window_pieces),
    FlatMap: Lowered(stage=lower_flat_map),
    Interleave: Lowered(stage=lower_interleave),
    GroupByWindow: Lowered(stage=lower_group_by_window),
    Take: Lowered(indexed=index_take, stage=lower_take),
    Skip: Lowered(indexed=index_skip, stage=lower_skip),
    Shard: Lowered(indexed=index_shard, stage=lower_shard),
    Shuffle: Lowered(stage=lower_shuffle, located=locate_shuffle),
    Repeat: Lowered(stage=lower_repeat, located=locate_repeat),
    GlobalShuffle: Lowered(indexed=index_global_shuffle),
    Pack: Lowered(stage=lower_pack),
    PrefetchToDevice: Lowered(stage=lower_prefetch_to_device),
    RandomKeys: Lowered(indexed=index_random_keys, stage=lower_random_keys),
    Snapshot: Lowered(indexed=index_snapshot, stage=lower_snapshot),
    Range: Lowered(indexed=index_range),
    Slices: Lowered(indexed=index_slices),
    SlicesWithDatasets: Lowered(indexed=index_slices_with_datasets),
    Stored: Lowered(indexed=index_stored),
    StoredParts: Lowered(stage=lower_stored_parts),
    SequenceItems: Lowered(indexed=index_items),
    Generator: Lowered(stage=lower_generator),
}
"""How each class of plan node runs: the place to add an operation."""


class Lowering:
    """Makes the stages of one epoch of a plan, by the entries of ``LOWERINGS`` for its nodes.

    What a plan yields is decided here, the same with the optimizer on or off: a chain over a
    random-access source stays random-access, and a shuffle over it is a permutation of positions.

    Attributes:
        root: the plan.
        filled: the caches to serve elements from; others are filled on the way.
        pool: where stages take their buffers from.
        runtime: the options that hold, and what measures the stages.
        occurrences: for each shuffle or function that draws, how many of its seed come before it.
    """

    def __init__(self, root: Node, filled: set[CacheStore], runtime: Runtime | None = None):
        self.root = root
        self.filled = filled
        self.runtime = runtime if runtime is not None else Runtime()
        self.pool = self.runtime.pool
        self.occurrences = _occurrences(root)
        self._streams = False

    @functools.cached_property
    def packed(self) -> frozenset[Trail]:
        """Return where files are read without making objects of their records."""
        return packed_reads(self.root)

    def stage(self, *run: int, ragged: bool = False) -> Stage:
        """Return the stage that yields the plan's elements in the given epoch.

        Args:
            run: the epoch, and the pass of each ``repeat`` around; shuffles differ between them.
            ragged: whether its blocks may hold rows that differ in length.
        """
        return self._allowing(ragged, self._stage(self.root, (), run))

    def input(
        self,
        node: Node,
        trail: Trail,
        run: Pass,
        which: int = 0,
        ragged: bool = False,
        varying: bool = False,
    ) -> Stage:
        """Return the stage of one of a node's inputs.

        Its blocks may hold rows that differ in length only if they may be ``ragged``, and rows that
        differ in other dimensions, too, only if ``varying``.
        """
        stage = self._stage(node.inputs[which], (*trail, which), run)
        return self._allowing(ragged, stage, varying)

    def _allowing(self, ragged: bool, stage: Stage, varying: bool = False) -> Stage:
        may_stay = (ragged or not may_be_ragged(stage)) and (varying or not may_vary(stage))
        return stage if may_stay else DenseStage(stage)

    def indexed(self, node: Node, trail: Trail, run: Pass) -> RandomAccessSource | None:
        """Return a node's elements by position, ``None`` if they come in one order only."""
        lowered = LOWERINGS[type(node)]
        found = None
        if lowered.indexed is not None:
            found = lowered.indexed(self, node, trail, run)
        if found is None and self._streams and lowered.located is not None:
            found = lowered.located(self, node, trail, run)
        return found

    def by_position(self) -> Lowering:
        """Return a lowering whose ``indexed`` also locates elements of streaming operations."""
        inner = copy.copy(self)
        inner._streams = True
        return inner

    def indexed_input(self, node: Node, trail: Trail, run: Pass) -> RandomAccessSource | None:
        """Return the only input's elements by position."""
        return self.indexed(node.input, (*trail, 0), run)

    def indexed_inputs(
        self, node: Node, trail: Trail, run: Pass
    ) -> list[RandomAccessSource] | None:
        """Return all inputs' elements by position, if all have them."""
        parts = []
        for which, item in enumerate(node.inputs):
            part = self.indexed(item, (*trail, which), run)
            if part is None:
                return None
            parts.append(part)
        return parts

    def shared(self, walk: SourceStage, node: Node) -> Stage:
        """Return the source stage on as many threads as the maps below ``node`` were given."""
        asked = [n.workers or 1 for n in node.walk() if isinstance(n, Map)]
        wanted = AUTOTUNE if AUTOTUNE in asked else max(asked, default=1)
        if wanted == 1 or not walk.computes:
            return walk
        pool, most_nbytes = self.runtime.workers(wanted), self.runtime.nbytes // 2
        return ParallelSourceStage(walk, pool, node.spec.row_nbytes(), most_nbytes)

    def serving(self, caches: set[CacheStore]) -> Lowering:
        """Return the same lowering with more caches to serve from."""
        inner = copy.copy(self)
        inner.filled = self.filled | caches
        return inner

    def inside(self, plan: Node, filled: set[CacheStore], run: Pass, ragged: bool = False) -> Stage:
        """Return the stage, not measured separately, of a dataset that an operation has made."""
        inner = Lowering(plan, filled, self.runtime.unobserved())
        return inner._allowing(ragged, inner._stage(plan, (), run))

    def indexed_inside(self, plan: Node, run: Pass) -> RandomAccessSource | None:
        """Return the same dataset's elements by position."""
        return Lowering(plan, set(), self.runtime.unobserved()).indexed(plan, (), run)

    @staticmethod
    def fill(plan: Node, stores: set[CacheStore]) -> None:
        """Run the inputs of those caches of a plan that are among ``stores`` and still empty."""
        for node in plan.walk():
            if isinstance(node, Cache) and node.store in stores and not node.store.full:
                stage = Lowering(node, stores - {node.store}).stage(0, ragged=True)
                while stage.next(MAX_ELEMENTS) is not None:
                    continue
                stage.close()

    def _stage(self, node: Node, trail: Trail, run: Pass) -> Stage:
        indexed = self.indexed(node, trail, run)
        if indexed is not None:
            order = Sequential(indexed.length)
            walk = SourceStage(indexed, order, row_nbytes=node.spec.row_nbytes())
            stage = self.shared(walk, node)
        else:
            make = LOWERINGS[type(node)].stage
            assert make is not None, f"{node.name} has random access only"
            stage = make(self, node, trail, run)
        return self.runtime.made(stage, node.name, trail)


def _occurrences(root: Node) -> dict[Trail, int]:
    """Return how many of the same seed come before each: ``zip((a, a))`` gets two orders."""
    seen: collections.Counter[int] = collections.Counter()
    found: dict[Trail, int] = {}

    def visit(node: Node, trail: Trail) -> None:
        for which, item in enumerate(node.inputs):
            visit(item, (*trail, which))
        if isinstance(node, Shuffle | RandomKeys):
            found[trail] = seen[node.seed]
            seen[node.seed] += 1

    visit(root, ())
    return found
