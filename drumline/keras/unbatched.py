"""A hint when training fails on a dataset that nobody has batched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from drumline.data import Dataset


def hint_at_batch(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit``, ``evaluate`` or ``predict``: an error names a missing ``batch``.

    It cannot be refused: elements of `from_generator` or `from_tensors` may be batches.
    """

    @functools.wraps(method)
    def hinting(self: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, x, *args, **kwargs)
        except Exception as error:
            if isinstance(x, Dataset) and not x.has_batches:
                error.add_note(
                    "The dataset has no batch() in it, so each element was taken as a batch. If "
                    f"its elements are single examples, call `.batch(n)`: {x.element_spec}"
                )
            raise

    return hinting
