"""Children that are forked while drumline works: they end, and their parent's work is untouched."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

FORK = """
import gc, os, signal, sys, warnings
warnings.simplefilter("ignore")  # JAX's, that it does not like forks

def child(work=lambda: None):
    "The exit status of a forked child that does some work and ends as programs do."
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # if it hangs, it ends by this
        work()
        gc.collect()
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

CONNECTIONS = """
import subprocess
from tests.distribute.parameter_server.wire import peer_process
peer_process.import_without_jax()
from drumline.distribute.parameter_server.wire import Connection, TransportServer

def echo(connection):
    return connection.submit("echo", dict(a=1), []).result(60).header["a"]

command = [sys.executable, peer_process.__file__, "serve", "127.0.0.1:0", "token"]
peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
address = peer.stdout.readline().strip()
open_ones = []
for what in {made}:
    if what == "server":
        own = TransportServer("127.0.0.1:0", dict(echo=lambda message: message), token="token")
        own.start()
    connection = Connection(
        own.address if what == "server" else address, token="token", timeout_seconds=60
    )
    echo(connection)
    if what == "closed":
        connection.close()
    else:
        open_ones.append(connection)
print(child(), *map(echo, open_ones))
for connection in open_ones:
    connection.close()
peer.stdin.close()
peer.wait()
"""

DATASETS = """
import pathlib
from drumline._event_files import SummaryFile
from drumline._event_messages import scalar_message
from drumline.data import Dataset, Options

def plus_one(x):
    return int(x) + 1 if os.getpid() else None

folder = pathlib.Path({folder!r})
events = SummaryFile(folder / "events")
events.add(scalar_message("loss", 1.0), 1)
numbers = Dataset.range(40)
threads = numbers.map(plus_one, num_parallel_calls=2).batch(2).prefetch(2)
options = Options()
options.python_workers = "processes"
processes = numbers.map(plus_one, num_parallel_calls=2).with_options(options)
cached = numbers.cache(str(folder / "cache"))
large = Dataset.from_tensor_slices(__import__("numpy").zeros((64, 1 << 16), "uint8")).shuffle(64)
iterators = [iter(each) for each in (threads, processes, cached, large)]
first = [next(each) for each in iterators]

def work():
    # An iterator goes on in the child where it stood, by threads of the child's own.
    assert [x.tolist() for x in iterators[0]][0] == [3, 4]
    assert next(iter(processes)) == next(iterators[1]) - 1 == 1
    assert next(iter(large)).shape == (1 << 16,)

print(child(), child(work))
rest = [list(each) for each in iterators]
print(rest[0][0].tolist(), len(rest[0]), [int(x) for x in rest[1]] == list(range(2, 41)))
print([int(x) for x in numbers.cache(str(folder / "cache"))] == list(range(40)), len(rest[3]))
events.close()
"""

INTERRUPTED_SAVE = """
import pathlib
import numpy as np
from drumline.data import Dataset
statuses = []

def elements():
    for i in range(3000):  # less than a buffer of Python's is written when the child is forked
        if i == 2500:
            statuses.append(child())
        yield np.int64(i)

numbers = Dataset.from_generator(elements, output_types=np.int64, output_shapes=())
place = {folder!r} + "/saved"
numbers.save(place)
print(statuses, [int(x) for x in Dataset.load(place)] == list(range(3000)))
"""

CHIEF = """
import drumline as dl
from tests.distribute.parameter_server.clusters import in_process

with in_process(workers=1, ps=1) as strategy:  # a child that exits leaves this block, too
    coordinator = dl.distribute.coordinator.ClusterCoordinator(strategy)
    first = coordinator.schedule(lambda: 2).fetch()
    print(child(), first, coordinator.schedule(lambda: 3).fetch())
"""

