"""Running a traced step as a worker does, with everything it needs taken from the variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pytest

from drumline.distribute.parameter_server import compiler


@dataclass
class Ran:
    """What a step gave: its results, and by kind and key what is to be written."""

    traced: compiler.TracedStep
    result: Any = None
    writes: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    ids: dict[str, np.ndarray] = field(default_factory=dict)
    fetched: dict[str, np.ndarray] = field(default_factory=dict)

    def gradient(self, key: str) -> np.ndarray:
        """The gradient of a variable, of a table for all rows."""
        dense = self.writes.get(("gradient", key))
        if dense is not None:
            return dense
        whole = np.zeros(self.traced.variables[key].shape)
        by_id = self.writes.get(("row_gradient_by_id", key))
        if by_id is not None:
            np.add.at(whole, self.ids[key], by_id)
            return whole
        rows, ids = self.writes["row_gradient", key], self.fetched[key]
        assert not rows[len(ids) :].any(), "padded rows have no gradient"
        whole[ids] = rows[: len(ids)]
        return whole


def run_traced(traced: compiler.TracedStep, *args: Any, padding: float = np.nan) -> Ran:
    """Run a step by its bytes alone; rows that are only padding hold `padding`."""
    ran = Ran(traced)
    program = compiler.StepProgram.from_bytes(traced.program.to_bytes())
    leaves = [leaf for leaf in jax.tree.leaves(args) if hasattr(leaf, "dtype")]

    def value_of(wanted: compiler.Input) -> np.ndarray:
        return np.asarray(traced.variables[wanted.key].value)

    found = compiler.evaluate_ids(program.ids, leaves, value_of)
    inverses = {}
    for key, count, ids in zip(program.ids.tables, program.ids.counts, found, strict=True):
        assert ids.shape == (count,) and ids.dtype == np.int32
        ran.ids[key] = ids
        ran.fetched[key], inverses[key] = np.unique(ids, return_inverse=True)
    given = []
    for wanted in program.inputs:
        if wanted.kind == "argument":
            given.append(compiler.prepared(leaves[wanted.index], wanted))
        elif wanted.kind == "inverse":
            given.append(inverses[wanted.key].astype(np.int32))
        elif wanted.kind == "rows_by_id":
            given.append(value_of(wanted)[ran.ids[wanted.key]])
        elif wanted.kind == "rows":
            rows = np.full(wanted.shape, padding, wanted.dtype)
            unique = ran.fetched[wanted.key]
            rows[: len(unique)] = value_of(wanted)[unique]
            given.append(rows)
        else:
            given.append(value_of(wanted))
    results = {}
    for made, array in zip(program.outputs, compiler.load(program)(given), strict=True):
        assert (array.shape, array.dtype.name) == (made.shape, made.dtype)
        if made.kind == "result":
            results[made.index] = array
        else:
            ran.writes[made.kind, made.key] = np.asarray(array)
    ran.result = traced.finish([results[index] for index in sorted(results)])
    return ran


@pytest.fixture(scope="session")
def run() -> Callable[..., Ran]:
    """`run_traced`."""
    return run_traced


@pytest.fixture(scope="session")
def trace() -> Callable[..., compiler.TracedStep]:
    """`trace_step` for the CPU, with variables known by their paths."""

    def traced(fn: Any, *args: Any, tables: tuple[str, ...] = ("embeddings",)) -> Any:
        return compiler.trace_step(
            fn,
            args,
            key_of=lambda variable: variable.path,
            is_table=lambda variable: variable.path.rpartition("/")[2] in tables,
            platforms=("cpu",),
        )

    return traced
