"""The form in which all parts of drumline say that a process is lost."""

from __future__ import annotations

import re

_REPORT = re.compile(
    r"(?P<name>\S[^.]*?)(?: at (?P<address>\[?[\w.:]+\]?:\d+))?(?: \(pid (?P<pid>\d+)\))? is lost: "
    r"(?P<seen>[^\n]*?[^.])\. (?P<follows>\S[^\n]*?[^.])\. (?P<remedy>\S[^\n]*[^.])\.$",
    re.MULTILINE,
)


def lost_in(text: str, name: str) -> dict[str, str | None]:
    """What `text` says of the loss of `name`: name, address, pid, seen, follows, remedy."""
    for line in text.splitlines():
        found = _REPORT.search(line[max(0, line.find(name)) :])
        if found and found["name"] == name:
            return found.groupdict()
    raise AssertionError(f"no loss of {name!r} is reported in:\n{text}")
