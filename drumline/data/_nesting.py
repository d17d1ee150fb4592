"""Methods that make datasets of datasets, and of the datasets that functions return."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from drumline.data.construct import signed
from drumline.data.dataset_spec import has_datasets
from drumline.data.epochs import first_block, first_element, first_elements
from drumline.data.execute.held_rows import held_rows
from drumline.data.functions.build import BuiltFunction, build
from drumline.data.functions.dataset_function import DatasetFunction, WindowSize, dataset_function
from drumline.data.functions.shape_key import by_shape_alone
from drumline.data.functions.user_function import UserFunction
from drumline.data.methods.arguments import AUTOTUNE, check_deterministic, count_of
from drumline.data.methods.drawing import without_key
from drumline.data.methods.planned import Planned
from drumline.data.plan import nesting
from drumline.data.plan.node import Node
from drumline.data.plan.sources import Generator, SlicesWithDatasets
from drumline.data.spec import ElementSpec
from drumline.data.wrapping import as_dataset

CYCLE_LENGTH = 16
"""How many datasets ``interleave`` keeps open unless told otherwise."""

_INT64 = range(-(2**63), 2**63)


class Nesting(Planned):
    """Windows, and what flattens datasets of datasets."""

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Datasets of ``size`` elements each, every leaf of the structure a dataset of its own.

        Args:
            size: of a window.
            shift: by how many elements the next window begins later; ``size`` by default.
            stride: between the elements of a window.
            drop_remainder: whether windows at the end that are not full are left out.
            name: shown by ``explain()``.

        Raises:
            ValueError: a number is not positive.
        """
        number = count_of(size, "window", "size", least=1)
        moved = number if shift is None else count_of(shift, "window", "shift", least=1)
        step = count_of(stride, "window", "stride", least=1)
        plan = nesting.Window((self._plan,), number, moved, step, bool(drop_remainder))
        return self._with(plan, name)

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Self:
        """The elements of the dataset that ``map_func`` returns for each element, one by one.

        The function is called as Python, with numpy leaves (or datasets, after a ``window``), now
        for the first elements and again in every epoch. Operations inside it that are given no seed
        get seeds that follow from the epoch and the element's position.

        Raises:
            TypeError: it does not return a dataset.
            Exception: what it raises for the first element. For a later one it is raised in its
                place, as is a dataset whose elements differ from those of the first.
        """
        function = self._function(map_func, "flat_map")
        return self._with(nesting.FlatMap((self._plan,), function), name)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """As ``flat_map``, taking elements of several such datasets by turns.

        Args:
            map_func: as of ``flat_map``.
            cycle_length: how many datasets are open at a time; 16 by default, on every machine.
            block_length: how many elements are taken of a dataset at a time; 1 by default.
            num_parallel_calls: opens so many datasets before it is their turn, and reads so many
                at once, ahead and each on a thread; ``AUTOTUNE`` opens ``cycle_length`` and finds
                out how many to read.
            deterministic: accepted as in ``tf.data``; the order is the same for every number of
                threads, which either value allows.
            name: shown by ``explain()``.

        Raises:
            ValueError: a number is not positive.
        """
        check_deterministic(deterministic, "interleave")
        cycle = CYCLE_LENGTH
        if cycle_length not in (None, AUTOTUNE):
            cycle = count_of(cycle_length, "interleave", "cycle_length", least=1)
        block = 1
        if block_length is not None:
            block = count_of(block_length, "interleave", "block_length", least=1)
        workers = 0
        if num_parallel_calls == AUTOTUNE:
            workers = AUTOTUNE
        elif num_parallel_calls is not None:
            calls = count_of(num_parallel_calls, "interleave", "num_parallel_calls", least=1)
            workers = min(calls, cycle)
        function = self._function(map_func, "interleave")
        plan = nesting.Interleave((self._plan,), function, cycle, block, workers)
        return self._with(plan, name)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
        output_signature: Any = None,
    ) -> Self:
        """Gathers elements of equal keys and gives every ``window_size`` of them to a function.

        A window is made once it is full; at the end of the input those that are not full follow,
        by ascending keys.

        ``reduce_func`` is tried now, with the first element's key and with others near it, to see
        which dimensions of its datasets depend on the key: those are ``None`` in ``element_spec``.

        Args:
            key_func: takes an element, returns one integer. It is compiled as in ``map``.
            reduce_func: takes a key and a dataset of elements, returns a dataset.
            window_size: how many elements make a window.
            window_size_func: takes a key and returns that number; called once for each key.
            name: shown by ``explain()``.
            output_signature: ``TensorSpec`` of each leaf of the elements of all datasets that
                ``reduce_func`` returns, for one whose keys say too little of the others.

        Raises:
            ValueError: not exactly one of ``window_size`` and ``window_size_func`` is given, or
                the first dataset is not as ``output_signature`` says.
            TypeError: ``key_func`` returns something else than an integer, or ``reduce_func``
                something else than a dataset.
        """
        size = _window_size(window_size, window_size_func)
        spec = None if output_signature is None else signed(output_signature, "group_by_window")
        return self._grouped(key_func, reduce_func, size, None, name, spec)

    def _grouped(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        size: WindowSize,
        other_keys: Sequence[int] | None,
        name: str | None,
        promised: ElementSpec | None = None,
    ) -> Self:
        """``group_by_window``; keys whose datasets may differ in shape are tried as well."""
        key = self._integer(key_func, "group_by_window")
        if key.draws:
            # Keys are drawn in a map; windows are of the elements without them.
            paired: Any = self
            spread = self._plan.spec.structure.kind == "tuple"
            paired = paired.map(_with_key(key_func, spread))
            reduce = UserFunction(reduce_func, "group_by_window")
            made: Self = paired._grouped(
                _key_of,
                lambda k, w: reduce((k, w.map(without_key))),
                size,
                other_keys,
                name,
                promised,
            )
            return made
        first, window = self._first_window(key)
        if other_keys is None:
            own = int(first)
            other_keys = [n for n in (own + 1, own - 1, 0, 1) if n != own and n in _INT64]
        function = dataset_function(
            reduce_func,
            "group_by_window",
            (first, window),
            lambda: [(np.int64(other), window) for other in other_keys],
            promised=promised,
            grouped=self._plan.spec,
        )
        return self._with(nesting.GroupByWindow((self._plan,), function, key, size), name)

    def _function(self, function: Callable[..., Any], operation: str) -> DatasetFunction:
        plan = self._plan
        first = first_element(plan)
        made = dataset_function(
            function, operation, first, lambda: first_elements(plan, 2)[1:], plan.spec
        )
        return dataclasses.replace(made, eager=made.eager and not _has_generators(plan))

    def _integer(self, function: Callable[..., Any], operation: str) -> BuiltFunction:
        """A function from an element to one integer, ready to run."""
        plan = self._plan
        user = UserFunction(function, operation)
        found = None if has_datasets(plan.spec) else by_shape_alone(user, plan.spec)
        built = found or build(
            function, operation, plan.spec, lambda: first_element(plan), may_draw=True
        )
        leaves = built.spec.leaves
        if len(leaves) != 1 or leaves[0].shape or leaves[0].dtype.kind not in "iu":
            raise TypeError(f"{user.where} must return one integer, not {built.spec.tree()}")
        return built

    def _first_window(self, key: BuiltFunction) -> Any:
        """A key, and a dataset of one element, to try the function with."""
        block = first_block(self._plan)
        keys = key.run(block, int)
        if keys.error is not None:
            raise keys.error
        return np.int64(keys.columns[0][0]), as_dataset(held_rows([block], self._plan.spec))


def _has_generators(plan: Node) -> bool:
    """Whether a dataset among the elements runs a generator, whatever the first of them does."""
    datasets = (node for node in plan.walk() if isinstance(node, SlicesWithDatasets))
    return any(isinstance(node, Generator) for made in datasets for node in made.walk())


def _with_key(key_func: Callable[..., Any], spread: bool) -> Callable[..., Any]:
    def with_key(*arguments: Any) -> tuple[Any, Any]:
        return arguments if spread else arguments[0], key_func(*arguments)

    return with_key


def _key_of(element: Any, key: Any) -> Any:
    return key


def _window_size(size: int | None, function: Callable[[Any], Any] | None) -> WindowSize:
    if size is not None and function is None:
        return WindowSize(count_of(size, "group_by_window", "window_size", least=1))
    if size is None and function is not None:
        return WindowSize(function)
    raise ValueError("group_by_window needs either window_size or window_size_func")
