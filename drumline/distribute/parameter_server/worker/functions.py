"""The functions that the chief has sent, by number and form.

Shapes and dtypes of a program's arguments: every form is compiled once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from drumline.distribute.parameter_server.compiler import StepProgram
from drumline.distribute.parameter_server.layout import Layout
from drumline.distribute.parameter_server.worker.step import Function, ReceivedClosure

Signature = tuple[tuple[tuple[int, ...], str], ...]


def signature_of(leaves: Sequence[Any]) -> Signature:
    """The form of these arguments."""
    return tuple((tuple(np.shape(leaf)), str(np.asarray(leaf).dtype)) for leaf in leaves)


def signature_from_json(value: Any) -> Signature:
    """A form that has been through JSON."""
    return tuple((tuple(shape), dtype) for shape, dtype in value)


class NeedsSignature(Exception):  # a request to the chief, not an error
    """The worker has no program for arguments of this form yet."""

    def __init__(self, form: Signature) -> None:
        super().__init__(f"no program for {form}")
        self.form = form


class Functions:
    """What a worker can run, and the closures that wait for more."""

    def __init__(self) -> None:
        self._functions: dict[tuple[int, Signature], Function] = {}
        self._held: dict[str, ReceivedClosure] = {}

    def add(
        self,
        number: int,
        form: Signature,
        program: bytes,
        layouts: Sequence[dict[str, Any]],
        rules: dict[str, Any],
    ) -> None:
        """Take a function for arguments of one form."""
        if (number, form) in self._functions:
            return
        places = [Layout.from_json(layout) for layout in layouts]
        self._functions[number, form] = Function(
            StepProgram.from_bytes(program), {layout.key: layout for layout in places}, rules
        )

    def get(self, number: int, leaves: Sequence[Any]) -> Function:
        """The function for these arguments.

        Raises:
            NeedsSignature: if the chief has not sent it.
        """
        form = signature_of(leaves)
        try:
            return self._functions[number, form]
        except KeyError:
            raise NeedsSignature(form) from None

    def forget(self, numbers: Collection[int]) -> None:
        """Let go of functions."""
        for key in [key for key in list(self._functions) if key[0] in numbers]:
            self._functions.pop(key, None)

    def hold(self, closure: ReceivedClosure) -> None:
        """Keep a closure with the batch it has drawn until the chief sends its program."""
        self._held[closure.name] = closure

    def release(self, name: str) -> ReceivedClosure:
        """The closure of this name that waited."""
        return self._held.pop(name)
