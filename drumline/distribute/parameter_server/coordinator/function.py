"""Functions that were scheduled: flattened arguments, programs by signature, and their lifetime.

`ScheduledFunctions.call` splits a call's arguments into arrays, per-worker iterators and the rest,
and finds the `ScheduledFunction` that was traced for the rest. It has a program, and the commands
that bring it to workers, for each signature of its arrays and batches: traced in `schedule` if the
shapes are known there, and otherwise when a worker asks for it.

Neither the function nor its model is kept alive from here: functions are weak keys, and a closure
holds what its run needs until it has ended (`Lifetime`). A function that has died is forgotten by
workers and servers too (`FinalizerQueue`).

`StepTracer` leads from a function to its program, and to the updates that servers need for it.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import jax
import numpy as np

from drumline._function_identity import function_key
from drumline.distribute.parameter_server.compiler import (
    Output,
    StepError,
    TracedStep,
    WholeTableReadError,
    trace_step,
)
from drumline.distribute.parameter_server.coordinator.commands import Command
from drumline.distribute.parameter_server.coordinator.scheduling import RemoteValue, next_number
from drumline.distribute.parameter_server.coordinator.values import (
    NeedsMoreDraws,
    PerWorkerDataset,
    PerWorkerIterator,
    TracedIterator,
)
from drumline.distribute.parameter_server.strategy import (
    FinalizerQueue,
    ParameterServerStrategy,
    scheduling,
)
from drumline.distribute.parameter_server.wire.messages import LoadProgram, Signature
from drumline.distribute.step.arguments import ArgumentSpec, Identity, flatten_arguments

_log = logging.getLogger("drumline")

_ROW_GRADIENTS = ("row_gradient", "row_gradient_by_id")

WHOLE_TABLE_BYTES = 256 << 20
"""Up to this size a table of which a step needs more than single rows is fetched whole."""


class StepTracer:
    """Traces functions over a strategy's variables, one at a time.

    Args:
        strategy: whose variables they use.
    """

    def __init__(self, strategy: ParameterServerStrategy) -> None:
        self._strategy = strategy
        self._lock = threading.RLock()
        self._whole: set[str] = set()
        self._states: dict[str, Any] = {}

    def trace(self, fn: Callable[..., Any], specs: Sequence[Any], name: str) -> TracedStep:
        """A program of `fn` on arrays of these specifications.

        Raises:
            StepError: if it uses a variable that is not on the servers, or another thing that
                workers cannot do.
        """
        with self._lock:
            while True:
                try:
                    with self._strategy.scope():
                        traced = trace_step(fn, specs, key_of=self._key_of, is_table=self._is_table)
                except WholeTableReadError as error:
                    self._read_whole(error)
                    continue
                self._require_on_servers(traced, name)
                self._build_optimizers(traced)
                return traced

    def _build_optimizers(self, traced: TracedStep) -> None:
        """Let optimizers have variables, as after a step on one device; servers keep the values.

        So a checkpoint finds them, and one that was restored before reaches the servers.
        """
        for optimizer, variables in zip(traced.optimizers, traced.trained, strict=True):
            if not optimizer.built:
                with self._strategy.scope():
                    optimizer.build(list(variables))

    def commands(self, traced: TracedStep, number: int, signature: Signature) -> list[Command]:
        """Send the servers the updates of optimizers, and return what workers are to be sent."""
        updates: dict[str, str] = {}
        for output in traced.program.outputs:
            if output.kind in ("gradient", *_ROW_GRADIENTS):
                updates.update(self._updates_of(traced, output))
        layouts = tuple(
            layout
            for variable in traced.variables.values()
            if (layout := self._strategy.layout_of(variable)) is not None
        )
        states = {key: self._states[key] for key in traced.variables if key in self._states}
        load = LoadProgram(
            session=self._strategy.session,
            function=number,
            signature=signature,
            layouts=layouts,
            updates=updates,
            state=tuple(states),
            program=np.frombuffer(traced.program.to_bytes(), np.uint8),
            states=tuple(np.asarray(variable.value) for variable in states.values()),
        )
        return [Command(("program", number, signature), load)]

    def _updates_of(self, traced: TracedStep, output: Output) -> dict[str, str]:
        variable = traced.variables[output.key or ""]
        optimizer = traced.optimizers[output.optimizer or 0]
        layout = self._strategy.layout_of(variable)
        assert layout is not None
        sparse = output.kind in _ROW_GRADIENTS
        registry = self._strategy.optimizers
        return {
            layout.shard_name(shard): registry.attach(optimizer, variable, layout, shard, sparse)
            for shard in layout.shards
        }

    def _key_of(self, variable: Any) -> str:
        layout = self._strategy.layout_of(variable)
        return f"state {id(variable)}" if layout is None else layout.key

    def _is_table(self, variable: Any) -> bool:
        key = self._key_of(variable)
        return key in self._strategy.tables and key not in self._whole

    def _read_whole(self, error: WholeTableReadError) -> None:
        """From now on a table counts as a variable that workers fetch whole, if it is not huge."""
        layout = self._strategy.layouts[error.key]
        size = math.prod(layout.shape) * np.dtype(layout.dtype).itemsize
        if size > WHOLE_TABLE_BYTES:
            raise error
        _log.warning("%s It is fetched whole for every step (%d bytes).", error, size)
        self._whole.add(error.key)

    def _require_on_servers(self, traced: TracedStep, name: str) -> None:
        states = {o.key for o in traced.program.outputs if o.kind == "state"}
        for key, variable in traced.variables.items():
            if self._strategy.layout_of(variable) is not None:
                continue
            if key not in states:
                raise StepError(
                    f"The function {name} uses variable {variable.path!r}, which is not on the "
                    "parameter servers. Make it inside `with strategy.scope():`."
                )
            self._states[key] = variable


@dataclass(frozen=True)
class IteratorPlaceholder:
    """Stands for a per-worker iterator: whichever it is, the program is the same.

    Attributes:
        index: which of the arguments' iterators it is.
        treedef: the structure of its elements.
        specs: the leaves of their specification.
    """

    index: int
    treedef: Any
    specs: tuple[Any, ...]


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call.

    Attributes:
        form: all but arrays and iterators; it has a `Place` for each of the latter.
        arrays: the arrays, in order.
        iterators: the iterators, in order.
    """

    form: ArgumentSpec
    arrays: list[np.ndarray]
    iterators: list[PerWorkerIterator]

    @property
    def places(self) -> list[IteratorPlaceholder]:
        """What stands for the iterators."""
        return [
            fixed.value
            for fixed in self.form.fixed
            if isinstance(fixed, Identity) and isinstance(fixed.value, IteratorPlaceholder)
        ]


