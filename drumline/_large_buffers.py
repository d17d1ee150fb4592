"""XLA's large buffers on the CPU: kept from call to call, in huge pages.

XLA takes the temporary memory of a program afresh at every call, and a large model spends a sixth
to a third of its step on having the kernel hand it out again. Frameworks keep such memory on
accelerators; this does for the CPU.
"""

from __future__ import annotations

import os

from drumline._core import keep_large_buffers

VARIABLE = "DRUMLINE_KEEP_BUFFERS"
"""The environment variable that switches it off."""

LIBRARY = "/libjax_common.so"
"""Where jaxlib keeps XLA."""


def keep() -> bool:
    """Keeps the buffers of 4 MiB and more that XLA frees from now on, for its next call.

    At most half of the machine's memory is kept, and none if memory runs out. Results do not
    depend on it. It does nothing where ``DRUMLINE_KEEP_BUFFERS`` is ``0``, or on other systems
    than 64-bit Linux with glibc.

    Returns:
        Whether XLA's buffers are kept.

    Raises:
        ValueError: if the variable is set to something other than 0 or 1.
    """
    value = os.environ.get(VARIABLE, "1").strip()
    if value not in ("0", "1"):
        raise ValueError(
            f"{VARIABLE}={value!r}: set it to 1 (the default) to keep XLA's large buffers on the "
            "CPU from call to call, or to 0 to free them."
        )
    return value == "1" and keep_large_buffers(LIBRARY) > 0
