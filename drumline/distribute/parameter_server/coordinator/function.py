"""Functions that were scheduled: traced for each form of what they are called with."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline.distribute.made_anew import recognized
from drumline.distribute.parameter_server.coordinator.calls import Arguments, Place, opened
from drumline.distribute.parameter_server.coordinator.closure import next_number
from drumline.distribute.parameter_server.coordinator.per_worker import (
    NeedsMoreDraws,
    PerWorkerIterator,
    TracedIterator,
)
from drumline.distribute.parameter_server.coordinator.reached_worker import Order
from drumline.distribute.parameter_server.coordinator.tracing import Tracing
from drumline.distribute.parameter_server.scheduled import scheduling
from drumline.distribute.parameter_server.worker.forms import Form, form_from_json

MOST_FUNCTIONS = 256
"""How many functions are known at a time; the longest unused is forgotten, and traced again."""


@dataclass(frozen=True)
class Call:
    """A function and what it is called with this time."""

    function: ScheduledFunction
    arrays: Sequence[np.ndarray]
    iterators: Sequence[int]


class ScheduledFunctions:
    """What a coordinator has been given to schedule.

    Args:
        tracing: makes programs of functions.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._functions: OrderedDict[Hashable, ScheduledFunction] = OrderedDict()
        self._last: tuple[tuple[Any, ...], Arguments] | None = None

    def call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """The function, traced if it can be now, and its arguments."""
        arguments = self._opened(args, kwargs)
        key = (recognized(fn) or fn, arguments.form)
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = ScheduledFunction(fn, arguments, self._tracing)
            function.trace_now(arguments)
            if len(self._functions) > MOST_FUNCTIONS:
                self._functions.popitem(last=False)
        self._functions.move_to_end(key)
        return Call(function, arguments.arrays, _numbers(arguments.iterators))

    def _opened(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """A call's arguments taken apart; a loop calls with the same iterators again and again."""
        if kwargs or not all(isinstance(each, PerWorkerIterator) for each in args):
            return opened(args, kwargs)
        last = self._last
        if last is None or list(map(id, last[0])) != list(map(id, args)):
            last = self._last = (tuple(args), opened(args, kwargs))
        return last[1]


class ScheduledFunction:
    """A function, called with arguments of one structure.

    Attributes:
        number: by which workers know it.
        draws: how many elements it draws from each of its iterators.
        writes: whether it writes variables.
        applied: the optimizers that it applies, each with how often it does.
    """

    def __init__(self, fn: Callable[..., Any], arguments: Arguments, tracing: Tracing) -> None:
        self.number = next_number()
        self._fn = fn
        self._form = arguments.form
        # The same iterator given twice is one, from which the function draws in turn.
        self._places = list(dict.fromkeys(arguments.places))
        self._arrays = len(arguments.arrays)
        self._tracing = tracing
        self._orders: dict[Form, list[Order]] = {}
        self._finish: Callable[[Sequence[Any]], Any] | None = None
        self._lock = threading.Lock()
        self.draws = [1] * len(self._places)
        self.writes = False
        self.applied: list[tuple[Any, int]] = []

    def trace_now(self, arguments: Arguments) -> None:
        """Trace it here if the elements' shapes are known, so that its errors are raised here."""
        specs = [spec for place in self._places for spec in place.specs]
        if not all(spec.is_static and not spec.is_string for spec in specs):
            return
        own = [(array.shape, str(array.dtype)) for array in arguments.arrays]
        elements = [[(spec.shape, str(spec.dtype)) for spec in p.specs] for p in self._places]
        is_traced = False
        while not is_traced:
            drawn = [leaf for k, n in zip(elements, self.draws, strict=True) for leaf in k * n]
            is_traced = bool(self.program([*own, *drawn]))

    def program(self, form: Any) -> list[Order]:
        """What a worker has to be sent, to run it on arguments of this form.

        Nothing if the worker is to draw more elements first: as many as `draws` says now.

        Args:
            form: shapes and dtypes of the arrays, then of the drawn elements' leaves.
        """
        form = form_from_json(form)
        with self._lock:
            if form in self._orders:
                return self._orders[form]
            drawn = sum(n * len(p.specs) for n, p in zip(self.draws, self._places, strict=True))
            if len(form) < self._arrays + drawn:
                return []
            try:
                self._orders[form] = self._traced(form)
            except NeedsMoreDraws as more:
                self.draws[more.argument] += 1
                return []
            return self._orders[form]

    def result(self, arrays: Sequence[Any]) -> Any:
        """What it returned, from the arrays that the worker sent."""
        assert self._finish is not None
        return self._finish(arrays)

    def _traced(self, form: Form) -> list[Order]:
        specs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in form]
        drawn = list(self.draws)

        def step(*leaves: Any) -> Any:
            arrays, elements = leaves[: self._arrays], list(leaves[self._arrays :])
            iterators = []
            for place, times in zip(self._places, drawn, strict=True):
                size = len(place.specs)
                own = [elements[i * size : (i + 1) * size] for i in range(times)]
                del elements[: times * size]
                iterators.append(TracedIterator(place.index, place.treedef, own))
            args, kwargs = self._form.arguments(arrays)
            args, kwargs = jax.tree.map(
                lambda leaf: iterators[leaf.index] if isinstance(leaf, Place) else leaf,
                (args, kwargs),
            )
            with scheduling():
                return self._fn(*args, **kwargs)

        traced = self._tracing.trace(step, specs, getattr(self._fn, "__qualname__", ""))
        self._finish = traced.finish
        self.writes = any(o.kind not in ("result", "state") for o in traced.program.outputs)
        self.applied = list(zip(traced.optimizers, traced.program.applied, strict=True))
        return self._tracing.orders(traced, self.number, form)


def _numbers(iterators: Sequence[PerWorkerIterator]) -> list[int]:
    return [iterator.number for iterator in iterators]
