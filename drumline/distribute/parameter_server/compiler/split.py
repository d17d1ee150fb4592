"""From a user's step to a program for workers: ids, rows, and the computation between them.

`trace_step` is what the coordinator calls: it records the step (`recorded_step`), finds which
writes of variables are additions (`added_terms`), evaluates the step with rows in the place of
tables (`table_access`), and splits off what computes the ids (`ids_split`). The outcome is a
`TracedStep`: a program, the variables and optimizers that it uses, and what makes the step's result
of its outputs.

One step is traced at a time; `coordinator.function.StepTracer` sees to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.distribute.parameter_server.compiler.exporting import (
    PLATFORMS,
    Input,
    InputKind,
    Output,
    export_function,
)
from drumline.distribute.parameter_server.compiler.ids_split import Accesses, split_ids
from drumline.distribute.parameter_server.compiler.recorded_step import RecordedStep, record
from drumline.distribute.parameter_server.compiler.step_program import StepProgram
from drumline.distribute.parameter_server.errors import StepError
from drumline.distribute.step.outputs import unwrap
from drumline.training import jax_internals
from drumline.training.row_sparse.interpreter import RowSparse, Uniform, is_special
from drumline.training.row_sparse.table_access import TableInterpreter, WholeTableReadError

_PASSED_ON = frozenset({"copy", "copy_p", "stop_gradient"})


def added_terms(jaxpr: Any, old: Any, new: Any) -> list[tuple[int, Any]] | None:
    """What a program adds to one of its inputs.

    Args:
        jaxpr: the program.
        old: the input: what a variable holds before.
        new: what it holds after.

    Returns:
        ``(sign, term)`` for each term of the sum ``new = old + ...``, or None if `new` is no sum
        with `old`. Terms are variables or literals of the program.
    """
    made = {variable: eqn for eqn in jaxpr.eqns for variable in eqn.outvars}
    terms: list[tuple[int, Any]] = []
    while new is not old:
        eqn = None if jax_internals.is_literal(new) else made.get(new)
        name = None if eqn is None else eqn.primitive.name
        if eqn is None:
            return None
        if name in _PASSED_ON or _keeps_values(eqn):
            new = eqn.invars[0]
        elif name == "sub":
            terms.append((-1, eqn.invars[1]))
            new = eqn.invars[0]
        elif name in ("add", "add_any"):
            left, right = eqn.invars
            leads = _reaches(made, right, old)
            if leads and _reaches(made, left, old):
                return None
            new, other = (right, left) if leads else (left, right)
            terms.append((1, other))
        else:
            return None
    return terms


def _reaches(made: dict[Any, Any], atom: Any, old: Any) -> bool:
    """Whether `atom` is `old` or a sum with it."""
    while atom is not old:
        eqn = None if jax_internals.is_literal(atom) else made.get(atom)
        if eqn is None:
            return False
        name = eqn.primitive.name
        if name in _PASSED_ON or name == "sub" or _keeps_values(eqn):
            atom = eqn.invars[0]
        elif name in ("add", "add_any"):
            return any(_reaches(made, each, old) for each in eqn.invars)
        else:
            return False
    return True


def _keeps_values(eqn: Any) -> bool:
    """Whether the equation converts to the dtype that there is, or to a wider one of its kind.

    Variables of 64 bits are computed with 32 on workers, and what is added to them may have 64.
    """
    if eqn.primitive.name != "convert_element_type":
        return False
    before, after = (np.dtype(each.aval.dtype) for each in (eqn.invars[0], eqn.outvars[0]))
    return before == after or (
        before.kind == after.kind and before.kind in "iu" and before.itemsize < after.itemsize
    )


class StepVariables:
    """A recorded step with its variables by kind.

    Args:
        step: the step.
        key_of: gives a variable's key.
        is_table: says of which variables there are only rows.
    """

    def __init__(
        self,
        step: RecordedStep,
        key_of: Callable[[Any], str],
        is_table: Callable[[Any], bool],
    ) -> None:
        self._step = step
        self._keys = {id(variable): key_of(variable) for variable in step.variables}
        for update in step.updates:
            self._keys.setdefault(id(update.variable), key_of(update.variable))
        concerned = [*step.variables, *(update.variable for update in step.updates)]
        self._tables = {
            self._keys[id(variable)]: variable for variable in concerned if is_table(variable)
        }
        self._shapes = {key: tuple(table.shape) for key, table in self._tables.items()}
        self._paths = {key: table.path for key, table in self._tables.items()}
        self._writes: list[tuple[str, Any, list[int] | None]] = []
        self._not_by_id: set[str] = set()
        self._whole_jaxpr = self._with_deltas()
        self._jaxpr, self._used = jax_internals.without_dead_code(self._whole_jaxpr)
        self._described = self._all_inputs()

    def program(self, platforms: Sequence[str]) -> StepProgram:
        """The step as programs.

        Raises:
            WholeTableReadError: if it needs more of a table than some rows.
        """
        try:
            return self._program(platforms)
        except WholeTableReadError as error:
            # Lookups of which only the gradient is of use tell tables of one shape apart.
            self._jaxpr = self._whole_jaxpr
            try:
                return self._program(platforms)
            except WholeTableReadError:
                raise error from None

    def _program(self, platforms: Sequence[str]) -> StepProgram:
        given = [each for each, used in zip(self._described, self._used, strict=True) if used]
        accesses, ids = split_ids(
            self._evaluate,
            [each for each in given if each.kind != "rows"],
            self._shapes,
            platforms,
        )
        by_id = accesses.counts.keys() - self._not_by_id
        inputs = self._inputs(given, accesses, by_id)
        outputs: list[Output] = []

        def main(*arrays: Any) -> list[Any]:
            return self._main(inputs, arrays, accesses, by_id, outputs)

        specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in inputs]
        compiled = export_function(main, specs, platforms)
        return StepProgram(tuple(inputs), tuple(outputs), ids, tuple(self._step.applied), compiled)

    def _with_deltas(self) -> Any:
        """The program with the terms that are added to variables instead of their new values."""
        step, jaxpr = self._step, self._step.program.jaxpr
        first_written = len(jaxpr.outvars) - len(step.written)
        outputs = list(jaxpr.outvars[:first_written])
        old = dict(zip(map(id, step.variables), jaxpr.invars, strict=False))
        for variable, new in zip(step.written, jaxpr.outvars[first_written:], strict=True):
            key = self._keys[id(variable)]
            if key in self._tables:
                raise StepError(
                    f"The table {variable.path!r} is assigned in a step. Workers have only the "
                    "rows that they look up: let an optimizer update it, or let it be no table."
                )
            is_state = id(variable) in step.states
            terms = None if is_state else added_terms(jaxpr, old[id(variable)], new)
            if terms is None:
                outputs.append(new)
                self._writes.append(("state" if is_state else "assign", variable, None))
            elif terms:
                outputs += [term for _, term in terms]
                self._writes.append(("add", variable, [sign for sign, _ in terms]))
        return jax_internals.linear_jaxpr(jaxpr, jaxpr.invars, outputs, jaxpr.eqns)

    def _all_inputs(self) -> list[Input]:
        """What the program takes, needed or not."""
        step = self._step
        described = []
        for variable in step.variables:
            key = self._keys[id(variable)]
            kind: Any = "state" if id(variable) in step.states else "dense"
            if key in self._tables:
                kind = "rows"
            dtype = jnp.dtype(variable._dtype).name
            described.append(Input(kind, key, None, tuple(variable.shape), dtype))
        for index, spec in enumerate(step.arguments):
            described.append(Input("argument", None, index, spec.shape, spec.dtype.name))
        return described

    def _inputs(self, given: Sequence[Input], accesses: Accesses, by_id: Set[str]) -> list[Input]:
        """What the main program takes: of tables the rows and where they go."""
        inputs = []
        for each in given:
            if each.kind == "rows":
                assert each.key is not None
                count = accesses.counts.get(each.key, 0)
                kind: InputKind = "rows_by_id" if each.key in by_id else "rows"
                each = Input(kind, each.key, None, (count, *each.shape[1:]), each.dtype)
            inputs.append(each)
        inputs += [
            Input("inverse", key, None, (count,), "int32")
            for key, count in accesses.counts.items()
            if key not in by_id
        ]
        return inputs

    def _evaluate(
        self,
        locate: Any,
        values: dict[Any, Any],
        counts: dict[str, int],
        known: Any = None,
        by_id: Set[str] = frozenset(),
    ) -> list[Any]:
        """The program's outputs, from the values of what it takes, tables' rows among them."""
        others = {each.shape for each in self._described if each.kind == "dense"}
        interpreter = TableInterpreter(
            self._shapes, self._paths, counts, locate, known, others, by_id
        )
        arguments = []
        for each, used in zip(self._described, self._used, strict=True):
            if not used and self._jaxpr is not self._whole_jaxpr:
                continue
            place = each.kind, each.key if each.index is None else each.index
            shape = each.shape
            if each.kind == "rows":
                shape = (counts[str(each.key)], *shape[1:])
            value = values[place] if place in values else jnp.zeros(shape, each.dtype)
            if each.kind == "rows":
                padded = each.key not in by_id
                value = RowSparse(value, each.shape, str(each.key), False, has_padding=padded)
            arguments.append(value)
        found = interpreter.evaluate(self._jaxpr, self._step.program.consts, arguments)
        combined = {v.group for v in found if isinstance(v, RowSparse) and not v.is_added}
        self._not_by_id = interpreter.not_by_id | combined
        return found

    def _main(
        self,
        inputs: Sequence[Input],
        arrays: Sequence[Any],
        accesses: Accesses,
        by_id: Set[str],
        outputs: list[Output],
    ) -> list[Any]:
        values = {
            (_place(each.kind), each.key if each.index is None else each.index): array
            for each, array in zip(inputs, arrays, strict=True)
        }
        inverses = {key: values["inverse", key] for key in accesses.counts if key not in by_id}
        locate = accesses.locator(inverses)
        counts = {key: accesses.counts.get(key, 0) for key in self._tables}

        def known(key: str) -> Any:
            return jnp.arange(counts[key]) <= jnp.max(values["inverse", key])

        found = self._evaluate(locate, values, counts, known, by_id)
        outputs.clear()
        made: list[Any] = []

        def put(kind: Any, array: Any, key: Any = None, index: Any = None, by: Any = None) -> None:
            array = jnp.asarray(array)
            outputs.append(Output(kind, key, index, by, array.shape, array.dtype.name))
            made.append(array)

        results = self._step.results.num_leaves
        for index in range(results):
            put("result", self._whole(found[index], index), index=index)
        for number, update in enumerate(self._step.updates):
            key = self._keys[id(update.variable)]
            value = found[results + number]
            if key not in self._tables:
                put("gradient", self._whole(value, results + number), key, by=update.optimizer)
            elif isinstance(value, RowSparse) and value.zero_elsewhere and value.group == key:
                kind = "row_gradient_by_id" if key in by_id else "row_gradient"
                put(kind, value.value, key, by=update.optimizer)
            elif not (isinstance(value, Uniform) and value.is_zero):
                self._refuse(key, results + number)
        self._put_writes(found, results + len(self._step.updates), put)
        return made

    def _put_writes(self, found: Sequence[Any], position: int, put: Callable[..., None]) -> None:
        for kind, variable, signs in self._writes:
            key = self._keys[id(variable)]
            width = 1 if signs is None else len(signs)
            terms = [self._whole(found[position + i], position + i) for i in range(width)]
            position += width
            if signs is not None:
                shape, dtype = tuple(variable.shape), variable._dtype
                total = sum(sign * term for sign, term in zip(signs, terms, strict=True))
                dtype = jax.dtypes.canonicalize_dtype(dtype)  # the worker pushes the variable's
                terms = [jnp.broadcast_to(jnp.asarray(total, dtype), shape)]
            put(kind, terms[0], key)

    def _whole(self, value: Any, position: int) -> Any:
        if isinstance(value, RowSparse):
            self._refuse(value.group, position)
        return value.whole() if is_special(value) else value

    def _refuse(self, key: str, position: int) -> Any:
        output = self._jaxpr.outvars[position]
        eqn = next((eqn for eqn in self._jaxpr.eqns if output in eqn.outvars), None)
        line = "the step's results" if eqn is None else jax_internals.source_line(eqn)
        name = "return" if eqn is None else eqn.primitive.name
        raise WholeTableReadError(key, self._paths[key], name, line)


def _place(kind: InputKind) -> str:
    """What an input is found by: rows are rows, however many there are."""
    return "rows" if kind == "rows_by_id" else kind


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
    split = StepVariables(step, key_of, is_table)
    program = split.program(tuple(platforms))
    used = [*step.variables, *(update.variable for update in step.updates)]
    variables = {key_of(variable): variable for variable in used}
    return TracedStep(program, variables, step.optimizers, _finish(step.results), step.trained)


def _finish(structure: Any) -> Callable[[Sequence[Any]], Any]:
    return lambda results: unwrap(jax.tree.unflatten(structure, list(results)), lambda leaf: leaf)
