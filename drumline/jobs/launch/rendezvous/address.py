"""The address that ``--rendezvous`` names."""

from __future__ import annotations

import re

from drumline.jobs.launch.errors import LaunchError


def split_address(address: str) -> tuple[str, int]:
    """``("10.0.0.1", 4000)`` of ``"10.0.0.1:4000"``; IPv6 addresses stand in brackets.

    Raises:
        LaunchError: if it is not of this form.
    """
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+)):(\d{1,5})", address)
    if not found or not 1 <= int(found[3]) <= 65_535:
        raise LaunchError(
            f"--rendezvous takes HOST:PORT, as 10.0.0.1:4000 or [fd00::1]:4000, got {address!r}."
        )
    return found[1] or found[2], int(found[3])
