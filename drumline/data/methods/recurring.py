"""Methods with a state that goes from element to element."""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from drumline.data.cardinality import INFINITE
from drumline.data.epochs import first_element
from drumline.data.functions.draws import Draws
from drumline.data.functions.recurrence import BuiltRecurrence, build_recurrence
from drumline.data.functions.user_function import UserFunction
from drumline.data.leaves import as_array, is_array_literal
from drumline.data.methods.checking import Checking
from drumline.data.plan import recurring
from drumline.data.plan.node import Node
from drumline.data.plan.random_keys import RandomKeys
from drumline.data.seeds import draw_seed
from drumline.data.spec import ElementSpec, TensorSpec
from drumline.data.structure import flatten


class Recurring(Checking):
    """``scan`` and ``reduce``."""

    def scan(
        self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None
    ) -> Self:
        """Applies a function of a state and each element, which returns a new state and a result.

        The function is compiled as a loop over blocks of elements where it can be traced; else it
        runs as Python, and ``explain()`` says why. The state is part of ``iterator.state()``.

        Args:
            initial_state: a nested structure of arrays.
            scan_func: ``scan_func(state, element)`` returns ``(new_state, result)``; the new state
                has the structure and the dtypes of the initial one.
            name: shown by ``explain()``.

        Raises:
            TypeError: the new state has others.
        """
        plan, initial, _, built = self._recurrence(initial_state, scan_func, "scan")
        label = UserFunction(scan_func, "scan").name
        texts = [f"{leaf.dtype}{leaf.tolist()}" for leaf in initial]
        digest = hashlib.sha256(f"{built.state.structure}{texts}".encode()).hexdigest()[:8]
        return self._with(recurring.Scan((plan,), built, label, digest), name)

    def reduce(
        self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """The state after all elements, which ``reduce_func`` takes one after the other.

        Args:
            initial_state: a nested structure of arrays.
            reduce_func: ``reduce_func(state, element)`` returns the new state, of the structure and
                the dtypes of the initial one; compiled as ``scan``'s is.
            name: accepted as in ``tf.data``.

        Returns:
            The state, with numpy leaves.

        Raises:
            TypeError: the new state has another structure or other dtypes.
            ValueError: the dataset never ends.
        """
        if self._plan.cardinality == INFINITE:
            raise ValueError("reduce never ends over an infinite dataset; take(n) of it first")
        plan, _, state, built = self._recurrence(initial_state, reduce_func, "reduce")
        run = built.start()
        iterator = iter(self if plan is self._plan else self._with(plan, None))
        position = 0
        try:
            for block in iterator.blocks(run.block_length):
                start = position
                done = run(block, functools.partial(operator.add, start))
                position += block.n
                if done.error is not None:
                    raise done.error
        finally:
            iterator.close()
        return state.structure.unflatten([leaf[()] for leaf in run.state])

    def _recurrence(
        self, initial_state: Any, function: Callable[..., Any], operation: str
    ) -> tuple[Node, list[np.ndarray], ElementSpec, BuiltRecurrence]:
        """What it runs over, the initial state with its spec, and the function."""
        leaves, structure = flatten(initial_state, is_array_literal)
        if not leaves:
            raise ValueError(
                f"{operation}: initial_state {initial_state!r:.60} has no arrays in it"
            )
        initial = [np.array(as_array(leaf)) for leaf in leaves]
        state = ElementSpec(structure, tuple(TensorSpec(x.shape, x.dtype) for x in initial))

        def built_over(plan: Node, keyed: bool) -> BuiltRecurrence:
            return build_recurrence(
                function, operation, initial, state, plan.spec, lambda: first_element(plan), keyed
            )

        with Draws(np.zeros(4, np.uint32)) as probe:
            built = built_over(self._plan, keyed=False)
        if not probe.count:
            return self._plan, initial, state, built
        with_keys = RandomKeys((self._plan,), draw_seed())
        return with_keys, initial, state, built_over(with_keys, keyed=True)
