"""One closure on its way through a worker: the rows and values it needs, its program, its pushes.

A `ReceivedClosure` with its batch becomes a `RunningStep`, which finds out which rows of tables it
needs (`EmbeddingLookup`), adds them to one `PushPullRequest` for each server, runs the program on
what has come, and adds its gradients to the next requests. All ids of a request are one array, and
gradients are summed straight into the memory that is sent.

`Functions` has the programs that the chief has sent, by function and signature, and closures that
wait for one. `DenseValues` has the newest value of each variable that is read whole. The pipeline's
thread alone uses all of this, but for programs, which arrive in the connection's thread.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline._core import spread_rows, sum_rows, unique_ids
from drumline._memory import BufferPool
from drumline.distribute.parameter_server.compiler import (
    Input,
    Output,
    StepProgram,
    evaluate_ids,
    load,
    prepared,
)
from drumline.distribute.parameter_server.wire import ArrayForm
from drumline.distribute.parameter_server.wire.messages import (
    ClosureResult,
    GatherRows,
    Pull,
    Push,
    PushPull,
    PushPullReply,
    Signature,
    SyncRound,
    VariableLayout,
)

_IDS = np.dtype(np.int32)  # as steps compute them


class PushPullRequest:
    """One message to one server, being put together.

    Args:
        empties: makes arrays of shapes and dtypes that one message to that server can carry without
            a copy.

    Attributes:
        empties: as given.
    """

    def __init__(self, empties: Callable[[Sequence[ArrayForm]], list[np.ndarray]]) -> None:
        self.empties = empties
        self._push: list[Push] = []
        self._pushed: list[np.ndarray] = []
        self._pushed_ids: list[np.ndarray] = []
        self._gather: list[GatherRows] = []
        self._gathered_ids: list[np.ndarray] = []
        self._pull: list[Pull] = []
        self._on_rows: list[Callable[[np.ndarray], None]] = []
        self._on_value: list[Callable[[int, np.ndarray], None]] = []

    def __bool__(self) -> bool:
        return bool(self._push or self._gather or self._pull)

    def push(self, shard: str, kind: str, update: Any, value: np.ndarray) -> None:
        """Have a shard updated."""
        self._push.append(Push(name=shard, kind=kind, update=update))
        self._pushed.append(value)

    def push_rows(self, shard: str, update: Any, ids: np.ndarray, gradient: np.ndarray) -> None:
        """Have rows of a table updated."""
        self._push.append(Push(name=shard, kind="rows", update=update, ids=len(ids)))
        self._pushed.append(gradient)
        self._pushed_ids.append(ids)

    def gather(self, shard: str, ids: np.ndarray, take: Callable[[np.ndarray], None]) -> None:
        """Ask for rows of a table; `take` gets them."""
        self._gather.append(GatherRows(name=shard, ids=len(ids)))
        self._gathered_ids.append(ids)
        self._on_rows.append(take)

    def pull(self, shard: str, version: int, take: Callable[[int, np.ndarray], None]) -> None:
        """Ask for a value if it is newer than `version`; `take` gets its version and it."""
        self._pull.append(Pull(name=shard, version=version))
        self._on_value.append(take)

    def message(self, closure: str | None, sync: SyncRound | None = None) -> PushPull:
        """The request.

        Args:
            closure: whose pushes it carries.
            sync: the synchronous round of the pushes.
        """
        return PushPull(
            closure=closure,
            push=tuple(self._push),
            gather=tuple(self._gather),
            pull=tuple(self._pull),
            sync=sync,
            arrays=self._arrays(),
        )

    def _arrays(self) -> tuple[np.ndarray, ...]:
        """The request's arrays: all ids are one, the last."""
        ids = [*self._pushed_ids, *self._gathered_ids]
        if not ids:
            return tuple(self._pushed)
        (together,) = self.empties([((sum(map(len, ids)),), _IDS)])
        np.concatenate(ids, out=together, casting="same_kind")
        return (*self._pushed, together)

    def take(self, reply: PushPullReply) -> None:
        """Hand out what the server sent back."""
        arrays = iter(reply.values)
        for on_rows in self._on_rows:
            on_rows(next(arrays))
        answers = zip(self._on_value, reply.changed, reply.versions, strict=True)
        for on_value, changed, version in answers:
            if changed:
                on_value(version, next(arrays))


_FEW = 8
"""If one row in so many at most is used twice, rows are asked for as often as they are used."""


