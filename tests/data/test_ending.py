"""The end of the program while datasets are being read ahead."""

import subprocess
import sys
import textwrap
import threading
import time

import pytest

from drumline.data.execute import leaving

COMPUTING = """
    import jax
    import jax.numpy as jnp
    from drumline.data import Dataset
    from drumline.data.execute import leaving

    leaving.GRACE_SECONDS = 0.0

    def slow(v):
        return jax.lax.fori_loop(0, 100_000, lambda i, a: jnp.sin(a + i), v * 1.0)

    iterator = iter(Dataset.range(10**6).map(slow, synchronous=True).prefetch(50_000))
    next(iterator)
"""


@pytest.mark.thorough
def test_a_program_ends_while_a_thread_computes():
    program = [sys.executable, "-c", textwrap.dedent(COMPUTING)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_thread_in_code_of_the_users_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(leaving, "GRACE_SECONDS", 0.01)
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    leaving.wait_for(thread)
    assert thread.is_alive()
    release.set()
    thread.join()


def test_a_thread_that_computes_is_waited_for(monkeypatch):
    monkeypatch.setattr(leaving, "GRACE_SECONDS", 0.0)
    scope = {"__name__": "jax.somewhere", "sleep": time.sleep}
    exec("def compute(): sleep(0.2)", scope)
    thread = threading.Thread(target=scope["compute"])
    thread.start()
    leaving.wait_for(thread)
    assert not thread.is_alive()
