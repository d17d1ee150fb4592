"""One closure on its way: which rows and values it asks for, computes with, and pushes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.layout import Layout, Part
from drumline.distribute.parameter_server.programs import StepProgram, evaluate_ids, load
from drumline.distribute.parameter_server.worker.closure import Closure
from drumline.distribute.parameter_server.worker.dense import DenseValues
from drumline.distribute.parameter_server.worker.messages import Exchange


class Function:
    """A function of the chief's for arguments of one form, ready to run.

    Args:
        program: what the chief traced.
        layouts: where the variables lie that it uses, by key.
    """

    def __init__(self, program: StepProgram, layouts: dict[str, Layout]) -> None:
        self.program = program
        self.layouts = layouts
        self.main = load(program)
        kinds = [(spec["kind"], spec.get("key")) for spec in program.inputs]
        self.dense = [key for kind, key in kinds if kind == "dense"]
        self.tables = [key for kind, key in kinds if kind == "rows"]


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
        self._inverse: dict[str, list[np.ndarray]] = {}
        self._rows: dict[str, np.ndarray] = {}
        for key in function.tables:
            self._number_rows(key)

    def _number_rows(self, key: str) -> None:
        """The distinct ids that the gathers of a table ask for, and where each gather finds its."""
        gathers = evaluate_ids(self._function.program.ids[key], self._leaves)
        ids = [np.asarray(each) for each in gathers]
        flat = np.concatenate([each.ravel() for each in ids]) if len(ids) > 1 else ids[0].ravel()
        unique, inverse = np.unique(flat, return_inverse=True)
        self._unique[key] = unique
        self._inverse[key] = []
        start = 0
        for each in ids:
            mine = inverse[start : start + each.size].astype(np.int32).reshape(each.shape)
            self._inverse[key].append(mine)
            start += each.size
        layout = self._function.layouts[key]
        self._rows[key] = np.empty((flat.size, *layout.shape[1:]), np.dtype(layout.dtype))

    def ask(self, exchanges: dict[int, Exchange], values: DenseValues) -> None:
        """Add to the messages, by server, what this step has to know."""
        for key in self._function.dense:
            layout = self._function.layouts[key]
            for part in layout.parts:
                name = layout.part_name(part)
                exchanges[part.server].pull(
                    name, values.version(name), _Noting(values, key, name).note
                )
        for key in self._function.tables:
            layout = self._function.layouts[key]
            for part, span in self._spans(key):
                ids = self._unique[key][span] - part.start
                exchanges[part.server].gather(
                    layout.part_name(part), ids, _Filling(self._rows[key], span).fill
                )

    def run(self, values: DenseValues, state: dict[str, Any]) -> list[Any]:
        """Start the program; what it returns may still be under way."""
        inputs = []
        for spec in self._function.program.inputs:
            kind = spec["kind"]
            if kind == "dense":
                inputs.append(values.value(self._function.layouts[spec["key"]]))
            elif kind == "rows":
                inputs.append(self._rows[spec["key"]])
            elif kind == "inverse":
                inputs.append(self._inverse[spec["key"]][spec["gather"]])
            elif kind == "argument":
                inputs.append(self._leaves[spec["index"]])
            else:
                inputs.append(state[spec["name"]])
        return self._function.main(inputs)

    def push(
        self, outputs: Sequence[Any], exchanges: dict[int, Exchange], state: dict[str, Any]
    ) -> list[np.ndarray]:
        """Add to the messages what the program wants written, and return its results."""
        results: dict[int, np.ndarray] = {}
        for spec, output in zip(self._function.program.outputs, outputs, strict=True):
            kind = spec["kind"]
            if kind == "result":
                results[spec["index"]] = np.asarray(output)
            elif kind == "state":
                state[spec["name"]] = output
            else:
                self._push_one(spec, np.asarray(output), exchanges)
        return [results[index] for index in sorted(results)]

    def _push_one(
        self, spec: dict[str, Any], value: np.ndarray, exchanges: dict[int, Exchange]
    ) -> None:
        key = spec["key"]
        layout = self._function.layouts[key]
        if spec["kind"] == "row_gradient":
            for part, span in self._spans(key):
                ids = self._unique[key][span] - part.start
                exchanges[part.server].push(
                    layout.part_name(part), "rows", spec["rule"], [ids, value[span]]
                )
            return
        kind = "dense" if spec["kind"] == "gradient" else spec["kind"]
        for part in layout.parts:
            rows = value[part.start : part.stop] if layout.shape else value
            exchanges[part.server].push(layout.part_name(part), kind, spec.get("rule"), [rows])

    def _spans(self, key: str) -> list[tuple[Part, slice]]:
        """For each part of a table that has some of the rows, which of them."""
        parts = self._function.layouts[key].parts
        unique = self._unique[key]
        if len(parts) == 1:
            return [(parts[0], slice(0, len(unique)))] if len(unique) else []
        bounds = np.searchsorted(unique, [part.start for part in parts] + [parts[-1].stop])
        return [
            (part, slice(int(first), int(last)))
            for part, first, last in zip(parts, bounds[:-1], bounds[1:], strict=True)
            if last > first
        ]


class _Noting:
    def __init__(self, values: DenseValues, key: str, name: str) -> None:
        self._values, self._key, self._name = values, key, name

    def note(self, version: int, value: np.ndarray) -> None:
        self._values.update(self._key, self._name, version, value)


class _Filling:
    def __init__(self, rows: np.ndarray, span: slice) -> None:
        self._rows, self._span = rows, span

    def fill(self, rows: np.ndarray) -> None:
        self._rows[self._span] = rows
