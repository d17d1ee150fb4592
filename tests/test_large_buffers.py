"""XLA's large buffers are kept, seen in the kernel's own account of the process."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
import drumline
import jax, jax.numpy as jnp
double = jax.jit(lambda x: x * 2)
x = jnp.ones(2**24, jnp.float32)
for _ in range(3):
    double(x).block_until_ready()
before = resource.getrusage(resource.RUSAGE_SELF)
for _ in range(10):
    y = double(x).block_until_ready()
    assert (np.asarray(y) == 2).all()
    del y
print("faults", resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before.ru_minflt)
"""


def faults_of_ten_calls(**environment: str) -> int:
    """Page faults in a fresh process while XLA makes and frees an array of 64 MiB ten times."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    found = re.search(r"faults (\d+)", process.stdout)
    assert found, process.stdout + process.stderr
    return int(found[1])


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="buffers are kept on Linux alone")
def test_a_buffer_is_used_again_unless_switched_off() -> None:
    pages = 10 * 2**26 // os.sysconf("SC_PAGE_SIZE")
    assert faults_of_ten_calls() < pages // 4
    assert faults_of_ten_calls(DRUMLINE_KEEP_BUFFERS="0", NUMPY_MADVISE_HUGEPAGE="0") > 0


def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from drumline import _large_buffers

    monkeypatch.setenv("DRUMLINE_KEEP_BUFFERS", "yes")
    with pytest.raises(ValueError, match="DRUMLINE_KEEP_BUFFERS='yes'"):
        _large_buffers.keep()


def test_a_library_that_is_not_loaded_is_left_alone() -> None:
    from drumline._core import keep_large_buffers

    assert keep_large_buffers("/no-such-library.so") == 0