class EmbeddingLookup:
    """What a step looks up in a table.

    Args:
        layout: where the table lies.
        ids: of the rows, in the order of the program.
        by_id: whether the program takes a row for each id; otherwise it takes each row once, and
            whatever is behind them.

    Attributes:
        inverse: for each id where its row is among the different ones.
    """

    def __init__(self, layout: VariableLayout, ids: np.ndarray, by_id: bool) -> None:
        self._layout = layout
        self._ids = np.ascontiguousarray(ids)
        bounds = [shard.start for shard in layout.shards] + [layout.shards[-1].stop]
        self._unique, self.inverse, counts = unique_ids(self._ids, bounds)
        stops = list(itertools.accumulate(counts, initial=0))
        self._spans = [slice(*each) for each in itertools.pairwise(stops)]
        repeated = len(self._ids) - len(self._unique)
        self._by_id = by_id
        self._as_used = by_id and len(layout.shards) == 1 and repeated * _FEW <= len(self._ids)
        self._blocks: dict[int, np.ndarray] = {}

    def ask(self, exchanges: Mapping[int, PushPullRequest]) -> None:
        """Add the rows to the messages, by server."""
        for shard, span in zip(self._layout.shards, self._spans, strict=True):
            if span.start < span.stop:
                ids = self._ids if self._as_used else self._unique[span]
                take = functools.partial(self._blocks.__setitem__, shard.index)
                exchanges[shard.server].gather(self._layout.shard_name(shard), ids, take)

    def rows(self, pool: BufferPool) -> np.ndarray:
        """The rows that have come, as the program takes them, in memory of `pool` if need be."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        if self._as_used and blocks:
            return blocks[0]
        shape = (len(self._ids), *self._layout.shape[1:])
        out = pool.empty(shape, np.dtype(self._layout.dtype))
        if self._by_id:
            spread_rows([_bytes(block) for block in blocks], self.inverse, _bytes(out))
        elif blocks:
            np.concatenate(blocks, out=out[: len(self._unique)])
        return out

    def push(
        self,
        gradient: np.ndarray,
        exchanges: Mapping[int, PushPullRequest],
        update: Callable[[str], Any],
    ) -> None:
        """Add the gradients of the different rows to the messages.

        Args:
            gradient: at least as many.
            exchanges: the messages, by server.
            update: by which a shard is updated.
        """
        self._push([gradient[span] for span in self._spans], exchanges, update)

    def sums_of(self, gradient: np.ndarray) -> list[tuple[int, ArrayForm]]:
        """For each shard its server, and the form that the sums of its rows' gradients have.

        Args:
            gradient: with a row for each id.
        """
        return [
            (shard.server, ((span.stop - span.start, *gradient.shape[1:]), gradient.dtype))
            for shard, span in zip(self._layout.shards, self._spans, strict=True)
        ]

    def push_by_id(
        self,
        gradient: np.ndarray,
        sums: Sequence[np.ndarray],
        exchanges: Mapping[int, PushPullRequest],
        update: Callable[[str], Any],
    ) -> None:
        """The same with a gradient for each id; those of one row are summed in their order.

        Args:
            sums: where to, of the forms that `sums_of` tells.
        """
        sum_rows(_rows(gradient), self.inverse, [_rows(each) for each in sums])
        self._push(sums, exchanges, update)

    def _push(
        self,
        gradients: Sequence[np.ndarray],
        exchanges: Mapping[int, PushPullRequest],
        update: Callable[[str], Any],
    ) -> None:
        # Also to shards without a row: they count the step, and take nothing of it again.
        for shard, span, gradient in zip(self._layout.shards, self._spans, gradients, strict=True):
            name = self._layout.shard_name(shard)
            exchanges[shard.server].push_rows(name, update(name), self._unique[span], gradient)


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _bytes(rows: np.ndarray) -> np.ndarray:
    """Rows as bytes, of whatever type they are."""
    flat = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
    return flat.reshape(len(rows), math.prod(rows.shape[1:]) * rows.dtype.itemsize)


@dataclass
class ReceivedClosure:
    """One run of a function.

    Attributes:
        name: what the whole cluster calls it, also when another worker runs it again.
        function: the number of the function.
        iterators: for each iterator it draws from, its number and how many elements.
        arguments: the arrays the chief passed.
        round: in synchronous training, the number and the size of the round it belongs to.
        answer: how it ended, and the arrays that it returns.
        batch: for each iterator the elements drawn from it so far, each a list of leaves. They stay
            when the closure is run again.
        broken: how often a connection to a server broke under it.
    """

    name: str
    function: int
    iterators: tuple[tuple[int, int], ...]
    arguments: list[np.ndarray]
    round: tuple[int, int] | None = None
    answer: Future[tuple[ClosureResult, list[np.ndarray]]] = field(default_factory=Future)
    batch: dict[int, list[list[Any]]] = field(default_factory=dict)
    broken: int = 0

    def draw(self, draw: Callable[[int], list[Any]]) -> list[Any]:
        """Draw the elements that are missing, and give the leaves of all arguments."""
        for number, times in self.iterators:
            drawn = self.batch.setdefault(number, [])
            while len(drawn) < times:
                drawn.append(draw(number))
        elements = [element for number, _ in self.iterators for element in self.batch[number]]
        return [*self.arguments, *(leaf for element in elements for leaf in element)]


_NEVER = -1


class DenseValues:
    """The last value of every variable that this worker reads whole, with the shards' versions."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._pieces: dict[str, np.ndarray] = {}
        self._whole: dict[str, Any] = {}

    def version(self, shard: str) -> int:
        """The version that is here of a shard; -1 if none is."""
        return self._versions.get(shard, _NEVER)

    def update(self, key: str, shard: str, version: int, value: np.ndarray) -> None:
        """Note a newer value of a shard, unless a still newer one came before."""
        if version <= self.version(shard):
            return
        self._versions[shard] = version
        self._pieces[shard] = value
        self._whole.pop(key, None)

    def value(self, layout: VariableLayout) -> Any:
        """The value of a variable, whole."""
        whole = self._whole.get(layout.key)
        if whole is None:
            pieces = [self._pieces[layout.shard_name(shard)] for shard in layout.shards]
            whole = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            self._whole[layout.key] = whole
        return whole


