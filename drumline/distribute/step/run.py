"""Running a step on every replica."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from drumline import config
from drumline._function_identity import FunctionKey, definition_of, function_key
from drumline._interrupts import signals_held_back
from drumline.data.elements.precision import any_wide, in_64_bits, keeping_64_bits
from drumline.distribute.replica import (
    SingleContext,
    default_device,
    enter_replica_context,
    merging_replica,
    running_replica,
)
from drumline.distribute.step.arguments import (
    ArgumentSpec,
    flatten_arguments,
    is_regular,
    normalized,
    taking_part,
)
from drumline.distribute.step.central_programs import require_apart
from drumline.distribute.step.central_run import CentralReplicaProgram
from drumline.distribute.step.compiled_step import CompiledStep, representable
from drumline.distribute.step.eager_replicas import run_replicas_sequentially
from drumline.distribute.step.outputs import as_arrays, joined
from drumline.distribute.step.replica_programs import ReplicaProgram, UnevenProgram
from drumline.distribute.values import PerReplica
from drumline.distribute.variable import broadcast_initial_values
from drumline.training.state_scope import assign_values

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

Numbers = tuple[tuple[type, object], ...]

MOST_PROGRAMS = 256
"""How many compiled steps a strategy keeps."""

MANY_FORMS = 5
"""From how many different Python numbers in one step's arguments on the user is warned."""


@dataclass(frozen=True)
class RunOptions:
    """How `Strategy.run` runs a step, in the place of ``tf.distribute.RunOptions``.

    Attributes:
        keep_64_bits: whether 64-bit numbers in numpy's arrays among the arguments keep their bits,
            in the step too. By default they become 32-bit ones, as everywhere in JAX, and integers
            that do not fit are refused.
    """

    keep_64_bits: bool = False


_PASSABLE = (
    *(bool, int, float, complex, str, bytes, type(None)),
    *(np.generic, np.ndarray, jax.Array, PerReplica, list, dict, set),
)

MANY = 5
"""From how many functions of one definition on the user is warned."""

MOST_DEFINITIONS = 256
"""Of how many definitions it is counted how many functions they made."""


class Redefinitions:
    """Counts the functions that one definition made, each of which was compiled."""

    def __init__(self) -> None:
        self._made: OrderedDict[CodeType, dict[int, list[_Seen]]] = OrderedDict()

    def note(self, fn: Callable[..., Any]) -> str | None:
        """Say that `fn` is compiled.

        Returns:
            What to tell the user: `MANY` functions of one definition do the same, or differ in
            values that could be arguments. Else None.
        """
        definition = definition_of(fn)
        if definition is None:
            return None
        code = definition.__code__
        made = self._made[code] = self._made.pop(code, {})
        if len(self._made) > MOST_DEFINITIONS:
            self._made.popitem(last=False)
        if id(fn) in made or len(made) >= MANY:
            return None
        made[id(fn)] = [
            _Seen(name, key, isinstance(value, _PASSABLE))
            for name, key, value in FunctionKey(fn).parts()
        ]
        return _advice(definition, list(made.values())) if len(made) == MANY else None


@dataclass(frozen=True)
class _Seen:
    """One of the objects that a function sees, which it does not hold.

    Attributes:
        name: what the function calls it.
        key: what it is compared by.
        passable: whether it could be an argument.
    """

    name: str
    key: Hashable
    passable: bool


def _advice(definition: FunctionType, made: list[list[_Seen]]) -> str | None:
    many = f"`run` has compiled {definition.__qualname__} {MANY} times, since"
    if any([part.name for part in seen] != [part.name for part in made[0]] for seen in made):
        return None
    columns = list(zip(*made, strict=True))
    differing = [column for column in columns if len({part.key for part in column}) > 1]
    if not differing:
        return (
            f"{many} it was another function each time, though with the same code and the same "
            "objects around it. Define it once, before the loop, or compile the function that "
            "defines it with `dl.function`."
        )
    if not all(part.passable for column in differing for part in column):
        return None
    names = ", ".join(dict.fromkeys(repr(column[0].name) for column in differing))
    return (
        f"{many} it saw other values of {names} each time. Values that a step closes over are "
        "constants of it: pass those that change from call to call as arguments, numbers as "
        "arrays such as np.float32(x)."
    )


