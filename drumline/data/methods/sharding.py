"""Elements with the shard that each is stored in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.data.functions.user_function import UserFunction
from drumline.data.methods.drawing import build_over
from drumline.data.plan.function_nodes import Map
from drumline.data.plan.node import Node


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
