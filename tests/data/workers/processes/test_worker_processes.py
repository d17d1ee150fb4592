"""Python functions in worker processes: results, errors, deaths, and that none is left behind."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

from drumline.data import Dataset, Options
from drumline.data.experimental import RemoteReads, remote_reads, set_remote_reads
from drumline.data.functions.trace import UserFunction
from drumline.data.operations.map import ParallelMapStage
from drumline.data.runtime.threads import available_cores
from drumline.data.workers.processes.process_function import dumps
from drumline.data.workers.processes.worker_process import SharedBuffer, WorkerProcess, sendable
from drumline.image import Limits, get_limits, set_limits
from tests.lost_processes import lost_in
from tests.processes import gone

PATIENCE = 60.0
N = 40


def in_processes(dataset: Dataset) -> Dataset:
    options = Options()
    options.python_workers = "processes"
    return dataset.with_options(options)


def elements() -> Dataset:
    rows = np.arange(3 * N, dtype=np.float32).reshape(N, 3)
    names = [b"name %d" % i for i in range(N)]
    return Dataset.from_tensor_slices({"id": np.arange(N) + 2**41, "row": rows, "name": names})


def wait_for_end(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline, [pid for pid in pids if not gone(pid)]
        time.sleep(0.01)


@pytest.fixture(scope="module")
def treated() -> Dataset:
    """Fails for one element, dies of another; both only in a worker."""
    parent = os.getpid()

    def treat(element: Any) -> Any:
        place = int(element["id"]) - 2**41
        if os.getpid() != parent and place == 5:
            raise LookupError("no five")
        if os.getpid() != parent and place == 17:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"row": element["row"] * 2, "name": element["name"] + b"!", "pid": os.getpid()}

    return in_processes(elements().map(treat, num_parallel_calls=2))


def outcomes(iterator: Any) -> list[Any]:
    """Elements, and errors in their places."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except (LookupError, RuntimeError) as error:
            found.append(error)


def test_results_errors_and_deaths_come_in_their_places(treated: Dataset) -> None:
    found = outcomes(iter(treated))
    assert len(found) == N
    failed, died = found[5], found[17]
    assert isinstance(failed, LookupError)
    assert failed.args == ("no five",)
    assert failed.element_index == 5
    notes = "\n".join(failed.__notes__)
    assert 'raise LookupError("no five")' in notes
    assert "raised for element 5 of map(treat" in notes
    assert isinstance(died, RuntimeError)
    said = lost_in(str(died), "A worker process")
    assert said["pid"] and "it was killed by SIGKILL (by someone, or by the kernel" in said["seen"]
    assert "map(treat (test_worker_processes.py" in said["follows"]
    assert "at element 17" in said["follows"] and "ignore_errors()" in said["remedy"]
    rest = [(i, e) for i, e in enumerate(found) if i not in (5, 17)]
    for i, element in rest:
        assert element["row"].tolist() == [6 * i, 6 * i + 2, 6 * i + 4]
        assert element["row"].dtype == np.float32
        assert element["name"] == b"name %d!" % i
    pids = {int(element["pid"]) for _, element in rest}
    assert os.getpid() not in pids
    assert len(pids) >= 2


def test_processes_are_kept_and_states_resume(treated: Dataset) -> None:
    iterator = iter(treated)
    for _ in range(4):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    first = outcomes(iterator)
    again = iter(treated)
    again.restore(state)
    second = outcomes(again)
    assert len(first) == len(second) == N - 4

    def comparable(found: list[Any]) -> list[Any]:
        return [
            re.sub(r"pid \d+", "", str(each))
            if isinstance(each, Exception)
            else each["row"].tolist()
            for each in found
        ]

    assert comparable(first) == comparable(second)


def test_processes_end_with_their_dataset() -> None:
    dataset = in_processes(
        Dataset.range(3).map(lambda v: (int(v), os.getpid()), num_parallel_calls=1)
    )
    (pid,) = {int(pid) for _, pid in dataset}
    assert {int(pid) for _, pid in dataset} == {pid}
    assert not gone(pid)
    assert ", in 1 worker process, in order" in dataset.explain()
    del dataset
    gc.collect()
    wait_for_end([pid])


def test_threads_are_the_default_and_in_order_maps_stay_here() -> None:
    mapped = Dataset.range(3).map(lambda v: (int(v), os.getpid()))
    assert {int(pid) for _, pid in in_processes(mapped)} == {os.getpid()}
    said = "one by one in the thread that asks: python_workers='processes' needs num_parallel_calls"
    assert said in in_processes(mapped).explain()
    assert said not in mapped.explain()
    parallel = Dataset.range(3).map(lambda v: (int(v), os.getpid()), num_parallel_calls=2)
    assert {int(pid) for _, pid in parallel} == {os.getpid()}
    assert "in 2 worker processes, in order" in in_processes(parallel).explain()
    with pytest.raises(ValueError, match="python_workers must be 'threads' or 'processes'"):
        Options().python_workers = "forks"


ORPHAN = """
    import drumline_command, os, sys, threading, time
    import cloudpickle, numpy as np
    from drumline.data import Dataset
    from drumline.data.elements.block import Block
    from drumline.data.workers.processes.worker_process import WorkerProcess

    def busy(value):
        if int(value) >= 0:  # holds Python's lock for minutes
            3 ** (1 << 32)
        return value

    function = Dataset.range(1).map(lambda v: int(v))._plan.function.run
    user, source, spec, why = function.arguments()
    import dataclasses
    user = dataclasses.replace(user, function=busy)
    process = WorkerProcess(cloudpickle.dumps((user, source, spec, why)))
    block = Block([np.zeros(1, np.int64)], 1)
    threading.Thread(target=process.run, args=(block, 0), daemon=True).start()
    while process._replies.progress == 0:
        time.sleep(0.01)
    print(process.pid, flush=True)
    time.sleep(600)
"""


