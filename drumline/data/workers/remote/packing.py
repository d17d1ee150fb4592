"""Parts of plans as bytes for other machines, and as workers run them."""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline._changes import note
from drumline._function_pickles import FunctionPickler
from drumline._lazy import jax
from drumline.data.functions.build import BuiltFunction, built_again
from drumline.data.functions.python_function import PythonFunction
from drumline.data.functions.recurrence import BuiltRecurrence, recurrence_again
from drumline.data.functions.segmented import PartlyPythonFunction
from drumline.data.operations.cache import CacheStore
from drumline.data.operations.checks import ErrorCount
from drumline.data.operations.filter import Predicate
from drumline.data.operations.map import Map, MapStage, ParallelMapStage
from drumline.data.operations.nested.dataset_function import DatasetFunction
from drumline.data.operations.nested.windows import BufferedElements
from drumline.data.operations.ordering.order import Shard, resolve_shard_hints
from drumline.data.options import Options
from drumline.data.plan.node import Node, Trail, bottom_up
from drumline.data.rewrite.optimize import push_shard
from drumline.data.rewrite.shard_files import shard_files
from drumline.data.runtime.stage import Stage
from drumline.data.runtime.statistics import Statistics
from drumline.data.storage.saved import FileStore, SnapshotStore
from drumline.data.workers.processes.process_function import culprits
from drumline.data.workers.remote.cluster import InputSplit, ShardingPolicy
from drumline.data.workers.remote.nodes import Piece

_REFUSAL = (
    "distribute: {what} cannot be sent to workers ({why}). Make it inside the function, or put "
    "the operation after distribute."
)


@dataclasses.dataclass(frozen=True)
class PickledObject:
    """A pickled object.

    Attributes:
        content: the pickle, without large arrays.
        buffers: their bytes, as arrays, which need not be copied on the way.
        wide: whether JAX has 64-bit types by default where it comes from.
    """

    content: bytes
    buffers: list[np.ndarray]
    wide: bool


def packed(part: Any, plan: Node, refusal: str = _REFUSAL) -> PickledObject:
    """Return ``part``, which holds ``plan``, for ``unpacked`` in another process.

    Args:
        part: anything.
        plan: whose operations to look at if ``part`` cannot be sent.
        refusal: what to say then, with places for ``what`` cannot be and ``why``.

    Raises:
        TypeError: something in it cannot be sent; the message names the operation and what it is.
    """
    try:
        content, buffers = _dumps(part)
    except Exception as error:
        raise TypeError(refusal.format(what=_blamed(plan), why=error)) from error
    return PickledObject(content, buffers, bool(jax.config.read("jax_enable_x64")))


def unpacked(sent: PickledObject) -> Any:
    """Return what was packed.

    Raises:
        Exception: something that it needs is not here.
    """
    jax.config.update("jax_enable_x64", sent.wide)
    note(
        "JAX",
        f"jax.config.jax_enable_x64={sent.wide}",
        "a worker has the 64-bit types that the process has which sent it its work",
        "no setting; workers alone do so",
    )
    return pickle.loads(sent.content, buffers=sent.buffers)


