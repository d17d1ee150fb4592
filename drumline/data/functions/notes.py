"""Saying which element an exception belongs to."""

from __future__ import annotations


def at_element(error: Exception, index: int, where: str) -> Exception:
    """Adds to ``error`` (its type and traceback stay the user's) the element it was raised for.

    The index is also put in the attribute ``element_index``. A ``StopIteration`` becomes a
    ``RuntimeError``: it would otherwise end the iteration as if the data had run out.
    """
    if isinstance(error, StopIteration):
        stopped = RuntimeError("StopIteration was raised")
        stopped.__cause__ = error
        error = stopped
    if not hasattr(error, "element_index"):
        error.element_index = index  # type: ignore[attr-defined]
        error.add_note(f"drumline: raised for element {index} of {where}")
    return error
