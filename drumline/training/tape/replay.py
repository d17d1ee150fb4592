"""Gradients that the tape itself differentiates: each operation is differentiated anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from drumline.training import jax_internals
from drumline.training.tape.pullback import Pullback
from drumline.training.tape.recording import Operation, Recording


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
