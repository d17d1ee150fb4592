"""Digests of plans."""

from __future__ import annotations

import dataclasses
from typing import Any

from drumline.data.elements.block import Block
from drumline.data.elements.ragged import RaggedArray
from drumline.data.elements.seeds import DrawnSeed
from drumline.data.elements.spec import ElementSpec, TensorSpec
from drumline.data.functions.build import BuiltFunction, ShapeFunction
from drumline.data.functions.compiled import CompiledFunction
from drumline.data.functions.lifted import LiftedFunction
from drumline.data.functions.recurrence import BuiltRecurrence
from drumline.data.functions.segmented import SegmentedFunction
from drumline.data.functions.trace import UserFunction
from drumline.data.operations.checks import IgnoreErrors
from drumline.data.operations.nested.dataset_function import DatasetFunction, WindowSize
from drumline.data.operations.prefetch import Prefetch, PrefetchToDevice
from drumline.data.operations.reading.files import File, Files
from drumline.data.operations.reading.sources import Stored, StoredParts
from drumline.data.options import BaseDataset
from drumline.data.plan import digest as functions  # noqa: F401 (registers)
from drumline.data.plan.digest import Digest, put
from drumline.data.plan.node import Node
from drumline.data.storage.files.array_records import ArrayRecords

_WITHOUT_EFFECT = {
    "inputs",
    "title",
    "label",
    "workers",
    "unbounded",
    "deterministic",
    "store",
    "where",
    "service",
}
"""Fields of operations that change no element, or that are added otherwise."""


def fingerprint_of(plan: Node) -> int:
    """A number of 64 bits: other operations, arguments, data, functions or seeds give another.

    A seed that the user did not give counts as any seed, and what files hold does not count.

    Raises:
        TypeError: a function reads something whose identity in another run is unknown.
    """
    digest = Digest()
    put(plan, digest)
    return int.from_bytes(digest.result()[:8], "little")


@put.register(Node)
def _node(value: Node, into: Digest) -> None:
    if isinstance(value, Prefetch | PrefetchToDevice):
        put(value.input, into)
        return

    # A new name of the class must not lose the snapshots on disk.
    name = value.digest_name or type(value).__name__

    def add() -> None:
        into.write("operation", f"{name} {value.spec}".encode())
        for field in dataclasses.fields(value):
            if field.name not in _WITHOUT_EFFECT and not _left_out(value, field.name):
                with into.within(f"{field.name} of {value.name}({value.arguments()})"):
                    _field(value, field.name, into)
        put(value.inputs, into)

    into.compound(value, add, name)


def _left_out(node: Node, name: str) -> bool:
    """Counters, and columns that are read of files."""
    return (name == "count" and isinstance(node, IgnoreErrors)) or (
        (name in ("columns", "checks") and isinstance(node, Stored))
        or (name == "on_damage" and isinstance(node, StoredParts))
    )


def _field(node: Node, name: str, into: Digest) -> None:
    value = getattr(node, name)
    put(name, into)
    # How a format reads is what it says of itself.
    put(str(value) if name == "form" and isinstance(node, File | Files) else value, into)


@put.register(BaseDataset)
def _dataset(value: BaseDataset, into: Digest) -> None:
    put(value._plan, into)


@put.register(DrawnSeed)
def _drawn(value: DrawnSeed, into: Digest) -> None:
    into.write("any seed")


@put.register(BuiltFunction)
def _built(value: BuiltFunction, into: Digest) -> None:
    into.write("spec", str(value.spec).encode())
    if isinstance(value.run, CompiledFunction | SegmentedFunction | LiftedFunction):
        put(value.run.content(), into)
    else:
        put(value.run.user if isinstance(value.run, ShapeFunction) else value.origin, into)


@put.register(BuiltRecurrence)
def _recurrence(value: BuiltRecurrence, into: Digest) -> None:
    put((value.state, value.spec, value.user), into)


@put.register(DatasetFunction)
def _dataset_function(value: DatasetFunction, into: Digest) -> None:
    put((value.function, value.spec, value.seed), into)


@put.register(WindowSize)
def _window_size(value: WindowSize, into: Digest) -> None:
    put(value.size, into)


@put.register(UserFunction)
def _user(value: UserFunction, into: Digest) -> None:
    with into.within(value.where):
        put((value.function, value.keyed), into)


@put.register(ElementSpec)
@put.register(TensorSpec)
def _spec(value: Any, into: Digest) -> None:
    into.write("spec", str(value).encode())


@put.register(RaggedArray)
def _ragged(value: RaggedArray, into: Digest) -> None:
    put((value.values, value.row_splits), into)


@put.register(Block)
def _block(value: Block, into: Digest) -> None:
    put((value.n, list(value.columns)), into)


@put.register(ArrayRecords)
def _records(value: ArrayRecords, into: Digest) -> None:
    put(value.paths, into)
