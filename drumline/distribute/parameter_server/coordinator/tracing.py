"""From a function to the commands that bring its program to workers and its updates to servers."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.compiler import (
    Output,
    StepError,
    TracedStep,
    WholeTableReadError,
    trace_step,
)
from drumline.distribute.parameter_server.coordinator.commands import Command
from drumline.distribute.parameter_server.strategy import ParameterServerStrategy
from drumline.distribute.parameter_server.wire.messages import LoadProgram, Signature

_log = logging.getLogger("drumline")

_ROW_GRADIENTS = ("row_gradient", "row_gradient_by_id")

WHOLE_TABLE_BYTES = 256 << 20
"""Up to this size a table of which a step needs more than single rows is fetched whole."""


class StepTracer:
    """Traces functions over a strategy's variables, one at a time.

    Args:
        strategy: whose variables they use.
    """

    def __init__(self, strategy: ParameterServerStrategy) -> None:
        self._strategy = strategy
        self._lock = threading.RLock()
        self._whole: set[str] = set()
        self._states: dict[str, Any] = {}

    def trace(self, fn: Callable[..., Any], specs: Sequence[Any], name: str) -> TracedStep:
        """A program of `fn` on arrays of these specifications.

        Raises:
            StepError: if it uses a variable that is not on the servers, or another thing that
                workers cannot do.
        """
        with self._lock:
            while True:
                try:
                    with self._strategy.scope():
                        traced = trace_step(fn, specs, key_of=self._key_of, is_table=self._is_table)
                except WholeTableReadError as error:
                    self._read_whole(error)
                    continue
                self._require_on_servers(traced, name)
                self._build_optimizers(traced)
                return traced

    def _build_optimizers(self, traced: TracedStep) -> None:
        """Let optimizers have variables, as after a step on one device; servers keep the values.

        So a checkpoint finds them, and one that was restored before reaches the servers.
        """
        for optimizer, variables in zip(traced.optimizers, traced.trained, strict=True):
            if not optimizer.built:
                with self._strategy.scope():
                    optimizer.build(list(variables))

    def commands(self, traced: TracedStep, number: int, signature: Signature) -> list[Command]:
        """Send the servers the updates of optimizers, and return what workers are to be sent."""
        updates: dict[str, str] = {}
        for output in traced.program.outputs:
            if output.kind in ("gradient", *_ROW_GRADIENTS):
                updates.update(self._updates_of(traced, output))
        layouts = tuple(
            layout
            for variable in traced.variables.values()
            if (layout := self._strategy.layout_of(variable)) is not None
        )
        states = {key: self._states[key] for key in traced.variables if key in self._states}
        load = LoadProgram(
            session=self._strategy.session,
            function=number,
            signature=signature,
            layouts=layouts,
            updates=updates,
            state=tuple(states),
            program=np.frombuffer(traced.program.to_bytes(), np.uint8),
            states=tuple(np.asarray(variable.value) for variable in states.values()),
        )
        return [Command(("program", number, signature), load)]

    def _updates_of(self, traced: TracedStep, output: Output) -> dict[str, str]:
        variable = traced.variables[output.key or ""]
        optimizer = traced.optimizers[output.optimizer or 0]
        layout = self._strategy.layout_of(variable)
        assert layout is not None
        sparse = output.kind in _ROW_GRADIENTS
        registry = self._strategy.optimizers
        return {
            layout.shard_name(shard): registry.attach(optimizer, variable, layout, shard, sparse)
            for shard in layout.shards
        }

    def _key_of(self, variable: Any) -> str:
        layout = self._strategy.layout_of(variable)
        return f"state {id(variable)}" if layout is None else layout.key

    def _is_table(self, variable: Any) -> bool:
        key = self._key_of(variable)
        return key in self._strategy.tables and key not in self._whole

    def _read_whole(self, error: WholeTableReadError) -> None:
        """From now on a table counts as a variable that workers fetch whole, if it is not huge."""
        layout = self._strategy.layouts[error.key]
        size = math.prod(layout.shape) * np.dtype(layout.dtype).itemsize
        if size > WHOLE_TABLE_BYTES:
            raise error
        _log.warning("%s It is fetched whole for every step (%d bytes).", error, size)
        self._whole.add(error.key)

    def _require_on_servers(self, traced: TracedStep, name: str) -> None:
        states = {o.key for o in traced.program.outputs if o.kind == "state"}
        for key, variable in traced.variables.items():
            if self._strategy.layout_of(variable) is not None:
                continue
            if key not in states:
                raise StepError(
                    f"The function {name} uses variable {variable.path!r}, which is not on the "
                    "parameter servers. Make it inside `with strategy.scope():`."
                )
            self._states[key] = variable