class StepCache:
    """The compiled steps of a strategy, the longest unused forgotten first."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._programs: OrderedDict[Hashable, CompiledStep] = OrderedDict()
        self._numbers: OrderedDict[Hashable, dict[Numbers, None]] = OrderedDict()
        self._first: OrderedDict[Hashable, Callable[..., Any]] = OrderedDict()
        self._redefinitions = Redefinitions()

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: RunOptions,
    ) -> Any:
        """Run `fn` on every replica; see `Strategy.run`."""
        if self._kind() is CentralReplicaProgram:
            require_apart()
        if options.keep_64_bits:
            args, kwargs = in_64_bits((tuple(args), dict(kwargs)))
        form, arrays = flatten_arguments(args, kwargs)
        if not is_regular(form.treedef):
            args, kwargs = _normalized(self._strategy, args, kwargs)
            form, arrays = flatten_arguments(args, kwargs)
        key = (fn, form, options)
        program = self._programs.get(key)
        if program is None:
            known = self._first_made(fn)
            key = (known, form, options)
            program = self._programs.get(key)
        if program is None:
            kind = self._kind() if is_regular(form.treedef) else UnevenProgram
            program = self._programs[key] = kind(
                self._strategy, fn, form, keep_64_bits=options.keep_64_bits
            )
            self._made(known, form)
        self._programs.move_to_end(key)
        return program(arrays)

    def _kind(self) -> type[ReplicaProgram]:
        arrays, planner = self._strategy._arrays, self._strategy._planner
        return CentralReplicaProgram if arrays.has_home and planner is None else ReplicaProgram

    def _first_made(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """`fn`, or the first function that was the same but for being another object."""
        same = function_key(fn)
        if same is None:
            return fn
        first = self._first.setdefault(same, fn)
        self._first.move_to_end(same)
        if len(self._first) > MOST_PROGRAMS:
            self._first.popitem(last=False)
        return first

    def _made(self, fn: Callable[..., Any], form: ArgumentSpec) -> None:
        if len(self._programs) > MOST_PROGRAMS:
            self._programs.popitem(last=False)
        redefined = self._redefinitions.note(fn)
        if redefined is not None:
            warnings.warn(redefined, stacklevel=5)
        numbers = self._numbers[fn] = self._numbers.pop(fn, {})
        if len(self._numbers) > MOST_PROGRAMS:
            self._numbers.popitem(last=False)
        if form.numbers in numbers or len(numbers) == MANY_FORMS:
            return
        numbers[form.numbers] = None
        if len(numbers) == MANY_FORMS:
            shown = ", ".join(dict.fromkeys(repr(n) for given in numbers for _, n in given))
            warnings.warn(
                f"`run` has compiled {getattr(fn, '__qualname__', fn)} for {MANY_FORMS} different "
                f"Python numbers among its arguments ({shown:.60}). They are constants of a "
                "compiled step: pass those that change from call to call as arrays, such as "
                "np.float32(x).",
                stacklevel=5,
            )


def _normalized(
    strategy: Strategy, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tree = (tuple(args), dict(kwargs))
    made: tuple[tuple[Any, ...], dict[str, Any]] = normalized(
        tree, strategy._arrays.stack, strategy.num_replicas_in_sync
    )
    return made


def run(
    strategy: Strategy,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: RunOptions | None = None,
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
        return _run_eagerly(strategy, fn, args, kwargs, options or RunOptions())
    if strategy.num_replicas_in_sync > 1:
        return strategy._programs.run(fn, args, kwargs, options or RunOptions())
    # The program of one replica goes where its arguments are, and numpy's are nowhere yet.
    with default_device(strategy.replica_devices[0]):
        return strategy._programs.run(fn, args, kwargs, options or RunOptions())


def _run_eagerly(
    strategy: Strategy,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: RunOptions,
) -> Any:
    form, arrays = flatten_arguments(args, kwargs)
    arrays = list(representable(fn, arrays, keep_64_bits=options.keep_64_bits))
    with keeping_64_bits(any_wide(arrays)):
        return _each_in_turn(strategy, fn, *form.arguments(arrays))


def _each_in_turn(
    strategy: Strategy, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    if strategy.num_replicas_in_sync == 1:
        if strategy._arrays.variables_away:  # an operation takes operands from the same devices
            args, kwargs = strategy._arrays.place_with_variables((tuple(args), dict(kwargs)))
        with enter_replica_context(SingleContext(strategy)), strategy.scope():
            return as_arrays(fn(*args, **kwargs))
    replicas = strategy.num_replicas_in_sync
    tree = strategy._arrays.known_everywhere(_normalized(strategy, args, kwargs))
    present = taking_part(tree, replicas)
    outcome = run_replicas_sequentially(strategy, fn, tree, present, eager=True)
    with signals_held_back:
        assign_values(outcome.variables, outcome.values)
    if strategy.spans_processes:
        broadcast_initial_values(strategy, outcome.variables)
    results = [as_arrays(result) for result in outcome.results.values()]
    carried = {number: as_arrays(result) for number, result in outcome.carried.items()}
    numbers = None if len(present) == replicas else present
    return joined("the results", results, numbers, carried, outcome.unknown)
