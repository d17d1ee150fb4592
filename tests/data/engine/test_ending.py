"""The end of the program while datasets are being read ahead."""

import subprocess
import sys
import textwrap
import threading
import time

import pytest

from drumline.data.runtime import threads as leaving

COMPUTING = """
    import jax
    import jax.numpy as jnp
    from drumline.data import Dataset
    from drumline.data.runtime import threads as leaving

    leaving.GRACE_SECONDS = 0.0

    def slow(v):
        return jax.lax.fori_loop(0, 100_000, lambda i, a: jnp.sin(a + i), v * 1.0)

    iterator = iter(Dataset.range(10**6).map(slow, synchronous=True).prefetch(50_000))
    next(iterator)
"""


ENDING = """
    import atexit, os, sys, threading, time, warnings
    import numpy as np
    from drumline.data import Dataset, Options
    from drumline.data.runtime import threads as leaving

    begun, late, released = set(), set(), threading.Event()
    # What is registered first is called last.
    atexit.register(lambda: print("begun:", *sorted(begun), "late:", *sorted(late), flush=True))

    def work(name):
        def wait(v):
            v = np.asarray(v)
            if threading.current_thread() is threading.main_thread():
                return v  # The example that tells the spec.
            begun.add(name)
            if released.is_set():
                late.add(name)
            released.wait()
            return v

        return wait

    def copied(v):
        return np.array(np.asarray(v))

    def unordered(dataset, size=None):
        options = Options()
        options.deterministic = False
        if size is not None:
            options.threading.private_threadpool_size = size
        return dataset.with_options(options)

    numbers = Dataset.range(10**6)
    nested = numbers.map(work("nested"), num_parallel_calls=2)
    read = numbers.map(work("read"))
    iterators = [
        iter(numbers.map(work("map"), num_parallel_calls=2)),
        iter(unordered(numbers.map(work("ahead"), num_parallel_calls=2).batch(2).prefetch(2))),
        iter(unordered(numbers.map(work("private"), num_parallel_calls=4), size=2)),
        iter(numbers.flat_map(lambda _: nested).prefetch(2)),
        iter(numbers.interleave(lambda _: read, cycle_length=6, num_parallel_calls=2)),
    ]
    for iterator in iterators:
        threading.Thread(target=next, args=[iterator], daemon=True).start()
    while len(begun) < len(iterators):
        time.sleep(0.001)

    class Locked:
        def __init__(self):
            self.lock = threading.Lock()

        def request_stop(self):
            self.lock.acquire()

    locked = Locked()
    leaving.stop_at_exit(locked)
    locked.lock.acquire()
    warnings.simplefilter("ignore")
    if os.fork() == 0:
        begun.clear()
        assert next(iter(numbers.map(copied, num_parallel_calls=2))) == 0
        atexit._run_exitfuncs()
        os._exit(5)  # JAX does not survive the rest.
    locked.lock.release()
    print("child:", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)

    def go_on():
        threading.main_thread().join()
        print("sum:", sum(map(int, numbers.take(50).map(copied, num_parallel_calls=3))), flush=True)

    threading.Thread(target=go_on).start()
    # When all were told to begin nothing more.
    threading.Thread(target=lambda: (time.sleep(1), released.set()), daemon=True).start()
    sys.exit(7)
"""


def test_nothing_begins_once_the_program_ends():
    program = [sys.executable, "-c", textwrap.dedent(ENDING)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=100)
    assert ended.stdout.splitlines() == [
        "begun: late:",
        "child: 5",
        "sum: 1225",
        "begun: ahead map nested private read late:",
    ]
    assert (ended.returncode, ended.stderr) == (7, "")


@pytest.mark.thorough
def test_a_program_ends_while_a_thread_computes():
    program = [sys.executable, "-c", textwrap.dedent(COMPUTING)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=900)
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
