"""Which of two traces each part of a function is taken from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from drumline.data.elements import precision
from drumline.data.elements.spec import TensorSpec
from drumline.data.functions.dependence import dependence
from drumline.data.functions.extracted import Extracted, Source
from drumline.data.functions.routes import Computed, Constant, Passed, Route
from drumline.data.native.symbol import is_symbolic


class Choice:
    """Chooses, value by value, between the narrow and the wide trace.

    Attributes:
        values: the specs of what is known so far: an element's leaves, and the results of native
            operations, which whoever resolves their operands adds.
    """

    def __init__(
        self, leaves: Sequence[TensorSpec], narrow: Extracted | None, wide: Extracted | None
    ):
        self.values = list(leaves)
        self._narrow = narrow
        self._wide = wide
        self._feeds = dependence(wide.program.jaxpr) if wide is not None else []

    def result(self, output: int) -> Route:
        """Where the user's result comes from that is this output of the traces."""
        return self._route(lambda one: one.results[output])

    def operand(self, call: int, number: int) -> Route:
        """Where an operand of a native operation comes from."""
        return self._route(lambda one: one.operands[call][number])

    def spec_of(self, route: Route) -> TensorSpec:
        """What a route leads to."""
        if isinstance(route, Passed):
            return self.values[route.leaf]
        if isinstance(route, Constant):
            return TensorSpec(route.value.shape, route.value.dtype)
        return TensorSpec(route.shape, route.dtype)

    def _route(self, source: Callable[[Extracted], Source]) -> Route:
        narrow = source(self._narrow) if self._narrow is not None else None
        wide = source(self._wide) if self._wide is not None else None
        if isinstance(wide, Passed) and (narrow is None or self._is_wide(wide.leaf)):
            return wide
        if isinstance(narrow, Passed) and not (wide is not None and self._is_wide(narrow.leaf)):
            return narrow
        return self._computed(
            narrow if isinstance(narrow, int) else None, wide if isinstance(wide, int) else None
        )

    def _is_wide(self, value: int) -> bool:
        leaf = self.values[value]
        return leaf.dtype in precision.WIDE and not is_symbolic(leaf)

    def _computed(self, narrow: int | None, wide: int | None) -> Computed:
        default = None
        if narrow is not None and self._narrow is not None:
            default = self._narrow.program.out_avals[narrow]
        fed: set[int] = set()
        if wide is not None:
            fed = {i for i in map(self._number, self._feeds[wide]) if self._is_wide(i)}
        if wide is None or (not fed and default is not None):
            assert default is not None and narrow is not None
            return Computed(False, narrow, np.dtype(default.dtype), tuple(default.shape))
        assert self._wide is not None
        aval = self._wide.program.out_avals[wide]
        dtype = np.dtype(aval.dtype)
        kinds = {kind_of(self.values[i].dtype) for i in fed}
        if dtype in precision.WIDE and kind_of(dtype) not in kinds:
            dtype = np.dtype(default.dtype) if default is not None else precision.narrowed(dtype)
        return Computed(True, wide, dtype, tuple(aval.shape))

    def _number(self, position: int) -> int:
        """The value that the programs take at a position."""
        numbers = [i for i, value in enumerate(self.values) if not is_symbolic(value)]
        return numbers[position]


def kind_of(dtype: np.dtype) -> str:
    """Integers, or floats and what is made of them: the parts of a complex128 are float64."""
    return "i" if dtype.kind in "iu" else "f" if dtype.kind in "fc" else dtype.kind
