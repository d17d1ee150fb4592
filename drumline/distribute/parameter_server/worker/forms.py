"""Shapes and dtypes of a program's arguments: every form is compiled once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Form = tuple[tuple[tuple[int, ...], str], ...]


def form_of(leaves: Sequence[Any]) -> Form:
    """The form of these arguments."""
    return tuple((tuple(np.shape(leaf)), str(np.asarray(leaf).dtype)) for leaf in leaves)


def form_from_json(value: Any) -> Form:
    """A form that has been through JSON."""
    return tuple((tuple(shape), dtype) for shape, dtype in value)


class NeedsForm(Exception):  # a request to the chief, not an error
    """The worker has no program for arguments of this form yet."""

    def __init__(self, form: Form) -> None:
        super().__init__(f"no program for {form}")
        self.form = form
