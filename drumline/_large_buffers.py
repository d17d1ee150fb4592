"""XLA's large buffers on the CPU, reused from call to call, in huge pages.

XLA takes the temporary memory of a program afresh at every call, and a large model spends a good
part of its step on having the kernel hand it out again. Frameworks keep such memory on
accelerators; this does for the CPU, where `drumline.config.set_large_buffer_reuse` asks for it.
"""

from __future__ import annotations

import platform
import sys

from drumline._changes import forget, note
from drumline._core import free_large_buffers, keep_large_buffers

LIBRARY = "/libjax_common.so"
"""Where jaxlib keeps XLA."""


_ALLOCATOR = f"calls of the allocator in {LIBRARY.strip('/')}"
_OFF = "it is off by default: dl.config.set_large_buffer_reuse(False), DRUMLINE_LARGE_BUFFERS=0"


def is_possible() -> bool:
    """Whether this system is one whose tables of imports are known: 64-bit Linux with glibc."""
    return sys.platform == "linux" and sys.maxsize > 2**32 and platform.libc_ver()[0] == "glibc"


def reuse() -> bool:
    """Keep buffers of 4 MiB and more that XLA frees from now on, for its next call.

    At most half of the machine's memory is kept, and none if memory runs out.

    Returns:
        Whether they are: not on other systems, or where JAX is not imported.
    """
    if keep_large_buffers(LIBRARY) == 0:
        return False
    note("process", _ALLOCATOR, "XLA's large buffers on the CPU are reused from call to call", _OFF)
    return True


def stop() -> None:
    """Keep none from now on, and free those that are kept."""
    free_large_buffers()
    forget("process", _ALLOCATOR)
