"""What the running jobs of a server's member may hold together: later ones wait, for the member.

A member's job that waits for this sets nothing aside: others pass it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from drumline.jobs.engines.local import attempt
from drumline.jobs.file.model import RESOURCES, amount

_FILE = "limits.json"

Limits = Mapping[str, Mapping[str, float]]
"""How much of each resource, by the names of members."""


class MemberLimits:
    """How much of members' limits is left.

    Args:
        limits: of members; what is missing is not limited.
        held: whose jobs hold what.
    """

    def __init__(self, limits: Limits, held: Iterable[tuple[str, Mapping[str, float]]]) -> None:
        self._limits = limits
        self._held: dict[str, dict[str, float]] = {}
        for member, needs in held:
            self.add(member, needs)

    def add(self, member: str, needs: Mapping[str, float]) -> None:
        """Count what a job of a member holds from now on."""
        held = self._held.setdefault(member, dict.fromkeys(RESOURCES, 0.0))
        for resource in RESOURCES:
            held[resource] += needs[resource]

    def reason(self, member: str, needs: Mapping[str, float]) -> str:
        """Why another job of a member waits; empty if it need not."""
        held = self._held.get(member, {})
        for resource, most in self._limits.get(member, {}).items():
            taken = held.get(resource, 0.0)
            # Sums of fractions of a core are not exact.
            if needs[resource] > 0 and taken + needs[resource] > most * (1 + 1e-9):
                wanted = amount(needs[resource], resource)
                return (
                    f"waits for {wanted} of the {amount(most, resource)} that jobs of {member} "
                    f"may hold; {amount(taken, resource)} are held"
                )
        return ""


def write_limits(home: Path, limits: Limits) -> None:
    """Have the supervisor of a workspace know limits of its members."""
    attempt.write(home / _FILE, {member: dict(each) for member, each in limits.items() if each})


def read_limits(home: Path) -> Limits:
    """The limits of a workspace's members."""
    return attempt.read(home / _FILE) or {}


def limits_version(home: Path) -> int:
    """A number that differs once limits were written."""
    with contextlib.suppress(FileNotFoundError):
        return (home / _FILE).stat().st_mtime_ns
    return 0
