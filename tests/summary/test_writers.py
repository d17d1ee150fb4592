"""Writers, defaults, and the thread that writes."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.training.background import Background
from tests.summary.reading import numbers


class Recorded:
    nbytes = 1

    def __init__(self, written: list[int], number: int, gate: threading.Event) -> None:
        self.written, self.number, self.gate = written, number, gate

    def write(self) -> None:
        self.gate.wait()
        self.written.append(self.number)


def test_recording_waits_for_nothing() -> None:
    """Neither for a device that still computes nor for a disk."""
    background, gate, written = Background(), threading.Event(), list[int]()
    for number in range(100):
        background.put(Recorded(written, number, gate))
    assert not written
    gate.set()
    background.drain()
    assert written == list(range(100))


def test_too_much_that_waits_is_written_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drumline.training.background._MOST_BYTES", 10)
    background, gate, written = Background(), threading.Event(), list[int]()
    gate.set()
    for number in range(100):
        background.put(Recorded(written, number, gate))
        assert number - len(written) <= 12
    background.drain()
    assert written == list(range(100))


def test_an_error_is_raised_by_who_records_or_flushes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = dl.summary.create_file_writer(tmp_path, max_queue=1)

    def full(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with writer.as_default(step=0):
        with monkeypatch.context() as while_full:
            while_full.setattr("os.pwrite", full)
            dl.summary.scalar("x", 1.0)
            with pytest.raises(OSError, match="No space left on device") as raised:
                writer.flush()
            assert "the summary 'x'" in raised.value.__notes__[0]
            dl.summary.scalar("y", 2.0)
            with pytest.raises(OSError, match="No space left on device"):
                dl.summary.flush()
        dl.summary.scalar("z", 3.0)
    assert numbers(tmp_path) == [("x", 0, 1.0), ("y", 0, 2.0), ("z", 0, 3.0)]


ENDS = """
import sys
import drumline as dl
writer = dl.summary.create_file_writer(sys.argv[1])
writer.set_as_default()
for step in range(100):
    dl.summary.scalar("x", float(step), step=step)
if sys.argv[2] == "raises":
    raise RuntimeError("enough")
if sys.argv[2] == "full":
    import os
    def full(*arguments):
        raise OSError(28, "No space left on device")
    os.pwrite = full
"""


@pytest.mark.parametrize("how", ["ends", "raises", "full"])
def test_the_end_of_the_process_writes_what_waits(tmp_path: Path, how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS, str(tmp_path), how], capture_output=True, text=True
    )
    if how == "full":
        assert "summaries were not written: [Errno 28] No space left" in done.stderr
    else:
        assert numbers(tmp_path) == [("x", step, float(step)) for step in range(100)]
    assert done.returncode == (1 if how == "raises" else 0), done.stderr


ENDS_WITHOUT_A_THREAD = """
import atexit, sys, threading
import jax.numpy as jnp
import drumline as dl
from drumline.training.background import background

def last():
    print([thread.name for thread in threading.enumerate()])
    dl.summary.scalar("x", 100.0, step=100)
    background.drain()

atexit.register(last)  # called after what is registered later
writer = dl.summary.create_file_writer(sys.argv[1], max_queue=1)
writer.set_as_default()
x = jnp.float32(-1)
for step in range(100):
    x = x + 1
    dl.summary.scalar("x", x, step=step)
"""


def test_the_thread_ends_before_the_process(tmp_path: Path) -> None:
    """One that frees arrays of JAX's while Python ends would have the process abort."""
    done = subprocess.run(
        [sys.executable, "-c", ENDS_WITHOUT_A_THREAD, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "MainThread" in done.stdout and "summaries" not in done.stdout
    assert numbers(tmp_path) == [("x", step, float(step)) for step in range(101)]


def test_several_writers_of_a_directory(tmp_path: Path) -> None:
    writers = [dl.summary.create_file_writer(tmp_path) for _ in range(3)]

    def work(number: int) -> None:
        with writers[number].as_default():
            for step in range(20):
                dl.summary.scalar(f"of {number}", step * 1.0, step=step)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
    assert numbers(tmp_path) == [
        (f"of {number}", step, float(step)) for number in range(3) for step in range(20)
    ]


def test_what_is_changed_afterwards_was_recorded_before(tmp_path: Path) -> None:
    array = np.zeros((), np.float32)
    with dl.summary.create_file_writer(tmp_path).as_default():
        for step in range(10):
            array[...] = step
            dl.summary.scalar("x", array, step=step)
    assert numbers(tmp_path) == [("x", step, float(step)) for step in range(10)]


def test_messages_name_the_remedy(tmp_path: Path) -> None:
    assert dl.summary.scalar("x", 1.0, step=0) is False
    writer = dl.summary.create_file_writer(tmp_path)
    with writer.as_default():
        with pytest.raises(ValueError, match=r"'x' needs one.*as_default\(step="):
            dl.summary.scalar("x", 1.0)
        with pytest.raises(ValueError, match=r"scalar\('x'\): expected a scalar, got \(2,\)"):
            dl.summary.scalar("x", [1.0, 2.0], step=0)
        with pytest.raises(TypeError, match=r"'x' is of real numbers, got complex128"):
            dl.summary.scalar("x", 1j, step=0)
        with pytest.raises(TypeError, match=r"'x' is of numbers, got"):
            dl.summary.histogram("x", ["a"], step=0)
        with pytest.raises(ValueError, match=r"image\('x'\): expected \(batch, height"):
            dl.summary.image("x", np.zeros((2, 2)), step=0)
        with pytest.raises(ValueError, match=r"audio\('x'\): expected \(batch, samples"):
            dl.summary.audio("x", np.zeros(2), 8000, step=0)
        with pytest.raises(ValueError, match=r"text\('x'\) got float64"):
            dl.summary.text("x", np.zeros(2), step=0)
        with pytest.raises(TypeError, match="takes a dataset, a Keras model or a GraphDef"):
            dl.summary.graph(3)
    writer.close()
    with pytest.raises(RuntimeError, match="already closed"):
        writer.set_as_default()
    with pytest.raises(ValueError, match="gs://bucket"):
        dl.summary.create_file_writer("gs://bucket/logs")
    assert numbers(tmp_path) == []
