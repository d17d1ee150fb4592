"""``scan``."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from drumline.data.functions.recurrence import BuiltRecurrence
from drumline.data.plan.node import Node
from drumline.data.spec import ElementSpec


@dataclasses.dataclass(frozen=True, eq=False)
class Scan(Node):
    """A function of a state and each element, whose new state goes to the next.

    Attributes:
        function: the user's, traced or arranged to run as Python.
        label: its name, for ``explain()``.
        start: a digest of the initial state, for the fingerprint.
    """

    function: BuiltRecurrence
    label: str
    start: str
    name: ClassVar[str] = "scan"

    @property
    def spec(self) -> ElementSpec:
        return self.function.spec

    def arguments(self) -> str:
        return f"{self.label}, initial state {self.start}"
