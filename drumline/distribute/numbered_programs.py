"""A step's program, compiled anew for each place in a larger program where it is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from drumline.distribute.cross_device_ops.channels import First, Numbered, channels_here


class NumberedPrograms:
    """``program(written, read, arrays)``, compiled.

    Args:
        program: traced once for each set of channels that its sums take, see `Numbered`.
    """

    def __init__(self, program: Callable[..., Any]) -> None:
        self._program = program
        self._alone = jax.jit(Numbered(program, First()), donate_argnums=0)
        self._inside: dict[First | None, tuple[Numbered, Callable[..., Any]]] = {}

    def alone(self, written: Any, read: Any, arrays: Any) -> Any:
        """Run it by itself; the buffers of `written` are given away."""
        return self._alone(written, read, arrays)

    def inside(self, written: Any, read: Any, arrays: Any) -> Any:
        """Run it as part of the program that is being traced."""
        channels = channels_here()
        first = channels.first if channels is not None else None
        if first not in self._inside:
            numbered = Numbered(self._program, first)
            self._inside[first] = numbered, jax.jit(numbered)
        numbered, compiled = self._inside[first]
        outputs = compiled(written, read, arrays)
        if channels is not None:
            channels.first = channels.first.after(numbered.end)
        return outputs
