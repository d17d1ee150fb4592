"""One closure on its way: which rows and values it asks for, computes with, and pushes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.data.execute.pool import BufferPool
from drumline.distribute.parameter_server.layout import Layout, Part
from drumline.distribute.parameter_server.programs import (
    Input,
    Output,
    StepProgram,
    evaluate_ids,
    load,
    prepared,
    unique_rows,
)
from drumline.distribute.parameter_server.worker.closure import Closure
from drumline.distribute.parameter_server.worker.dense import DenseValues
from drumline.distribute.parameter_server.worker.messages import Exchange


class Function:
    """A function of the chief's for arguments of one form, ready to run.

    Args:
        program: what the chief traced.
        layouts: where the variables lie that it uses, by key.
        rules: for each part of a variable that has a gradient, by which rule it is updated.

    Attributes:
        dense: the variables that it takes whole.
        row_tables: the tables of which it takes rows.
        ids_are_known_early: whether the batch alone says which rows it takes. Otherwise variables
            or random draws do, which are known only when the steps before have run.
    """

    def __init__(
        self, program: StepProgram, layouts: dict[str, Layout], rules: dict[str, Any]
    ) -> None:
        self.program = program
        self.layouts = layouts
        self.rules = rules
        self.main = load(program)
        wanted = [*program.inputs, *program.ids.inputs]
        self.dense = sorted({each.key for each in wanted if each.kind == "dense" and each.key})
        self.row_tables = {each.key for each in program.inputs if each.kind == "rows"}
        self.ids_are_known_early = all(each.kind == "argument" for each in program.ids.inputs)


class Step:
    """A closure whose batch is drawn.

    Args:
        closure: the run.
        function: what it runs.
        leaves: the arguments of the program: the chief's arrays, then the batch's leaves.
    """

    def __init__(self, closure: Closure, function: Function, leaves: Sequence[Any]) -> None:
        self.closure = closure
        self._function = function
        self._leaves = leaves
        self._unique: dict[str, np.ndarray] = {}
        self._inverse: dict[str, np.ndarray] = {}
        self._rows: dict[str, np.ndarray] = {}

    def look_up(self, values: DenseValues, state: dict[str, Any], pool: BufferPool) -> None:
        """Find out which rows of tables the step takes, with memory for them of `pool`."""
        ids_program = self._function.program.ids
        if not ids_program.tables:
            return

        def value_of(wanted: Input) -> Any:
            return self._value(wanted, values, state)

        found = evaluate_ids(ids_program, self._leaves, value_of)
        for key, ids in zip(ids_program.tables, found, strict=True):
            self._unique[key], self._inverse[key] = unique_rows(ids)
            if key not in self._function.row_tables:
                continue  # its gradient alone is wanted
            layout = self._function.layouts[key]
            shape = (ids.size, *layout.shape[1:])
            self._rows[key] = pool.empty(shape, np.dtype(layout.dtype))

    @property
    def ids_are_known_early(self) -> bool:
        """See `Function`."""
        return self._function.ids_are_known_early

    def ask_values(self, exchanges: dict[int, Exchange], values: DenseValues) -> None:
        """Add to the messages, by server, the variables that the step takes whole."""
        for key in self._function.dense:
            layout = self._function.layouts[key]
            for part in layout.parts:
                name = layout.part_name(part)
                note = functools.partial(values.update, key, name)
                exchanges[part.server].pull(name, values.version(name), note)

    def ask_rows(self, exchanges: dict[int, Exchange]) -> None:
        """Add to the messages the rows that were looked up."""
        for key, rows in self._rows.items():
            layout = self._function.layouts[key]
            for part, span in self._spans(key):
                if span.start == span.stop:
                    continue
                ids = self._unique[key][span] - part.start
                exchanges[part.server].gather(
                    layout.part_name(part), ids, functools.partial(_fill, rows, span)
                )

    def run(self, values: DenseValues, state: dict[str, Any]) -> list[Any]:
        """Start the program; what it returns may still be under way."""
        wanted = self._function.program.inputs
        return self._function.main([self._value(each, values, state) for each in wanted])

    def _value(self, wanted: Input, values: DenseValues, state: dict[str, Any]) -> Any:
        if wanted.kind == "argument":
            return prepared(self._leaves[wanted.index or 0], wanted)
        key = wanted.key or ""
        if wanted.kind == "dense":
            return values.value(self._function.layouts[key])
        if wanted.kind == "rows":
            return self._rows[key]
        return self._inverse[key] if wanted.kind == "inverse" else state[key]

    def push(
        self, outputs: Sequence[Any], exchanges: dict[int, Exchange], state: dict[str, Any]
    ) -> list[np.ndarray]:
        """Add to the messages what the program wants written, and return its results."""
        results: dict[int, np.ndarray] = {}
        for made, output in zip(self._function.program.outputs, outputs, strict=True):
            if made.kind == "result":
                results[made.index or 0] = np.asarray(output)
            elif made.kind == "state":
                state[made.key or ""] = output
            else:
                self._push_one(made, np.asarray(output), exchanges)
        return [results[index] for index in sorted(results)]

    def _push_one(self, made: Output, value: np.ndarray, exchanges: dict[int, Exchange]) -> None:
        key = made.key or ""
        layout = self._function.layouts[key]
        if made.kind == "row_gradient":
            # Also to parts without a row: they count the step, and take nothing of it again.
            for part, span in self._spans(key):
                ids = self._unique[key][span] - part.start
                name = layout.part_name(part)
                exchanges[part.server].push(name, "rows", self._rule(name), [ids, value[span]])
            return
        kind = "dense" if made.kind == "gradient" else made.kind
        for part in layout.parts:
            rows = value[part.start : part.stop] if layout.shape else value
            name = layout.part_name(part)
            exchanges[part.server].push(name, kind, self._rule(name), [rows])

    def _rule(self, part: str) -> Any:
        return self._function.rules.get(part)

    def _spans(self, key: str) -> list[tuple[Part, slice]]:
        """For each part of a table, which of the rows it has."""
        parts = self._function.layouts[key].parts
        unique = self._unique[key]
        if len(parts) == 1:
            return [(parts[0], slice(0, len(unique)))]
        bounds = np.searchsorted(unique, [part.start for part in parts] + [parts[-1].stop])
        return [
            (part, slice(int(first), int(last)))
            for part, first, last in zip(parts, bounds[:-1], bounds[1:], strict=True)
        ]


def _fill(rows: np.ndarray, span: slice, values: np.ndarray) -> None:
    rows[span] = values
