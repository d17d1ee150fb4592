"""XLA's large buffers are reused where asked for, seen in the kernel's account of the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from drumline import _settings
from drumline._core import keep_large_buffers

PROGRAM = """
import resource
import sys
import numpy as np
import drumline as dl
SETTING
import jax, jax.numpy as jnp
double = jax.jit(lambda x: x * 2)
x = jnp.ones(2**24, jnp.float32)

def faults():
    double(x).block_until_ready()
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(10):
        y = double(x).block_until_ready()
        assert (np.asarray(y) == 2).all()
        del y
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before.ru_minflt)

print(dl.config.reuses_large_buffers())
faults()
"""

PAGES = 10 * 2**26 // os.sysconf("SC_PAGE_SIZE")
"""What ten calls of a program fault in that makes and frees an array of 64 MiB."""


def lines(setting: str = "", after: str = "", **environment: str) -> list[str]:
    """What a fresh process prints: whether buffers are reused, and its page faults."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("SETTING", setting) + after],
        env={**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0", **environment},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="buffers are reused on Linux alone")
class TestReuse:
    def test_it_is_off_unless_asked_for(self) -> None:
        reused, faults = lines()
        assert reused == "False" and int(faults) > PAGES // 2

    def test_the_environment_turns_it_on(self) -> None:
        reused, faults = lines(DRUMLINE_LARGE_BUFFERS="1")
        assert reused == "True" and int(faults) < PAGES // 4

    def test_a_call_turns_it_on_and_off(self) -> None:
        off = "print(dl.config.set_large_buffer_reuse(False))\nfaults()\n"
        on = "print(dl.config.set_large_buffer_reuse(True))\nfaults()\n"
        found = lines("dl.config.set_large_buffer_reuse(True)", off + on)
        assert found[::2] == ["True", "False", "True"]
        before, without, after = map(int, found[1::2])
        assert without > PAGES // 2 and max(before, after) < PAGES // 4


@pytest.mark.parametrize(("value", "expected"), [(None, False), ("0", False), (" 1 ", True)])
def test_what_the_environment_asks_for(value: str | None, expected: bool) -> None:
    assert _settings.chosen_buffers(value) is expected


@pytest.mark.parametrize("value", ["yes", ""])
def test_another_value_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=f"DRUMLINE_LARGE_BUFFERS={value!r}: set it to 1"):
        _settings.chosen_buffers(value)


def test_a_library_that_is_not_loaded_is_left_alone() -> None:
    assert keep_large_buffers("/no-such-library.so") == 0