def opened(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Flatten a call's arguments; waits for the results of other functions among them.

    Raises:
        TypeError: if one is a dataset, an iterator of this process, or an array of strings.
    """
    iterators: list[PerWorkerIterator] = []

    def as_argument(leaf: Any) -> Any:
        if isinstance(leaf, PerWorkerIterator):
            if not any(each is leaf for each in iterators):
                iterators.append(leaf)
            index = next(i for i, each in enumerate(iterators) if each is leaf)
            leaves, treedef = jax.tree.flatten(leaf.element_spec)
            return Identity(_place(index, treedef, tuple(leaves)))
        if isinstance(leaf, PerWorkerDataset):
            raise TypeError(
                "A scheduled function got a per-worker dataset. Pass an iterator: "
                "`iter(coordinator.create_per_worker_dataset(...))`, once for each pass over it."
            )
        return leaf.fetch() if isinstance(leaf, RemoteValue) else leaf

    tree = jax.tree.map(as_argument, (tuple(args), dict(kwargs)))
    form, arrays = flatten_arguments(*tree)
    return Arguments(form, [np.asarray(array) for array in arrays], iterators)


@functools.lru_cache(maxsize=1024)
def _place(index: int, treedef: Any, specs: tuple[Any, ...]) -> IteratorPlaceholder:
    return IteratorPlaceholder(index, treedef, specs)


class WeakFunction:
    """A function that may die. Equal to another one if the functions are equal, and live.

    Args:
        fn: a function, a method, or another object that can be called.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._hash = hash(fn)
        self._get: Callable[[], Callable[..., Any] | None]
        try:
            self._get = weakref.WeakMethod(fn) if isinstance(fn, MethodType) else weakref.ref(fn)
        except TypeError:  # such as a builtin function, which keeps nothing alive
            self._get = lambda: fn

    def __call__(self) -> Callable[..., Any] | None:
        """The function, None if it died."""
        return self._get()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        own = self()
        return isinstance(other, WeakFunction) and own is not None and own == other()


class InUseReferences:
    """What runs of a function need, alive for as long as one of them is under way.

    Args:
        things: among them the function and its variables.
    """

    def __init__(self, things: Sequence[Any]) -> None:
        self.things = things


class Lifetime:
    """Gives all runs of a function the same `InUse`."""

    def __init__(self) -> None:
        self._in_use: weakref.ref[InUseReferences] | None = None
        self._parts: list[weakref.ref[Any]] = []

    def needs(self, things: Sequence[Any]) -> None:
        """From now on runs need these, beside the function."""
        self._parts = [weakref.ref(thing) for thing in things]
        self._in_use = None

    def get(self, fn: Callable[..., Any]) -> InUseReferences | None:
        """What a run of `fn` is to hold; None if something that it needs has died."""
        found = None if self._in_use is None else self._in_use()
        if found is None:
            things = [part() for part in self._parts]
            if any(thing is None for thing in things):
                return None
            found = InUseReferences([fn, *things])
            self._in_use = weakref.ref(found)
        return found


MOST_FUNCTIONS = 256
"""How many functions are known at a time; the longest unused is forgotten, and traced again."""


@dataclass(frozen=True)
class ScheduledCall:
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

    A function that nothing else refers to is forgotten, with the model that it closes over.

    Args:
        tracing: makes programs of functions.
        discarded: notes ``("function", number)`` of what is forgotten.
    """

    def __init__(self, tracing: StepTracer, discarded: FinalizerQueue) -> None:
        self._tracing = tracing
        self._discarded = discarded
        self._functions: OrderedDict[tuple[Hashable, Hashable], ScheduledFunction] = OrderedDict()
        self._last: weakref.ref[Arguments] | None = None

    def call(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ScheduledCall:
        """The function, traced if it can be now, and its arguments."""
        arguments = self._opened(args, kwargs)
        key = (function_key(fn) or WeakFunction(fn), arguments.form)
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
        return ScheduledCall(function, arguments.arrays, numbers, (in_use, arguments))

    def _forget_some(self) -> None:
        for key in list(self._functions):
            if isinstance(key[0], WeakFunction) and key[0]() is None:
                del self._functions[key]
        if len(self._functions) > MOST_FUNCTIONS:
            self._functions.popitem(last=False)

    def _opened(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
        """A call's arguments, flattened; a loop calls with the same iterators again and again."""
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

    def __init__(self, fn: Callable[..., Any], arguments: Arguments, tracing: StepTracer) -> None:
        self.number = next_number()
        self._fn = WeakFunction(fn)
        self._name = getattr(fn, "__qualname__", "")
        self._while_used = Lifetime()
        self._form = arguments.form
        # The same iterator given twice is one, from which the function draws in turn.
        self._places = list(dict.fromkeys(arguments.places))
        self._arrays = len(arguments.arrays)
        self._tracing = tracing
        self._commands: dict[Signature, list[Command]] = {}
        self._finish: Callable[[Sequence[Any]], Any] | None = None
        self._lock = threading.Lock()
        self.draws = [1] * len(self._places)
        self.writes = False
        self.applied: list[tuple[weakref.ref[Any], int]] = []

    def in_use(self, fn: Callable[..., Any]) -> InUseReferences | None:
        """What its runs need; None if that has died, as a model that a global name had."""
        return self._while_used.get(fn)

    def trace_now(self, fn: Callable[..., Any], arguments: Arguments) -> None:
        """Trace it here if the elements' shapes are known, so that its errors are raised here."""
        specs = [spec for place in self._places for spec in place.specs]
        if not all(spec.is_static and not spec.is_string for spec in specs):
            return
        own = [(tuple(array.shape), str(array.dtype)) for array in arguments.arrays]
        elements = [
            [(tuple(spec.shape), str(spec.dtype)) for spec in p.specs] for p in self._places
        ]
        is_traced = False
        while not is_traced:
            drawn = [leaf for k, n in zip(elements, self.draws, strict=True) for leaf in k * n]
            is_traced = bool(self.program((*own, *drawn)))

    def program(self, signature: Signature) -> list[Command]:
        """What a worker has to be sent, to run it on arguments of this signature.

        Nothing if the worker is to draw more elements first: as many as `draws` says now.

        Args:
            signature: of the arrays, then of the drawn elements' leaves.
        """
        with self._lock:
            if signature in self._commands:
                return self._commands[signature]
            drawn = sum(n * len(p.specs) for n, p in zip(self.draws, self._places, strict=True))
            if len(signature) < self._arrays + drawn:
                return []
            try:
                self._commands[signature] = self._traced(signature)
            except NeedsMoreDraws as more:
                self.draws[more.argument] += 1
                return []
            return self._commands[signature]

    def result(self, arrays: Sequence[Any]) -> Any:
        """What it returned, from the arrays that the worker sent."""
        assert self._finish is not None
        return self._finish(arrays)

    def _traced(self, signature: Signature) -> list[Command]:
        specs = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in signature]
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
                lambda leaf: (
                    iterators[leaf.index] if isinstance(leaf, IteratorPlaceholder) else leaf
                ),
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
        return self._tracing.commands(traced, self.number, signature)
