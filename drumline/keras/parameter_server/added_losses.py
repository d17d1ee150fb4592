"""Losses that layers add on their activations, while a scheduled step is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from drumline.training.keras_internals import get_stateless_scope


@contextlib.contextmanager
def added_losses() -> Iterator[None]:
    """Within the block the scope in force collects them, so that ``model.losses`` has them."""
    scope = get_stateless_scope()
    if scope is None:
        yield
        return
    before = scope.collect_losses, scope.losses
    scope.collect_losses, scope.losses = True, []
    try:
        yield
    finally:
        scope.collect_losses, scope.losses = before
