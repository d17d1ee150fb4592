"""Splitting a recorded step into ids, rows and the program between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

import jax
import jax.numpy as jnp

from drumline.distribute.parameter_server.compiler.deltas import added_terms
from drumline.distribute.parameter_server.compiler.errors import StepError, WholeTableReadError
from drumline.distribute.parameter_server.compiler.exporting import export_function
from drumline.distribute.parameter_server.compiler.ids_split import Accesses, split_ids
from drumline.distribute.parameter_server.compiler.recorded_step import RecordedStep
from drumline.distribute.parameter_server.compiler.rows import Rows, Uniform, is_special
from drumline.distribute.parameter_server.compiler.slots import Input, InputKind, Output
from drumline.distribute.parameter_server.compiler.step_program import StepProgram
from drumline.distribute.parameter_server.compiler.table_access import TableInterpreter
from drumline.training import jax_internals


class Split:
    """A recorded step with its variables told apart.

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
                value = Rows(value, each.shape, str(each.key), False, has_padding=padded)
            arguments.append(value)
        found = interpreter.evaluate(self._jaxpr, self._step.program.consts, arguments)
        combined = {v.group for v in found if isinstance(v, Rows) and not v.is_added}
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
            elif isinstance(value, Rows) and value.zero_elsewhere and value.group == key:
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
                terms = [jnp.broadcast_to(jnp.asarray(total, dtype), shape)]
            put(kind, terms[0], key)

    def _whole(self, value: Any, position: int) -> Any:
        if isinstance(value, Rows):
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
