"""What drumline has changed in Keras, in JAX and in this process: noted where it is done.

Whatever replaces something of another library's, sets a variable or registers a function with the
interpreter calls `note` in the same place, so that `drumline.config.report` lists what was done and
nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

Of = Literal["Keras", "JAX", "process"]


class ProcessChange(NamedTuple):
    """One thing that is not as it would be without drumline.

    Attributes:
        of: what was changed: ``"Keras"``, ``"JAX"`` or the ``"process"``.
        what: the full name of the attribute, setting or variable, with its value if it has one.
        where: the place in drumline that did it, ``"drumline/keras/hooks.py:78"``.
        why: in one sentence.
        off: how not to have it.
    """

    of: Of
    what: str
    where: str
    why: str
    off: str


_noted: dict[tuple[str, str], ProcessChange] = {}
_PACKAGE = Path(__file__).parent


def note(of: Of, what: str, why: str, off: str, *, above: int = 0) -> None:
    """Note a change that the caller makes; a second of the same thing replaces the first.

    Args:
        of, what, why, off: see `ProcessChange`.
        above: how many callers above the one of this function to name as the place.
    """
    frame = sys._getframe(1 + above)
    file = Path(frame.f_code.co_filename)
    if file.is_relative_to(_PACKAGE):
        file = file.relative_to(_PACKAGE.parent)
    _noted[of, what] = ProcessChange(of, what, f"{file.as_posix()}:{frame.f_lineno}", why, off)


def forget(of: Of, what: str) -> None:
    """Take back a note, of what was put back as it was."""
    _noted.pop((of, what), None)


def changes() -> tuple[ProcessChange, ...]:
    """What is noted, in the order in which it was first done."""
    return tuple(_noted.copy().values())


def full_name(owner: Any, name: str) -> str:
    """The full name of an attribute of a class or a module."""
    if isinstance(owner, type):
        return f"{owner.__module__}.{owner.__qualname__}.{name}"
    return f"{owner.__name__}.{name}"


def set_variable(name: str, value: str, why: str, off: str) -> None:
    """Set an environment variable, for this process and those that it starts."""
    os.environ[name] = value
    note("process", f"{name}={value}", why, off, above=1)


def in_forked_child(function: Callable[[], object], why: str) -> None:
    """Have a function called in every forked child, as ``os.register_at_fork``."""
    os.register_at_fork(after_in_child=function)
    module = sys._getframe(1).f_globals["__name__"]
    note("process", f"os.register_at_fork in {module}", why, "it acts in forked children", above=1)
