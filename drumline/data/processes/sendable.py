"""Errors that can be sent to another process."""

from __future__ import annotations

import pickle
import traceback

import cloudpickle


def sendable(error: Exception) -> Exception:
    """The error with its traceback as a note, or one that says the same if it cannot be sent."""
    text = "".join(traceback.format_exception(error))
    try:
        sent = pickle.loads(cloudpickle.dumps(error))
        same = type(sent) is type(error) and str(sent) == str(error)
    except Exception:
        same = False
    if not same:
        error = _alike(error)
    error.__cause__ = error.__context__ = None
    error.add_note(f"drumline: in a worker process:\n{text}")
    return error.with_traceback(None)


def _alike(error: Exception) -> Exception:
    made = RuntimeError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    if hasattr(error, "element_index"):
        made.element_index = error.element_index  # type: ignore[attr-defined]
    return made
