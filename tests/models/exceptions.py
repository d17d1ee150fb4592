"""Where replicas differ from one device, with the cause of each: at most ten, and all verified.

Each runs like the others and must fail: one that begins to pass is an error, and is taken out.
"""

from __future__ import annotations

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""By case and way (or ``"all"``)."""
