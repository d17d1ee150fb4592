"""Variables made in a replica's step that runs as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.training.keras_internals import get_stateless_scope, thread_state
from drumline.training.state_scope import StateScope


def create_at_once(init: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a variable's ``__init__``: where a `StateScope` creates, as outside of any scope.

    In a stateless scope Keras puts the initial value off, which is right in a trace.
    """

    def init_at_once(self: Any, *args: Any, **kwargs: Any) -> None:
        scope = get_stateless_scope()
        if not isinstance(scope, StateScope) or not scope.creates:
            init(self, *args, **kwargs)
            return
        thread_state()["stateless_scope"] = None
        try:
            init(self, *args, **kwargs)
        finally:
            thread_state()["stateless_scope"] = scope

    return init_at_once
