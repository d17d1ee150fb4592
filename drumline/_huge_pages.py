"""Huge pages for XLA's buffers on the CPU.

XLA takes the temporary memory of a program afresh at every call, and a large model spends a sixth
of its step on the page faults, where the kernel gives huge pages only to memory that asks for
them. numpy asks for its own arrays; this asks for XLA's.
"""

from __future__ import annotations

import os

from drumline._core import advise_huge_pages

VARIABLE = "DRUMLINE_HUGE_PAGES"
"""The environment variable that switches the advice off."""

LIBRARY = "/libjax_common.so"
"""Where jaxlib keeps XLA."""


def advise() -> bool:
    """Asks for huge pages for buffers of 4 MiB and more that XLA allocates from now on.

    Results do not depend on it. It does nothing where ``DRUMLINE_HUGE_PAGES`` is ``0``, or on
    other systems than 64-bit Linux with glibc.

    Returns:
        Whether XLA's buffers are advised.

    Raises:
        ValueError: if the variable is set to something other than 0 or 1.
    """
    value = os.environ.get(VARIABLE, "1").strip()
    if value not in ("0", "1"):
        raise ValueError(
            f"{VARIABLE}={value!r}: set it to 1 (the default) to ask for huge pages for XLA's "
            "large buffers on the CPU, or to 0 not to."
        )
    return value == "1" and advise_huge_pages(LIBRARY) > 0
