"""Running a step on every replica."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drumline import config
from drumline.distribute import replica_context
from drumline.distribute.arguments import any_apart, stack_if_alike, take_apart
from drumline.distribute.compiled_step import CompiledStep
from drumline.distribute.lockstep import run_in_turn
from drumline.distribute.made_anew import recognized
from drumline.distribute.merge_call import merging_replica
from drumline.distribute.outputs import as_arrays, joined
from drumline.distribute.program import ReplicaProgram
from drumline.distribute.replica_context import SingleContext, running_replica
from drumline.distribute.same_start import start_alike
from drumline.distribute.uneven_program import UnevenProgram, calls_of, present
from drumline.training.state_scope import assign_values

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

MOST_PROGRAMS = 256
"""How many compiled steps a strategy keeps."""

MANY_FORMS = 5
"""From how many forms of one step's arguments on the user is told."""


class Programs:
    """The compiled steps of a strategy, the longest unused forgotten first."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._programs: OrderedDict[Hashable, CompiledStep] = OrderedDict()
        self._forms: OrderedDict[Hashable, int] = OrderedDict()
        self._first: OrderedDict[Hashable, Callable[..., Any]] = OrderedDict()

    def run(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run `fn` on every replica; see `Strategy.run`."""
        form, arrays = take_apart(args, kwargs)
        key = (fn, form)
        program = self._programs.get(key)
        known = fn
        if program is None:
            known = self._first_made(fn)
            key = (known, form)
            program = self._programs.get(key)
        if program is None:
            strategy, replicas = self._strategy, self._strategy.num_replicas_in_sync
            args, kwargs = stack_if_alike((tuple(args), dict(kwargs)), strategy.stack, replicas)
            form, arrays = take_apart(args, kwargs)
            key = (known, form)
            program = self._programs.get(key)
        if program is None:
            kind = UnevenProgram if any_apart((args, kwargs)) else ReplicaProgram
            program = self._programs[key] = kind(self._strategy, fn, form)
            self._made(known)
        self._programs.move_to_end(key)
        return program(arrays)

    def _first_made(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """`fn`, or the first function that was the same but for being another object."""
        same = recognized(fn)
        if same is None:
            return fn
        first = self._first.setdefault(same, fn)
        self._first.move_to_end(same)
        if len(self._first) > MOST_PROGRAMS:
            self._first.popitem(last=False)
        return first

    def _made(self, fn: Callable[..., Any]) -> None:
        if len(self._programs) > MOST_PROGRAMS:
            self._programs.popitem(last=False)
        self._forms[fn] = self._forms.pop(fn, 0) + 1
        if len(self._forms) > MOST_PROGRAMS:
            self._forms.popitem(last=False)
        if self._forms[fn] == MANY_FORMS:
            warnings.warn(
                f"`run` has compiled {getattr(fn, '__qualname__', fn)} for {MANY_FORMS} forms of "
                "its arguments. Python numbers among them are part of the form: pass those that "
                "change from call to call as arrays, such as np.float32(x).",
                stacklevel=4,
            )


def run(
    strategy: Strategy, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Run `fn` on every replica of `strategy`; see `Strategy.run`."""
    if running_replica() is not None or merging_replica() is not None:
        raise RuntimeError(
            "strategy.run was called inside a replica's step, which already runs on every "
            "replica. Call the function itself there."
        )
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            f"strategy.run takes its arguments in a tuple or a list, got {type(args).__name__}. "
            "Write `args=(value,)`."
        )
    if config.functions_run_eagerly():
        return _run_eagerly(strategy, fn, args, kwargs)
    return strategy.programs.run(fn, args, kwargs)


def _run_eagerly(
    strategy: Strategy, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    take_apart(args, kwargs)
    args, kwargs = strategy.known_everywhere((tuple(args), dict(kwargs)))
    if strategy.num_replicas_in_sync == 1:
        with replica_context.enter(SingleContext(strategy)), strategy.scope():
            return as_arrays(fn(*args, **kwargs))
    calls = calls_of((tuple(args), dict(kwargs)), strategy.num_replicas_in_sync)
    # Variables lie on all devices, and an operation takes operands from the same devices alone.
    local = {index: strategy.place_everywhere(call) for index, call in calls.items()}
    outputs, variables, values = run_in_turn(strategy, fn, local, eager=True)
    assign_values(variables, values)
    if strategy.spans_processes:
        start_alike(strategy, variables)
    results = [as_arrays(output) for output in outputs]
    return joined("the results", results, present(calls, strategy.num_replicas_in_sync))