class LoadedFunction:
    """A function of the chief's for arguments of one form, ready to run.

    Args:
        program: what the chief traced.
        layouts: where the variables lie that it uses, by key.
        updates: for each shard of a variable that has a gradient, the update that takes it.

    Attributes:
        dense: the variables that it takes whole.
        rows: for each table of which it takes rows, whether one for each id.
        ids_are_known_early: whether the batch alone says which rows it takes. Otherwise variables
            or random draws do, which are known only when the steps before have run.
    """

    def __init__(
        self, program: StepProgram, layouts: dict[str, VariableLayout], updates: dict[str, str]
    ) -> None:
        self.program = program
        self.layouts = layouts
        self.updates = updates
        self.main = load(program)
        wanted = [*program.inputs, *program.ids.inputs]
        self.dense = sorted({each.key for each in wanted if each.kind == "dense" and each.key})
        self.rows = {
            each.key: each.kind == "rows_by_id"
            for each in program.inputs
            if each.kind in ("rows", "rows_by_id")
        }
        self.ids_are_known_early = all(each.kind == "argument" for each in program.ids.inputs)


class RunningStep:
    """A closure whose batch is drawn.

    Args:
        closure: the run.
        function: what it runs.
        leaves: the arguments of the program: the chief's arrays, then the batch's leaves.
    """

    def __init__(
        self, closure: ReceivedClosure, function: LoadedFunction, leaves: Sequence[Any]
    ) -> None:
        self.closure = closure
        self._function = function
        self._leaves = leaves
        self._lookups: dict[str, EmbeddingLookup] = {}

    def look_up(self, values: DenseValues, state: dict[str, Any], pool: BufferPool) -> None:
        """Find out which rows of tables the step takes; they will lie in memory of `pool`."""
        self._pool = pool
        ids_program = self._function.program.ids
        if not ids_program.tables:
            return

        def value_of(wanted: Input) -> Any:
            return self._value(wanted, values, state)

        found = evaluate_ids(ids_program, self._leaves, value_of)
        for key, ids in zip(ids_program.tables, found, strict=True):
            by_id = self._function.rows.get(key, False)
            self._lookups[key] = EmbeddingLookup(self._function.layouts[key], ids, by_id)

    @property
    def ids_are_known_early(self) -> bool:
        """See `Function`."""
        return self._function.ids_are_known_early

    def ask_values(self, exchanges: dict[int, PushPullRequest], values: DenseValues) -> None:
        """Add to the messages, by server, the variables that the step takes whole."""
        for key in self._function.dense:
            layout = self._function.layouts[key]
            for shard in layout.shards:
                name = layout.shard_name(shard)
                note = functools.partial(values.update, key, name)
                exchanges[shard.server].pull(name, values.version(name), note)

    def ask_rows(self, exchanges: dict[int, PushPullRequest]) -> None:
        """Add to the messages the rows that were looked up."""
        for key in self._function.rows:
            if key in self._lookups:
                self._lookups[key].ask(exchanges)

    def run(self, values: DenseValues, state: dict[str, Any]) -> list[Any]:
        """Start the program; what it returns may still be under way."""
        wanted = self._function.program.inputs
        return self._function.main([self._value(each, values, state) for each in wanted])

    def _value(self, wanted: Input, values: DenseValues, state: dict[str, Any]) -> Any:
        if wanted.kind == "argument":
            return prepared(self._leaves[wanted.index or 0], wanted)
        key = wanted.key or ""
        if wanted.kind == "dense":
            return values.value(self._function.layouts[key])
        if wanted.kind in ("rows", "rows_by_id"):
            return self._lookups[key].rows(self._pool)
        return self._lookups[key].inverse if wanted.kind == "inverse" else state[key]

    def push(
        self, outputs: Sequence[Any], exchanges: dict[int, PushPullRequest], state: dict[str, Any]
    ) -> list[np.ndarray]:
        """Add to the messages what the program wants written, and return its results."""
        results: dict[int, np.ndarray] = {}
        pushed: list[tuple[Output, np.ndarray]] = []
        for made, output in zip(self._function.program.outputs, outputs, strict=True):
            if made.kind == "result":
                results[made.index or 0] = np.asarray(output)
            elif made.kind == "state":
                state[made.key or ""] = output
            else:
                pushed.append((made, np.asarray(output)))
        sums = self._sums(pushed, exchanges)
        for made, value in pushed:
            self._push_one(made, value, exchanges, sums)
        return [results[index] for index in sorted(results)]

    def _sums(
        self, pushed: Sequence[tuple[Output, np.ndarray]], exchanges: dict[int, PushPullRequest]
    ) -> dict[int, Iterator[np.ndarray]]:
        """For each server the arrays for sums of gradients, in the order of their tables."""
        forms: dict[int, list[ArrayForm]] = {server: [] for server in exchanges}
        for made, value in pushed:
            if made.kind == "row_gradient_by_id":
                for server, form in self._lookups[made.key or ""].sums_of(value):
                    forms[server].append(form)
        return {
            server: iter(exchanges[server].empties(each)) for server, each in forms.items() if each
        }

    def _push_one(
        self,
        made: Output,
        value: np.ndarray,
        exchanges: dict[int, PushPullRequest],
        sums: dict[int, Iterator[np.ndarray]],
    ) -> None:
        key = made.key or ""
        layout = self._function.layouts[key]
        if made.kind == "row_gradient":
            self._lookups[key].push(value, exchanges, self._update_of)
            return
        if made.kind == "row_gradient_by_id":
            mine = [next(sums[shard.server]) for shard in layout.shards]
            self._lookups[key].push_by_id(value, mine, exchanges, self._update_of)
            return
        kind = "dense" if made.kind == "gradient" else made.kind
        if kind in ("add", "assign"):
            # Steps compute with 32 bits what servers may keep with 64.
            value = value.astype(jnp.dtype(layout.dtype), copy=False)
        for shard in layout.shards:
            rows = value[shard.start : shard.stop] if layout.shape else value
            name = layout.shard_name(shard)
            exchanges[shard.server].push(name, kind, self._update_of(name), rows)

    def _update_of(self, shard: str) -> Any:
        return self._function.updates.get(shard)


