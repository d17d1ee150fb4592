"""Several steps of a loop in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from drumline.distribute.across_processes import on_this_process
from drumline.distribute.arguments import Form
from drumline.distribute.functions.program import FunctionProgram
from drumline.distribute.one_device import default_strategy
from drumline.training.state_scope import StateScope


class ScanProgram(FunctionProgram):
    """A loop's body over several stacked batches.

    ``fn(around, carried, batch)`` returns the new carried values; its arguments' arrays are those
    of ``around``, then of ``carried``, then of the batches, each stacked along a new first axis.

    Args:
        fn: the body.
        form: the form of its arguments for one batch.
        around: how many arrays come before those that are carried.
        carried: how many arrays are carried.
        keep_64_bits: see `CompiledStep`.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        form: Form,
        around: int,
        carried: int,
        *,
        keep_64_bits: bool = False,
    ) -> None:
        super().__init__(default_strategy(), fn, form, keep_64_bits=keep_64_bits)
        self._first = around
        self._last = around + carried

    def discover(self, arrays: Sequence[Any]) -> StateScope:
        first = [*arrays[: self._last], *(array[0] for array in arrays[self._last :])]
        return super().discover(first)

    def program(self, written: Any, read: Any, arrays: Any) -> tuple[Any, Any]:
        around = arrays[: self._first]

        def step(state: Any, batch: Any) -> Any:
            values, carried = state
            scope = StateScope([*self.written, *self.read], [*values, *read], sealed=True)
            with scope:
                outputs = jax.tree.leaves(self.call([*around, *carried, *batch]))
                new = [scope.value_of(variable) for variable in self.written]
            return (new, _as_before(carried, outputs)), None

        carried = arrays[self._first : self._last]
        (new, outputs), _ = jax.lax.scan(step, (written, carried), arrays[self._last :])
        return outputs, new

    def finish(self, outputs: Any) -> Any:
        return jax.tree.map(on_this_process, outputs)


def _as_before(before: Sequence[Any], after: Sequence[Any]) -> list[Any]:
    """`after`, which must be of the shapes and dtypes of `before`, as strongly typed as it."""
    return [
        jax.lax.convert_element_type(new, old.dtype) for old, new in zip(before, after, strict=True)
    ]
