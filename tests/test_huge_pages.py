"""Huge pages for XLA's buffers, seen in the kernel's own account of the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")

PROGRAM = """
import re, sys
import drumline
import jax, jax.numpy as jnp
def huge_kilobytes():
    return int(re.search(r"AnonHugePages: *([0-9]+)", open("/proc/self/smaps_rollup").read())[1])
buffer = jax.block_until_ready(jnp.ones(1024, jnp.float32))
before = huge_kilobytes()
buffer = jax.block_until_ready(jnp.ones(2**24, jnp.float32))
print("grown", huge_kilobytes() - before)
"""


def grown_kilobytes(**environment: str) -> int:
    """By how much huge pages grow in a fresh process when JAX makes an array of 64 MiB."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"grown (-?\d+)", process.stdout)
    assert found, process.stdout + process.stderr
    return int(found[1])


@pytest.mark.skipif(
    not MODE.exists() or "[madvise]" not in MODE.read_text(),
    reason="this kernel gives huge pages to all memory or to none, asked or not",
)
def test_large_buffers_use_huge_pages_unless_switched_off() -> None:
    assert grown_kilobytes() >= 32 * 1024
    assert grown_kilobytes(DRUMLINE_HUGE_PAGES="0") < 32 * 1024


def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from drumline import _huge_pages

    monkeypatch.setenv("DRUMLINE_HUGE_PAGES", "yes")
    with pytest.raises(ValueError, match="DRUMLINE_HUGE_PAGES='yes'"):
        _huge_pages.advise()


def test_a_library_that_is_not_loaded_is_left_alone() -> None:
    from drumline._core import advise_huge_pages

    assert advise_huge_pages("/no-such-library.so") == 0
