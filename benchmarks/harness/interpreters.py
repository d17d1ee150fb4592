"""Which Python runs which contender."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence

from benchmarks.harness.process import ROOT

_PROBE = """
import importlib.util, sys
print(*[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])
"""


@functools.cache
def missing_modules(python: str, modules: tuple[str, ...]) -> tuple[str, ...]:
    """Those of ``modules`` that ``python`` cannot find.

    Raises:
        ValueError: ``python`` does not run.
    """
    if not modules:
        return ()
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE, *modules],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(f"{python} does not work as a Python interpreter: {error}") from error
    return tuple(probe.stdout.split())


def choose(pythons: Sequence[str], modules: tuple[str, ...]) -> tuple[str | None, str]:
    """The first interpreter that has all of ``modules``, and otherwise what is missing.

    Args:
        pythons: interpreters in order of preference.
        modules: names of top-level modules.

    Returns:
        The interpreter and an empty string, or ``None`` and the reason in words.
    """
    fewest: tuple[str, ...] | None = None
    for python in pythons:
        missing = missing_modules(python, modules)
        if not missing:
            return python, ""
        if fewest is None or len(missing) < len(fewest):
            fewest = missing
    return None, f"{', '.join(fewest or modules)} not installed"
