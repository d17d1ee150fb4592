"""Functions that users give to a `Dataset`, built for the plan they will run over.

A function that draws random numbers gets keys, which are put beside the elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.data.elements.seeds import draw_seed
from drumline.data.elements.spec import (
    ElementSpec,
    TensorSpec,
    as_array,
    flatten,
    has_datasets,
    is_array_literal,
)
from drumline.data.engine.iterator import first_element, first_elements
from drumline.data.functions.build import BuiltFunction, build
from drumline.data.functions.python_function import PythonFunction
from drumline.data.functions.recurrence import BuiltRecurrence, build_recurrence
from drumline.data.functions.trace import Draws, UserFunction
from drumline.data.operations.map import Map
from drumline.data.operations.nested.batched_windows import single_batches
from drumline.data.operations.numbering import RandomKeys
from drumline.data.options import check_on_host
from drumline.data.plan.node import Node

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
    check_on_host(plan, operation)
    built = build(
        function,
        operation,
        plan.spec,
        lambda: first_element(plan),
        may_draw=True,
        others=lambda: first_elements(plan, _EXAMPLES)[1:],
    )
    if not built.draws:
        return plan, _with_windows(built, UserFunction(function, operation), plan.spec)
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


def _with_windows(built: BuiltFunction, user: UserFunction, source: ElementSpec) -> BuiltFunction:
    """Note where the function does nothing but take single batches of windows."""
    if not (has_datasets(source) and isinstance(built.run, PythonFunction)):
        return built
    batched = single_batches(user, source, built.spec.structure)
    return dataclasses.replace(built, batched=batched)


def build_predicate(
    plan: Node, predicate: Callable[..., Any], operation: str
) -> tuple[Node, BuiltFunction, str]:
    """Build a function that decides over elements; also return its name.

    Raises:
        TypeError: if it does not return one bool.
        Exception: what it raises for the first element.
    """
    below, built = build_over(plan, predicate, operation)
    label = UserFunction(predicate, operation).name
    if built.spec.leaves != (TensorSpec((), np.bool_),) or built.spec.structure.kind != "leaf":
        raise TypeError(
            f"{operation}({label}) must return one bool, it returns {built.spec.tree()}"
        )
    return below, built, label


def without_key(element: Any, key: Any) -> Any:
    """An element that had a key beside it."""
    return element


def with_shards(plan: Node, shard_func: Callable[..., Any], operation: str) -> Node:
    """The elements, each in a pair with the integer that ``shard_func`` returns for it.

    Raises:
        TypeError: it does not return one integer.
        Exception: what it raises for the first element.
    """
    user = UserFunction(shard_func, operation)
    spread = plan.spec.structure.kind == "tuple"

    def with_shard(*arguments: Any) -> tuple[Any, Any]:
        element = arguments if spread else arguments[0]
        return element, user(element)

    with_shard.__qualname__ = user.name

    below, built = build_over(plan, with_shard, operation)
    structure, leaf = built.spec.structure.children[1], built.spec.leaves[-1]
    if structure.kind != "leaf" or leaf.shape or leaf.dtype.kind not in "iu":
        raise TypeError(f"{user.where} must return one integer, it returns {leaf}")
    return Map((below,), built, user.name, None)


def build_recurrence_over(
    plan: Node, initial_state: Any, function: Callable[..., Any], operation: str
) -> tuple[Node, list[np.ndarray], ElementSpec, BuiltRecurrence]:
    """Build a function of a state and an element.

    Returns:
        The plan to run it over (with keys, if the function draws random numbers), the leaves of the
        initial state, their spec, and the function.

    Raises:
        TypeError: if the new state has another structure or other dtypes than the initial one.
        ValueError: if the initial state holds no arrays.
    """
    check_on_host(plan, operation)
    leaves, structure = flatten(initial_state, is_array_literal)
    if not leaves:
        raise ValueError(f"{operation}: initial_state {initial_state!r:.60} has no arrays in it")
    initial = [np.array(as_array(leaf)) for leaf in leaves]
    state = ElementSpec(structure, tuple(TensorSpec(x.shape, x.dtype) for x in initial))

    def built_over(over: Node, keyed: bool) -> BuiltRecurrence:
        return build_recurrence(
            function, operation, initial, state, over.spec, lambda: first_element(over), keyed
        )

    with Draws(np.zeros(4, np.uint32)) as probe:
        built = built_over(plan, keyed=False)
    if not probe.count:
        return plan, initial, state, built
    with_keys = RandomKeys((plan,), draw_seed())
    return with_keys, initial, state, built_over(with_keys, keyed=True)
