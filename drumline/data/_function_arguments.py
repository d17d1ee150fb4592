"""Functions that draw random numbers: keys are put beside the elements they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.data.epochs import first_element, first_elements
from drumline.data.functions.build import BuiltFunction, build
from drumline.data.plan.node import Node
from drumline.data.plan.random_keys import RandomKeys
from drumline.data.seeds import draw_seed

_EXAMPLES = 3
"""How many elements are looked at to find out which dimensions of a Python function's results vary;
a generator is asked for no more than these, now."""


def build_over(
    plan: Node, function: Callable[..., Any], operation: str
) -> tuple[Node, BuiltFunction]:
    """The function ready to run over the elements of a plan: of ``plan``, or of one with keys.

    Raises:
        Exception: what the function itself raises on the first element.
    """
    built = build(
        function,
        operation,
        plan.spec,
        lambda: first_element(plan),
        may_draw=True,
        others=lambda: first_elements(plan, _EXAMPLES)[1:],
    )
    if not built.draws:
        return plan, built
    with_keys = RandomKeys((plan,), draw_seed())
    again = build(
        function,
        operation,
        with_keys.spec,
        lambda: first_element(with_keys),
        keyed=True,
        others=lambda: first_elements(with_keys, _EXAMPLES)[1:],
    )
    return with_keys, again


def without_key(element: Any, key: Any) -> Any:
    """An element that had a key beside it."""
    return element
