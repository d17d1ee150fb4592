"""What a lowering has to know about the program that it is part of."""

from __future__ import annotations

from typing import NamedTuple


class Program(NamedTuple):
    """The program that a call is lowered for."""

    partitioned: bool
    """Whether the compiler will split it over devices by itself."""
    exported: bool
    """Whether it is written down for other processes, which may not know this one's functions."""
