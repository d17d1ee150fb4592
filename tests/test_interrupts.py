"""Signals that wait: their handlers run, once, and stay those of the program."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import jax
import numpy as np
import pytest

from drumline import _interrupts
from drumline._interrupts import signals_held_back


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Which signals were handled; SIGINT's handler raises as Python's does."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGALRM)}
    yield came
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_is_handled_at_the_end(handled: list[int]) -> None:
    held = signal.getsignal(signal.SIGINT)

    def within() -> None:
        with signals_held_back, signals_held_back:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGALRM)
            assert not handled

    with pytest.raises(KeyboardInterrupt):
        within()
    assert sorted(handled) == [signal.SIGINT, signal.SIGALRM]
    assert signal.getsignal(signal.SIGINT) == held
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    with signals_held_back:
        pass
    assert len(handled) == 3


def test_an_error_within_it_comes_first(handled: list[int]) -> None:
    def within() -> None:
        with signals_held_back:
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("of the step")

    with pytest.raises(KeyboardInterrupt) as raised:
        within()
    assert isinstance(raised.value.__context__, ValueError)


def test_who_insists_is_heard(handled: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_interrupts, "_PATIENCE", 0.0)

    def within() -> None:
        with signals_held_back:
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("it was held back")

    with pytest.raises(KeyboardInterrupt):
        within()


def test_a_trace_is_interrupted_at_once(handled: list[int]) -> None:
    @jax.jit
    def program(x: jax.Array) -> jax.Array:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it was held back")

    with pytest.raises(KeyboardInterrupt), signals_held_back:
        program(np.float32(1))


def test_other_threads_hold_nothing_back(handled: list[int]) -> None:
    inside, end = threading.Event(), threading.Event()

    def work() -> None:
        with signals_held_back:
            inside.set()
            end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    with contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert handled == [signal.SIGINT]
    end.set()
    thread.join()


STORM = """
import os, signal, sys, threading, time
from drumline._interrupts import signals_held_back

armed, raised, count = False, 0, 0

def note(number, frame):
    if armed:
        raise KeyboardInterrupt

SIGNALS = (signal.SIGINT, signal.SIGALRM, signal.SIGUSR1)
for number in SIGNALS:
    signal.signal(number, note)
end = threading.Event()

def storm():
    while not end.is_set():
        for number in SIGNALS:
            os.kill(os.getpid(), number)
        time.sleep(1e-4)

thread = threading.Thread(target=storm)
thread.start()
while raised < 30 and count < 2_000_000:
    count += 1
    try:
        armed = True
        with signals_held_back:
            pass
        armed = False
    except KeyboardInterrupt:
        armed = False
        raised += 1
end.set()
thread.join()
for number in SIGNALS:  # one that was left behind puts the program's in its place
    with signals_held_back:
        os.kill(os.getpid(), number)
assert all(signal.getsignal(number) is note for number in SIGNALS)
assert raised, "no signal came in the meantime"
"""


def test_a_storm_of_signals_leaves_the_programs_handlers() -> None:
    """Handlers that raise while others are put back."""
    done = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