LOCKED = """
import pathlib, threading
import numpy as np
from drumline import _addresses, failure_record
from drumline._forks import ForkSafeLock
from drumline._memory import BufferPool
from drumline.data import Dataset
from drumline.data.operations.checks import ErrorCount
from drumline.data.storage import saved
from drumline.data.storage.files import remote
from drumline.distribute.parameter_server import strategy
from drumline.distribute.parameter_server.wire import server
from drumline.distribute.parameter_server.worker import datasets
from drumline.image import columns

folder = pathlib.Path({folder!r})
filled = Dataset.range(9).cache(str(folder / "cache"))
memory = filled.cache()
varying = dict(output_types=np.int32, output_shapes=(None,))
lengths = Dataset.from_generator(lambda: iter([np.zeros(3, "int32")]), **varying).map(abs)
pass_of_parent = iter(filled)
next(pass_of_parent)
locks = [
    failure_record._write_once, columns._pool._lock, saved._lock, remote._state.lock,
    strategy._counting, _addresses._lookups_lock, server._lock, datasets._lock,
    memory._plan.store._lock, ErrorCount()._lock, lengths._plan.function.run._lock,
]
assert all(type(lock) is ForkSafeLock for lock in locks)
locked, done = threading.Event(), threading.Event()

def hold():
    "What another thread is in the middle of."
    import contextlib
    with contextlib.ExitStack() as stack:
        for lock in locks:
            stack.enter_context(lock)
        locked.set()
        done.wait()

thread = threading.Thread(target=hold)
thread.start()
locked.wait()

def work():
    os.environ["DRUMLINE_FAILURE_DIR"] = str(folder)
    assert failure_record.write("worker", 0, "exception", "why").exists()
    assert columns._pool.empty((1 << 16,), np.dtype("uint8")).nbytes == 1 << 16
    assert [int(x) for x in Dataset.range(4).cache(str(folder / "other"))] == [0, 1, 2, 3]
    assert [int(x) for x in memory] == list(range(9))
    assert strategy._prefix_of(["a:1"]) == ""
    assert _addresses.resolve("localhost", 80, 30)
    assert server.find("a:1") is None
    datasets.SentFunction(lambda: None)
    assert not saved._filling

print(child(work), len(saved._filling))
done.set()
thread.join()
print([int(x) for x in pass_of_parent])
"""

WORKER = """
import jax
import drumline as dl

strategy = dl.distribute.MultiWorkerMirroredStrategy()

def step():
    return dl.distribute.get_replica_context().all_reduce("sum", jax.numpy.ones(()))

found = []
for _ in range(3):
    found += [child(), float(strategy.experimental_local_results(strategy.run(step))[0])]
print("found", *found)
"""

MULTIPROCESSING = """
import multiprocessing
from drumline.data import Dataset

def total(numbers, queue):
    queue.put(sum(int(x) for x in numbers))

numbers = Dataset.range(100).map(lambda x: int(x) + 1, num_parallel_calls=2).prefetch(2)
iterator = iter(numbers)
next(iterator)
fork = multiprocessing.get_context("fork")
queue = fork.SimpleQueue()
for given in (numbers, iterator):
    process = fork.Process(target=total, args=(given, queue))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
print(sum(int(x) for x in iterator))
"""


def run(program: str) -> list[str]:
    """The lines that a program prints, which must say nothing on standard error."""
    root = Path(__file__).parents[1]
    whole = textwrap.dedent(FORK) + textwrap.dedent(program)
    environment = {**os.environ, "PYTHONPATH": str(root), "DRUMLINE_SHARED_MEMORY": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", whole], capture_output=True, text=True, env=environment
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    "made", [["open"], ["closed"], ["closed", "open"], ["open", "server"]], ids="+".join
)
def test_a_child_of_a_process_with_connections_ends(made: list[str]) -> None:
    echoes = ["1"] * (len(made) - made.count("closed"))
    program = CONNECTIONS.format(made=made)
    assert run(program) == [" ".join(["7", *echoes])]


def test_a_child_ends_while_datasets_run(tmp_path: Path) -> None:
    assert run(DATASETS.format(folder=str(tmp_path))) == ["7 7", "[3, 4] 19 True", "True 63"]


def test_a_child_neither_deletes_nor_writes_what_its_parent_saves(tmp_path: Path) -> None:
    assert run(INTERRUPTED_SAVE.format(folder=str(tmp_path))) == ["[7] True"]


def test_a_child_waits_for_no_lock_that_another_thread_held(tmp_path: Path) -> None:
    assert run(LOCKED.format(folder=str(tmp_path))) == ["7 1", "[1, 2, 3, 4, 5, 6, 7, 8]"]


def test_modules_have_no_locks_that_a_child_would_wait_for() -> None:
    # A lock of a module, or of what a module makes, is there in every child.
    package = Path(__file__).parents[1] / "drumline"
    found = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in package.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        if re.search(r"threading\.(R?Lock|Condition|Semaphore)\(", ast.unparse(node.value))
    ]
    assert found == []


def test_a_child_of_the_chief_ends_and_the_cluster_stays() -> None:
    assert run(CHIEF) == ["7 2 3"]


def test_children_of_multiprocessing_take_datasets_and_iterators() -> None:
    assert run(MULTIPROCESSING) == ["5050", "0", "5049", "0", "5049"]


def test_children_of_workers_end_and_the_job_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(FORK) + textwrap.dedent(WORKER))
    launch = [sys.executable, "-m", "drumline_command", "launch", "--workers", "2"]
    ended = subprocess.run(
        [*launch, "--prefix-output", "--", sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert ended.returncode == 0, ended.stdout
    for worker in ("worker:0", "worker:1"):
        assert f"[{worker}] found 7 2.0 7 2.0 7 2.0" in ended.stdout