def _dumps(value: Any) -> tuple[bytes, list[np.ndarray]]:
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    return file.getvalue(), [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


class _Pickler(FunctionPickler):
    """Takes functions apart into what they are made of again."""

    def reducer_override(self, obj: Any) -> Any:
        reduce = _REDUCERS.get(type(obj))
        reduced = None if reduce is None else reduce(obj)
        return super().reducer_override(obj) if reduced is None else reduced


def _built(function: BuiltFunction) -> tuple[Any, ...] | None:
    if function.is_python or function.origin is None:
        return None
    return built_again, (function.origin, function.spec, function.fingerprint())


def _built_recurrence(function: BuiltRecurrence) -> tuple[Any, ...] | None:
    return None if function.is_python else (recurrence_again, (function.origin,))


def _dataset_function(function: DatasetFunction) -> tuple[Any, ...]:
    fields = (field for field in dataclasses.fields(function) if field.compare)
    return DatasetFunction, tuple(getattr(function, field.name) for field in fields)


_REDUCERS: dict[type, Callable[[Any], tuple[Any, ...] | None]] = {
    BuiltFunction: _built,
    BuiltRecurrence: _built_recurrence,
    CacheStore: lambda store: (CacheStore, ()),
    DatasetFunction: _dataset_function,
    ErrorCount: lambda count: (ErrorCount, ()),
    FileStore: lambda store: (FileStore, store.arguments()),
    PartlyPythonFunction: lambda function: (PythonFunction, function.python.arguments()),
    PythonFunction: lambda function: (PythonFunction, function.arguments()),
    SnapshotStore: lambda store: (SnapshotStore, store.arguments()),
    Statistics: lambda statistics: (Statistics, (statistics.name,)),
}


def _blamed(plan: Node) -> str:
    """Return the first operation that cannot be sent, and what of it."""
    for node in plan.walk():
        alone = {f.name: getattr(node, f.name) for f in dataclasses.fields(node)}
        for name, value in alone.items():
            if name != "inputs" and not _sendable(value):
                found = _culprit(value) or name
                return f"{found} of {node.name}({node.arguments()})"
    return "a part of the dataset"


def _culprit(value: Any) -> str:
    origin = getattr(value, "origin", None)
    run = getattr(value, "run", None)
    user = getattr(origin[0], "function", origin[0]) if origin else getattr(run, "user", None)
    user = user or getattr(getattr(value, "function", None), "function", None) or value
    return ", ".join(culprits(user, _sendable))


def _sendable(value: Any) -> bool:
    try:
        _dumps(value)
    except Exception:
        return False
    return True


@dataclasses.dataclass(frozen=True)
class RemotePlan:
    """A part of a plan that workers run.

    Attributes:
        plan: with a ``Piece`` where a split's elements come in, unless they have shards of it.
        occurrences: of the operations that draw, as in the whole plan, for those in this one.
        options: which hold there.
        policy: by which there are shards.
        shards: how many; 0 for none.
    """

    plan: Node
    occurrences: dict[Trail, int]
    options: Options = dataclasses.field(default_factory=Options)
    policy: ShardingPolicy = ShardingPolicy.DYNAMIC
    shards: int = 0

    def of(self, split: InputSplit) -> Node:
        """Return the plan of a split."""
        if split.shard is not None:
            return push_shard(_shard_of(self.plan, self.policy, self.shards, split.shard))

        def filled(node: Node) -> Node:
            if not isinstance(node, Piece):
                return node
            if node.by_position:
                return dataclasses.replace(node, start=split.start, stop=split.stop)
            return BufferedElements((), node.spec, split.rows)

        return bottom_up(self.plan, filled)


def for_workers(plan: Node) -> Node:
    """Return the part of a plan that workers run, each in one thread unless the user gave more."""

    def changed(node: Node) -> Node:
        if isinstance(node, Piece) and not node.by_position:
            return node.with_inputs(BufferedElements((), node.spec, ()))
        if isinstance(node, Map) and node.function.reorderable:
            return dataclasses.replace(node, workers=None)
        return node

    return bottom_up(plan, changed)


def options_for_workers(options: Options) -> Options:
    """Return the options of workers: one core each, without statistics and slack."""
    made = Options().merged(options)
    made.experimental_statistics = made.experimental_slack = None
    made.autotune.cpu_budget = 1
    return made


def count_from(stage: Stage, start: int) -> None:
    """Set the position that errors name, where the positions in the whole are known."""
    chain = [stage]
    while len(inputs := chain[-1].inputs()) == 1:
        chain.append(inputs[0])
    for below in reversed(chain[:-1]):
        if not isinstance(below, MapStage | ParallelMapStage | Predicate):
            return
        below.count_from(start)
        if isinstance(below, Predicate):
            return


def _shard_of(plan: Node, policy: ShardingPolicy, shards: int, index: int) -> Node:
    match policy:
        case ShardingPolicy.FILE:
            plan = shard_files(plan, shards, index)
        case ShardingPolicy.DATA:
            plan = Shard((plan,), shards, index)
        case ShardingPolicy.HINT:
            return resolve_shard_hints(plan, shards, index)
    return resolve_shard_hints(plan, 1, 0)