def test_a_busy_worker_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ORPHAN)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    assert not gone(pid)
    parent.kill()
    parent.wait()
    wait_for_end([pid])


INTERRUPTED = """
    import os, signal, time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    import drumline as dl
    from drumline.data.workers.processes import process_function

    def slow(value):
        if os.getpid() != parent:
            time.sleep(600)
        return int(value)

    parent = os.getpid()
    options = dl.data.Options()
    options.python_workers = "processes"
    dataset = dl.data.Dataset.range(9).map(slow, num_parallel_calls=2).prefetch(1)
    iterator = iter(dataset.with_options(options))
    function = iterator.stage.source.function

    def tell():
        while len(function.pids) < 2:
            time.sleep(0.01)
        time.sleep(0.2)
        print(*function.pids, flush=True)

    import threading
    threading.Thread(target=tell, daemon=True).start()
    next(iterator)
"""


@pytest.mark.thorough
def test_an_interrupt_ends_everything_at_once() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    with program:
        pids = [int(pid) for pid in program.stdout.readline().split()]
        assert len(pids) == 2
        program.send_signal(signal.SIGINT)
        try:
            _, errors = program.communicate(timeout=PATIENCE)
        finally:
            program.kill()
    assert program.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    wait_for_end(pids)


@pytest.mark.thorough
def test_a_function_that_cannot_be_loaded() -> None:
    with pytest.raises(RuntimeError, match="could not load the function: ModuleNotFoundError"):
        WorkerProcess(b"cnot_a_module_anywhere\nname\n.")


class Reader:
    """Holds something that cannot be sent."""

    def __init__(self) -> None:
        self.parts = {"files": [threading.Lock()]}

    def __call__(self, value: Any) -> Any:
        return value

    def read(self, value: Any) -> Any:
        return value


def test_what_cannot_be_pickled_is_named() -> None:
    lock = threading.Lock()
    reader = Reader()

    def guarded(value: Any) -> Any:
        with lock:
            return value

    def named(function: Any) -> str:
        with pytest.raises(TypeError, match="cannot be sent to a worker process") as caught:
            dumps(UserFunction(function, "map"), function, "map(f)")
        return str(caught.value)

    assert "process: lock (a _thread.lock) cannot be pickled" in named(guarded)
    assert "parts.['files'].[0] (a _thread.lock)" in named(reader)
    assert "self.parts.['files'].[0] (a _thread.lock)" in named(reader.read)
    assert "[0] (a _thread.lock)" in named(partial(max, lock))
    assert "Options.python_workers" in named(guarded)
    assert pickle.loads(dumps(5, len, "map(len)")) == 5
    mapped = Dataset.range(3).map(lambda v: guarded(int(v)), num_parallel_calls=2)
    with pytest.raises(TypeError, match="guarded.lock"):
        iter(in_processes(mapped))


def test_shared_memory_grows_and_keeps_what_cannot_be_shared_aside() -> None:
    writer = SharedBuffer()
    reader = SharedBuffer(os.dup(writer.fd))
    strings = np.array([b"a", b"bc"], object)
    for rows in (2, 50_000, 3):
        columns = [np.arange(rows * 3.0).reshape(rows, 3), strings, np.zeros((0, 2), np.int8)]
        placed, others = writer.write(columns)
        found = reader.read(placed, others, [c.dtype for c in columns])
        assert [f.dtype for f in found] == [c.dtype for c in columns]
        assert all(
            (f == c).all() and f.shape == c.shape for f, c in zip(found, columns, strict=True)
        )
        kept = found[0].copy()
        writer.write([np.full((rows, 3), -1.0)])
        assert (found[0] == kept).all()
    writer.progress = 7
    assert reader.progress == 7
    writer.close()
    reader.close()


def test_errors_that_cannot_be_sent_say_the_same() -> None:
    class Local(Exception):
        def __init__(self, code: int, lock: Any):
            super().__init__(f"code {code}")
            self.lock = lock

    try:
        raise Local(3, threading.Lock())
    except Local as error:
        sent = sendable(error)
    assert type(sent) is RuntimeError
    assert str(sent) == "Local: code 3"
    assert any("raise Local(3" in note for note in sent.__notes__)


def test_processes_are_autotuned_up_to_the_cores() -> None:
    dataset = in_processes(Dataset.range(3).map(lambda v: int(v), num_parallel_calls=-1))
    stage = iter(dataset).stage
    assert isinstance(stage, ParallelMapStage)
    assert stage.pool.automatic
    assert stage.pool.most == stage.pool.width == available_cores()


def limits_and_reads(value: Any) -> tuple[int, int, int]:
    return int(value), get_limits().max_pixels, remote_reads().attempts


def test_they_have_the_limits_that_the_program_set() -> None:
    limits, reads = get_limits(), remote_reads()
    set_limits(Limits(max_pixels=77))
    set_remote_reads(RemoteReads(attempts=9))
    try:
        found = in_processes(Dataset.range(4).map(limits_and_reads, num_parallel_calls=2))
        assert "worker processes" in found.explain()
        assert [tuple(map(int, each)) for each in found] == [(i, 77, 9) for i in range(4)]
    finally:
        set_limits(limits)
        set_remote_reads(reads)
