"""From the cotangents of targets to those of sources.

`pullback` transposes the linear program of a recording. `replayed_pullback` differentiates each
recorded operation again, in operations of the current trace, so that a tape can differentiate the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from drumline.training import jax_internals
from drumline.training.tape.recording import Operation, Recording

# From one cotangent per target to one per source, None where the targets do not depend on it.
Pullback = Callable[[Sequence[Any]], list[Any]]


def pullback(recording: Recording, targets: Sequence[Any], sources: Sequence[Any]) -> Pullback:
    """The transposed part of the program that leads from `sources` to `targets`.

    Both are active values. A source may be computed from another, or be a target.
    """
    tangents = [recording.tangent(value) for value in (*targets, *sources)]
    program, consts = recording.program.to_jaxpr(tangents)
    ends, starts = program.outvars[: len(targets)], program.outvars[len(targets) :]
    part, consts = _between(program, consts, starts, ends)
    count = len(set(starts))
    position = {start: i for i, start in enumerate(dict.fromkeys(starts))}

    def pull(cotangents: Sequence[Any]) -> list[Any]:
        found = jax_internals.transpose(part, consts, cotangents)[:count]
        return [found[position[start]] for start in starts]

    return pull


def _between(
    program: Any, consts: Sequence[Any], starts: Sequence[Any], ends: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """What leads from `starts` to `ends`, as a program whose inputs begin with the distinct
    `starts`, and its constants. Other tangents that it needs are further inputs."""
    unique = list(dict.fromkeys(starts))
    eqns = _without_other_tangents(program, unique)
    inputs, eqns = _with_inputs(unique, eqns)
    given = {*inputs, *program.constvars}
    for eqn in eqns:
        given.update(eqn.outvars)
    needed = dict.fromkeys(
        atom for atoms in (*(eqn.invars for eqn in eqns), ends) for atom in _variables(atoms)
    )
    others = [variable for variable in needed if variable not in given]
    whole = jax_internals.linear_jaxpr(program, [*inputs, *others], list(ends), eqns)
    return jax_internals.pruned(whole, consts, len(inputs))


def _without_other_tangents(program: Any, starts: Sequence[Any]) -> list[Any]:
    """All equations but those whose results are tangents and do not depend on `starts`."""
    reached = set(starts)
    tangents = {*program.invars, *starts}
    kept = []
    for eqn in program.eqns:
        operands = _variables(eqn.invars)
        is_reached = any(atom in reached for atom in operands)
        if is_reached:
            reached.update(eqn.outvars)
        if any(atom in tangents for atom in operands):
            tangents.update(eqn.outvars)
            if not is_reached:
                continue
        kept.append(eqn)
    return kept


def _with_inputs(starts: Sequence[Any], eqns: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Let every start be reached by an input: where an equation computes it, by adding to it."""
    produced = {variable for eqn in eqns for variable in eqn.outvars}
    inputs = {
        start: jax_internals.new_variable(start) if start in produced else start for start in starts
    }
    rewritten = []
    for eqn in eqns:
        inner = [start for start in eqn.outvars if start in inputs]
        computed = {start: jax_internals.new_variable(start) for start in inner}
        rewritten.append(
            eqn.replace(outvars=[computed.get(v, v) for v in eqn.outvars]) if inner else eqn
        )
        rewritten += [jax_internals.addition(computed[v], inputs[v], v) for v in inner]
    return list(inputs.values()), rewritten


def _variables(atoms: Iterable[Any]) -> list[Any]:
    return [atom for atom in atoms if jax_internals.is_variable(atom)]


def replayed_pullback(
    recording: Recording, targets: Sequence[Any], sources: Sequence[Any]
) -> Pullback:
    """As `pullback`, in operations of the current trace on the recorded values.

    A recording that is on sees these operations, so gradients of the result can be asked of it.
    """
    operations = _depending_on(sources, recording.operations)

    def pull(cotangents: Sequence[Any]) -> list[Any]:
        pending: dict[int, Any] = {}
        passed: dict[int, Any] = {}
        for target, cotangent in zip(targets, cotangents, strict=True):
            _add(pending, target, cotangent)
        for operation in reversed(operations):
            outputs = {
                i: pending.pop(id(value))
                for i, value in operation.outputs.items()
                if id(value) in pending
            }
            passed.update((id(operation.outputs[i]), ct) for i, ct in outputs.items())
            if outputs:
                _pull_operation(recording, operation, outputs, pending)
        return [pending.get(id(source), passed.get(id(source))) for source in sources]

    return pull


def _depending_on(sources: Sequence[Any], operations: Sequence[Operation]) -> list[Operation]:
    reached = {id(source) for source in sources}
    kept = []
    for operation in operations:
        if any(id(value) in reached for value in operation.inputs):
            reached.update(map(id, operation.outputs.values()))
            kept.append(operation)
    return kept


def _pull_operation(
    recording: Recording,
    operation: Operation,
    cotangents: dict[int, Any],
    pending: dict[int, Any],
) -> None:
    places = [i for i, value in enumerate(operation.inputs) if recording.is_active(value)]

    def active_outputs(*active: Any) -> list[Any]:
        inputs = list(operation.inputs)
        for place, value in zip(places, active, strict=True):
            inputs[place] = value
        outputs = _repeat(operation, inputs)
        return [outputs[i] for i in operation.outputs]

    results, pull = jax.vjp(active_outputs, *(operation.inputs[place] for place in places))
    complete = [
        cotangents.get(i, np.zeros(result.shape, result.dtype))
        for i, result in zip(operation.outputs, results, strict=True)
    ]
    for place, cotangent in zip(places, pull(complete), strict=True):
        _add(pending, operation.inputs[place], cotangent)


def _repeat(operation: Operation, inputs: Sequence[Any]) -> list[Any]:
    if operation.method == "process_primitive":
        outputs = operation.primitive.bind(*inputs, **operation.params)
        return list(outputs) if operation.primitive.multiple_results else [outputs]
    if operation.method == "compiled":
        (function,) = operation.functions
        return jax.tree.leaves(function(*inputs))
    for function in operation.functions:
        jax_internals.forget_call(function)
    spread = operation.method not in ("process_call", "process_map")
    named, rest = (operation.params, ()) if spread else ({}, (operation.params,))
    with jax_internals.trace_taken() as trace:
        process = getattr(trace, operation.method)
        return list(process(operation.primitive, *operation.functions, inputs, *rest, **named))


def _add(pending: dict[int, Any], value: Any, cotangent: Any) -> None:
    known = pending.get(id(value))
    pending[id(value)] = cotangent if known is None else known + cotangent
