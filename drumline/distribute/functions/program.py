"""A function that is compiled once, for arguments of one form."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drumline.distribute.across_processes import on_this_process
from drumline.distribute.adoption import owner_of
from drumline.distribute.arguments import called
from drumline.distribute.cross_device_ops.channels import numbering
from drumline.distribute.functions.placement import brought_together, require_one_place
from drumline.distribute.in_flight import InFlight
from drumline.distribute.outputs import unwrap, wrap
from drumline.distribute.whole_program import WholeProgram

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


class FunctionProgram(WholeProgram):
    """``fn`` as it is, seen from outside of the replicas; steps that it runs become part of it."""

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        return brought_together(arrays, [*self.written, *self.read])

    def finish(self, outputs: Any) -> Any:
        return unwrap(outputs, on_this_process)

    def spanning(self) -> Strategy | None:
        return next((strategy for strategy in self._strategies() if strategy.spans_processes), None)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def in_flight(self) -> list[InFlight]:
        require_one_place([*self.written, *self.read])
        return [strategy._in_flight for strategy in self._strategies()]

    def _strategies(self) -> list[Strategy]:
        """Those whose variables or replicas the program uses."""
        owners = map(owner_of, [*self.written, *self.read])
        found = [strategy for strategy in (*owners, *self.taking_part) if strategy is not None]
        return list({id(strategy): strategy for strategy in found}.values())

    def call(self, arrays: Sequence[Any]) -> Any:
        args, kwargs = self.form.arguments(arrays)
        with numbering():
            return wrap(called(self.fn, args, kwargs), lambda leaf: leaf)
