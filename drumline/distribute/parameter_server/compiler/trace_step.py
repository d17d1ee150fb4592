"""A user's step as a program for workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from drumline.distribute.outputs import unwrap
from drumline.distribute.parameter_server.compiler.exporting import PLATFORMS
from drumline.distribute.parameter_server.compiler.recorded_step import record
from drumline.distribute.parameter_server.compiler.split import Split
from drumline.distribute.parameter_server.compiler.step_program import StepProgram


@dataclass(frozen=True)
class TracedStep:
    """A step that workers can run.

    Attributes:
        program: what they are sent.
        variables: those that it uses or has gradients of, by their keys.
        optimizers: whose updates the gradients are for, by the number that outputs name.
        finish: what the step returns, from the arrays of the program's results in their order.
        trained: the variables that each of them is given, also those without a gradient.
    """

    program: StepProgram
    variables: Mapping[str, Any]
    optimizers: Sequence[Any]
    finish: Callable[[Sequence[Any]], Any]
    trained: Sequence[Sequence[Any]]


def trace_step(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    key_of: Callable[[Any], str],
    is_table: Callable[[Any], bool],
    platforms: Sequence[str] = PLATFORMS,
) -> TracedStep:
    """Trace a step into a program that needs neither Keras nor the user's code.

    Optimizers do not update in it: the gradients that they are given, clipped, are outputs. Of
    tables it takes and gives only the rows that it looks up. What is added to a variable
    (``assign_add``, ``assign_sub`` and the state of metrics) is an output of its own, so that what
    several workers add is all counted; the last to assign anything else wins. What is read after
    it was written is the new value, as this worker knows it.

    Call it where the step would run: within the strategy's scope, if `fn` creates variables.

    Args:
        fn: the step; it may use `GradientTape`, `value_and_grad`, layers, losses, metrics,
            optimizers and variables.
        args: its arguments: pytrees of arrays, or of `jax.ShapeDtypeStruct` in their place, and of
            anything else, which becomes part of the program.
        kwargs: those with names.
        key_of: gives a variable's key.
        is_table: says of which variables workers fetch single rows.
        platforms: on which the program will run.

    Returns:
        The step. Its program's arguments are the arrays of ``(args, kwargs)``, in the order of
        ``jax.tree.leaves``.

    Raises:
        WholeTableReadError: if it needs all of a table; the key is in the error.
        OptimizerError: if an optimizer cannot run on parameter servers.
        StepError: if the step cannot run on workers for another reason.
        ProgramError: if it calls back into Python.
    """
    step = record(fn, args, kwargs or {})
    split = Split(step, key_of, is_table)
    program = split.program(tuple(platforms))
    used = [*step.variables, *(update.variable for update in step.updates)]
    variables = {key_of(variable): variable for variable in used}
    return TracedStep(program, variables, step.optimizers, _finish(step.results), step.trained)


def _finish(structure: Any) -> Callable[[Sequence[Any]], Any]:
    return lambda results: unwrap(jax.tree.unflatten(structure, list(results)), lambda leaf: leaf)
