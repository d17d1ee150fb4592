"""How a number is left to drumline."""

from __future__ import annotations

from typing import Final

AUTOTUNE: Final = -1
"""Leaves a number (of threads, of buffered elements) to drumline, as ``tf.data.AUTOTUNE``."""
