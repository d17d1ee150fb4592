"""Functions that were scheduled: traced for each form of what they are called with."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from drumline.distribute.made_anew import recognized
from drumline.distribute.parameter_server.coordinator.calls import Arguments, Place, opened
from drumline.distribute.parameter_server.coordinator.closure import next_number
from drumline.distribute.parameter_server.coordinator.commands import Order
from drumline.distribute.parameter_server.coordinator.kept_functions import (
    InUse,
    WeakFunction,
    WhileUsed,
)
from drumline.distribute.parameter_server.coordinator.per_worker import (
    NeedsMoreDraws,
    PerWorkerIterator,
    TracedIterator,
)
from drumline.distribute.parameter_server.coordinator.tracing import Tracing
from drumline.distribute.parameter_server.discarded import Discarded
from drumline.distribute.parameter_server.scheduled import scheduling
from drumline.distribute.parameter_server.worker.functions import Form, form_from_json

MOST_FUNCTIONS = 256
"""How many functions are known at a time; the longest unused is forgotten, and traced again."""


@dataclass(frozen=True)
class Call:
    """A function and what it is called with this time.

    Attributes:
        function: what is called.
        arrays: the arrays among its arguments.
        iterators: the numbers of the iterators among them.
        needs: what has to live until it has run.
    """

    function: ScheduledFunction
    arrays: Sequence[np.ndarray]
    iterators: Sequence[int]
    needs: Any


class ScheduledFunctions:
    """What a coordinator has been given to schedule.

    A function that nobody else has any more is forgotten, with the model that it closes over.

    Args:
        tracing: makes programs of functions.
        discarded: notes ``("function", number)`` of what is forgotten.
    """

    def __init__(self, tracing: Tracing, discarded: Discarded) -> None:
        self._tracing = tracing
        self._discarded = discarded
        self._functions: OrderedDict[tuple[Hashable, Hashable], ScheduledFunction] = OrderedDict()
        self._last: weakref.ref[Arguments] | None = None

    def call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """The function, traced if it can be now, and its arguments."""
        arguments = self._opened(args, kwargs)
        key = (recognized(fn) or WeakFunction(fn), arguments.form)
        function = self._functions.get(key)
        in_use = None if function is None else function.in_use(fn)
        if function is None or in_use is None:
            function = self._functions[key] = ScheduledFunction(fn, arguments, self._tracing)
            self._discarded.watch(function, ("function", function.number))
            function.trace_now(fn, arguments)
            self._forget_some()
            in_use = function.in_use(fn)
        self._functions.move_to_end(key)
        numbers = [iterator.number for iterator in arguments.iterators]
        return Call(function, arguments.arrays, numbers, (in_use, arguments))

    def _forget_some(self) -> None:
        for key in list(self._functions):
            if isinstance(key[0], WeakFunction) and key[0]() is None:
                del self._functions[key]
        if len(self._functions) > MOST_FUNCTIONS:
            self._functions.popitem(last=False)

    def _opened(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """A call's arguments taken apart; a loop calls with the same iterators again and again."""
        if kwargs or not all(isinstance(each, PerWorkerIterator) for each in args):
            return opened(args, kwargs)
        last = None if self._last is None else self._last()
        if last is None or list(map(id, last.iterators)) != list(map(id, args)):
            last = opened(args, kwargs)
            self._last = weakref.ref(last)  # which closures that run keep
        return last


class ScheduledFunction:
    """A function, called with arguments of one structure.

    Attributes:
        number: by which workers know it.
        draws: how many elements it draws from each of its iterators.
        writes: whether it writes variables.
        applied: references to the optimizers that it applies, each with how often it does.
    """

    def __init__(self, fn: Callable[..., Any], arguments: Arguments, tracing: Tracing) -> None:
        self.number = next_number()
        self._fn = WeakFunction(fn)
        self._name = getattr(fn, "__qualname__", "")
        self._while_used = WhileUsed()
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
        self.applied: list[tuple[weakref.ref[Any], int]] = []

    def in_use(self, fn: Callable[..., Any]) -> InUse | None:
        """What its runs need; None if that has died, as a model that a global name had."""
        return self._while_used.get(fn)

    def trace_now(self, fn: Callable[..., Any], arguments: Arguments) -> None:
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
        fn = self._fn()
        assert fn is not None, self._name  # its caller, or a closure of it, has it

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
                return fn(*args, **kwargs)

        traced = self._tracing.trace(step, specs, self._name)
        self._finish = traced.finish
        self._while_used.needs([*traced.variables.values(), *traced.optimizers])
        self.writes = any(o.kind not in ("result", "state") for o in traced.program.outputs)
        optimizers = map(weakref.ref, traced.optimizers)
        self.applied = list(zip(optimizers, traced.program.applied, strict=True))
        return self._tracing.orders(traced, self.number, form)
