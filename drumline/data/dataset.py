"""The dataset users hold: an immutable plan with the methods of ``tf.data.Dataset``."""

from __future__ import annotations

import functools
import operator
import os
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from drumline.data import construct
from drumline.data.epochs import Epochs, first_element
from drumline.data.execute.cache_stages import CacheStore
from drumline.data.explain import explain
from drumline.data.functions.build import build
from drumline.data.functions.user_function import UserFunction
from drumline.data.iterator import DatasetIterator
from drumline.data.options import Options
from drumline.data.plan import batching, buffering, combining, function_nodes, ordering
from drumline.data.plan.node import Node
from drumline.data.spec import ElementSpec, TensorSpec, merge_leaf
from drumline.data.structure import flatten

AUTOTUNE: Final = -1
"""Leaves a number (of threads, of buffered elements) to drumline, as ``tf.data.AUTOTUNE``."""


class Dataset:
    """A sequence of elements described by a plan; iterating runs it.

    Follows ``tf.data.Dataset``: every method returns a new dataset. Elements are the nested
    structures the user built (tuples, lists, dicts in their order, namedtuples) with numpy leaves,
    read-only and valid as long as they are referenced; strings are ``bytes``. What a dataset
    yields depends on the plan, its seeds and the epoch, never on threads or timing.
    """

    def __init__(self, plan: Node, options: Options | None = None):
        self._plan = plan
        self._options = options if options is not None else Options()
        self._epochs: Epochs | None = None
        self._next_epoch = 0

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """Elements are the rows of the arrays in ``tensors``, which are not copied.

        Args:
            tensors: a nested structure of arrays (n, ...), or of lists of numbers or strings.

        Raises:
            ValueError: a leaf is a scalar, or first dimensions differ.
            TypeError: a leaf is no array of numbers or strings.
        """
        return Dataset(construct.slices(tensors))

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element: ``tensors`` itself."""
        return Dataset(construct.tensors(tensors))

    @staticmethod
    def range(*args: int, output_type: Any = np.int64) -> Dataset:
        """The integers of Python's ``range(*args)``, as ``output_type``.

        Raises:
            ValueError: an integer does not fit ``output_type``, or the step is zero.
        """
        return Dataset(construct.integers(args, output_type))

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
    ) -> Dataset:
        """Elements are what iterating over ``generator(*args)`` yields, in every epoch anew.

        Args:
            generator: a callable that returns an iterable.
            output_types: the older spelling of ``output_signature``: a nested structure of dtypes,
            output_shapes: and the shapes of the leaves, in the same structure.
            args: arguments of the generator, which get there as arrays.
            output_signature: a nested structure of ``TensorSpec``. Each element is checked against
                it; numbers are converted within their kind. An element that does not fit raises
                when it is its turn, with its index.

        An iterator's ``restore`` runs the generator again up to the position.

        Raises:
            TypeError: neither a signature nor types with shapes are given, or both are.
            ValueError: the shapes do not have the structure of the types.
        """
        signature = construct.signature(output_types, output_shapes, output_signature)
        return Dataset(construct.generator(generator, signature, args or ()))

    @staticmethod
    def zip(*datasets: Any) -> Dataset:
        """Elements at the same position side by side; ends with the shortest.

        Args:
            datasets: datasets, or one nested structure of datasets, whose shape elements take.
        """
        given = datasets[0] if len(datasets) == 1 else tuple(datasets)
        leaves, structure = flatten(given)
        for leaf in leaves:
            if not isinstance(leaf, Dataset):
                raise TypeError(f"zip takes datasets, got {type(leaf).__name__}")
        if not leaves:
            raise ValueError("zip needs at least one dataset")
        options = functools.reduce(Options.merged, (dataset._options for dataset in leaves))
        return Dataset(combining.Zip(tuple(d._plan for d in leaves), structure), options)

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
    ) -> Dataset:
        """Applies a function to every element; a tuple is spread over its arguments.

        The function is traced now and compiled for blocks of elements. One that cannot be traced,
        or depends on outside state, runs as Python with numpy leaves; ``explain()`` says why.

        Args:
            map_func: takes an element, returns a nested structure of arrays.
            num_parallel_calls: threads, or ``AUTOTUNE``; by default compiled functions are
                parallelized by the optimizer and Python functions run in order.
            deterministic: accepted as in ``tf.data``; results always come in order, which either
                value allows.

        Raises:
            Exception: what the function itself raises for the first element. For a later element
                it is raised when that element's turn comes, with the index in a note.
        """
        if deterministic not in (None, True, False):
            raise TypeError(f"map: deterministic must be a bool or None, got {deterministic!r}")
        workers = _workers(num_parallel_calls)
        plan = self._plan
        built = build(map_func, "map", plan.spec, lambda: first_element(plan), workers or 1)
        label = UserFunction(map_func, "map").name
        return self._with(function_nodes.Map((plan,), built, label, workers))

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which ``predicate`` returns true.

        Raises:
            TypeError: it does not return one bool.
        """
        plan = self._plan
        built = build(predicate, "filter", plan.spec, lambda: first_element(plan), 1)
        label = UserFunction(predicate, "filter").name
        if built.spec.leaves != (TensorSpec((), np.bool_),) or built.spec.structure.kind != "leaf":
            raise TypeError(f"filter({label}) must return one bool, it returns {built.spec.tree()}")
        return self._with(function_nodes.Filter((plan,), built, label))

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Dataset:
        """Stacks ``batch_size`` consecutive elements; the last batch may be shorter.

        Raises:
            ValueError: ``batch_size`` is not positive. Elements of different shapes raise when
                their batch is asked for, with the element's index.
        """
        size = _count(batch_size, "batch", "batch_size", least=1)
        return self._with(batching.Batch((self._plan,), size, bool(drop_remainder)))

    def unbatch(self) -> Dataset:
        """The rows of each element's leaves as elements.

        Raises:
            ValueError: a leaf is a scalar, or first dimensions are known to differ.
        """
        leaves = self._plan.spec.leaves
        if any(not leaf.shape for leaf in leaves):
            raise ValueError(f"unbatch: a leaf has no first dimension: {self.element_spec}")
        if len({leaf.shape[0] for leaf in leaves} - {None}) > 1:
            raise ValueError(f"unbatch: first dimensions differ: {self.element_spec}")
        return self._with(batching.Unbatch((self._plan,)))

    def shuffle(
        self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True
    ) -> Dataset:
        """Draws each element at random from a buffer of the next ``buffer_size``.

        Over a random-access source the buffer holds positions, not elements.

        Args:
            buffer_size: in elements; one at least as large as the dataset gives a uniform order.
            seed: the order depends on it and on the epoch. ``None`` draws one now, from Python's
                ``random``, which ``keras.utils.set_random_seed`` seeds.
            reshuffle_each_iteration: whether each epoch (and each pass of a ``repeat``) differs.
        """
        size = _count(buffer_size, "shuffle", "buffer_size", least=1)
        drawn = random.getrandbits(63) if seed is None else operator.index(seed) % 2**64
        reshuffle = True if reshuffle_each_iteration is None else bool(reshuffle_each_iteration)
        return self._with(ordering.Shuffle((self._plan,), size, drawn, reshuffle))

    def repeat(self, count: int | None = None) -> Dataset:
        """``count`` passes over the dataset; ``None`` or -1 never ends."""
        number = None if count is None else _count(count, "repeat", "count", least=-1)
        return self._with(ordering.Repeat((self._plan,), None if number == -1 else number))

    def take(self, count: int) -> Dataset:
        """The first ``count`` elements, -1 for all; nothing past them is ever read."""
        number = _count(count, "take", "count", least=-1)
        return self if number == -1 else self._with(ordering.Take((self._plan,), number))

    def skip(self, count: int) -> Dataset:
        """All but the first ``count`` elements; -1 leaves none."""
        number = _count(count, "skip", "count", least=-1)
        if number == -1:
            return self._with(ordering.Take((self._plan,), 0))
        return self._with(ordering.Skip((self._plan,), number))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Every ``num_shards``-th element, from the one at ``index`` on: one worker's share.

        Shard before a ``shuffle``, so that the shards are disjoint, and before what costs much.
        ``experimental.SHARD_HINT`` for both lets a strategy of several processes shard here
        (`AutoShardPolicy.HINT`); without one nothing is left out.

        Raises:
            ValueError: ``num_shards`` is not positive, or ``index`` is not below it.
        """
        if num_shards == index == ordering.SHARD_HINT:
            return self._with(ordering.Shard((self._plan,), num_shards, index))
        number = _count(num_shards, "shard", "num_shards", least=1)
        position = _count(index, "shard", "index", least=0)
        if position >= number:
            raise ValueError(f"shard: index must be between 0 and {number - 1}, got {position}")
        return self._with(ordering.Shard((self._plan,), number, position))

    def enumerate(self, start: int = 0) -> Dataset:
        """Pairs ``(number, element)`` with int64 numbers from ``start``."""
        return self._with(combining.Enumerate((self._plan,), operator.index(start)))

    def concatenate(self, dataset: Dataset) -> Dataset:
        """This dataset's elements, then the other's.

        Raises:
            TypeError: structures, dtypes or ranks differ.
        """
        spec = _merged(self._plan.spec, dataset._plan.spec)
        options = self._options.merged(dataset._options)
        return Dataset(combining.Concatenate((self._plan, dataset._plan), spec), options)

    def cache(self) -> Dataset:
        """Keeps the elements in memory once a pass reached the end, for all later passes.

        What it keeps does not depend on when it is filled: a shuffle before a cache has the order
        of its first epoch for ever.
        """
        return self._with(buffering.Cache((self._plan,), CacheStore()))

    def prefetch(self, buffer_size: int | None) -> Dataset:
        """Makes up to ``buffer_size`` elements ahead; ``AUTOTUNE``: as many as memory allows."""
        if buffer_size is None or buffer_size == AUTOTUNE:
            return self._with(buffering.Prefetch((self._plan,), None))
        size = _count(buffer_size, "prefetch", "buffer_size", least=0)
        return self if size == 0 else self._with(buffering.Prefetch((self._plan,), size))

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """``transformation_func(self)``, which must be a dataset."""
        result = transformation_func(self)
        if not isinstance(result, Dataset):
            raise TypeError(f"apply: the function returned {type(result).__name__}, not a Dataset")
        return result

    def with_options(self, options: Options) -> Dataset:
        """The same elements, made under ``options``; those not set in it stay as they are.

        Raises:
            TypeError: ``options`` are none.
        """
        if not isinstance(options, Options):
            raise TypeError(f"with_options takes dl.data.Options, got {type(options).__name__}")
        return Dataset(self._plan, self._options.merged(options))

    def options(self) -> Options:
        """The options in force."""
        return self._options

    @property
    def element_spec(self) -> Any:
        """A ``TensorSpec`` for each leaf, in the structure of the elements."""
        return self._plan.spec.tree()

    @property
    def has_batches(self) -> bool:
        """Whether some operation of the plan batches."""
        return any(isinstance(node, batching.Batch) for node in self._plan.walk())

    def cardinality(self) -> int:
        """The number of elements, ``INFINITE_CARDINALITY`` or ``UNKNOWN_CARDINALITY``."""
        return self._plan.cardinality

    def __len__(self) -> int:
        if self.cardinality() < 0:
            what = "infinite" if self.cardinality() == -1 else "unknown"
            raise TypeError(f"the dataset's length is {what}")
        return self.cardinality()

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> DatasetIterator[Any]:
        """Starts the next epoch."""
        started = self._ready()
        epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1
        return DatasetIterator(started.start, self._plan.spec, epoch, started.fingerprint())

    def as_numpy_iterator(self) -> DatasetIterator[Any]:
        """The same as ``iter``: leaves are numpy arrays already."""
        return iter(self)

    def explain(self) -> str:
        """The plan, what the optimizer makes of it, and how each part runs, as text."""
        started = self._ready()
        stage, _ = started.start(0, None)
        text = explain(started.plan, started.optimized, stage)
        stage.close()
        return text

    def _ready(self) -> Epochs:
        if self._epochs is None:
            self._epochs = Epochs(self._plan, self._options)
        return self._epochs

    def _with(self, plan: Node) -> Dataset:
        return Dataset(plan, self._options)

    def __repr__(self) -> str:
        return f"<Dataset {self._plan.name} element_spec={self.element_spec}>"


def _count(value: Any, operation: str, name: str, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{operation}: {name} must be an integer, got {value!r:.40}") from None
    if number < least:
        raise ValueError(f"{operation}: {name} must be at least {least}, got {number}")
    return number


def _workers(num_parallel_calls: int | None) -> int | None:
    if num_parallel_calls is None:
        return None
    if num_parallel_calls == AUTOTUNE:
        return os.cpu_count() or 1
    return _count(num_parallel_calls, "map", "num_parallel_calls", least=1)


def _merged(first: ElementSpec, second: ElementSpec) -> ElementSpec:
    if first.structure == second.structure:
        leaves = [merge_leaf(a, b) for a, b in zip(first.leaves, second.leaves, strict=True)]
        found = [leaf for leaf in leaves if leaf is not None]
        if len(found) == len(leaves):
            return first.with_leaves(found)
    raise TypeError(
        f"concatenate: elements must have the same structure, dtypes and ranks; the first has "
        f"{first.tree()}, the second {second.tree()}"
    )