def signature_of(leaves: Sequence[Any]) -> Signature:
    """The signature of these arguments."""
    return tuple((tuple(np.shape(leaf)), str(np.asarray(leaf).dtype)) for leaf in leaves)


class NeedsSignature(Exception):  # a request to the chief, not an error
    """The worker has no program for arguments of this signature yet."""

    def __init__(self, signature: Signature) -> None:
        super().__init__(f"no program for {signature}")
        self.signature = signature


class Functions:
    """What a worker can run, and the closures that wait for more."""

    def __init__(self) -> None:
        self._functions: dict[tuple[int, Signature], LoadedFunction] = {}
        self._held: dict[str, ReceivedClosure] = {}

    def add(
        self,
        number: int,
        signature: Signature,
        program: bytes,
        layouts: Sequence[VariableLayout],
        updates: dict[str, str],
    ) -> None:
        """Take a function for arguments of one signature."""
        if (number, signature) in self._functions:
            return
        self._functions[number, signature] = LoadedFunction(
            StepProgram.from_bytes(program), {layout.key: layout for layout in layouts}, updates
        )

    def get(self, number: int, leaves: Sequence[Any]) -> LoadedFunction:
        """The function for these arguments.

        Raises:
            NeedsSignature: if the chief has not sent it.
        """
        signature = signature_of(leaves)
        try:
            return self._functions[number, signature]
        except KeyError:
            raise NeedsSignature(signature) from None

    def forget(self, numbers: Collection[int]) -> None:
        """Let go of functions."""
        for key in [key for key in list(self._functions) if key[0] in numbers]:
            self._functions.pop(key, None)

    def hold(self, closure: ReceivedClosure) -> None:
        """Keep a closure with the batch it has drawn until the chief sends its program."""
        self._held[closure.name] = closure

    def release(self, name: str) -> ReceivedClosure:
        """The closure of this name that waited."""
        return self._held.pop(name)
