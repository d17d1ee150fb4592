"""How many of drumline's files a reader passes from a call of a user's to what it comes to.

Counted with a profile hook in all threads, in a process of its own. A change may lower the limits,
not raise them. Run with ``-s`` to see the files.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

LIMITS = {"build": 12, "first batch": 26, "fit": 47, "schedule again": 26}
"""The goals are 12, 25, 40 and 25; a thread that beats in between may add one."""

PROGRAM = r"""
import json, socket, sys, threading
import jax
jax.config.update("jax_num_cpu_devices", 2)
import keras
import numpy as np
import drumline as dl
from drumline.data import Dataset

root = sys.argv[1] + "/drumline/"

seen = set()

def note(frame, event, argument):
    if frame.f_code.co_filename.startswith(root):
        seen.add(frame.f_code.co_filename[len(root):])

# Before any thread is started, since Python 3.11 reaches no thread later.
threading.setprofile(note)
sys.setprofile(note)

def files(call):
    seen.clear()
    result = call()
    return result, sorted(seen)

found = {}
rows = np.arange(200, dtype="float32")
# What is imported for the first map, and by JAX for its first program, is no part of the way.
Dataset.range(4).map(lambda value: value + 1)
jax.jit(lambda value: value + 1)(np.float32(0))
dataset, found["build"] = files(
    lambda: Dataset.from_tensor_slices(rows).map(lambda value: value * 2).batch(64)
)
_, found["first batch"] = files(lambda: next(iter(dataset)))

strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer="sgd")
ones = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
pairs = Dataset.from_tensor_slices(ones).batch(4)
_, found["fit"] = files(lambda: model.fit(pairs, epochs=1, verbose=0))

def address():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{bound.getsockname()[1]}"

cluster = dl.train.ClusterSpec({"worker": [address()], "ps": [address()]})
tasks = [dl.distribute.Server(cluster, job, 0) for job in ("worker", "ps")]
resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(cluster)
servers = dl.distribute.ParameterServerStrategy(resolver)
with servers.scope():
    weight = dl.Variable(np.ones((2, 1), np.float32))

def step(x):
    return (x @ weight).sum()

coordinator = dl.distribute.coordinator.ClusterCoordinator(servers)

def schedule():
    result = coordinator.schedule(step, (np.ones((4, 2), np.float32),))
    coordinator.join()
    return result.fetch()

schedule()
_, found["schedule again"] = files(schedule)
coordinator.close()
for task in tasks:
    task.close()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT)], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    journeys: dict[str, list[str]] = json.loads(run.stdout.splitlines()[-1])
    return journeys


@pytest.mark.parametrize("journey", LIMITS)
def test_a_journey_passes_no_more_files(journey: str, found: dict[str, list[str]]) -> None:
    files = found[journey]
    print(f"{journey}: {len(files)} files", *files, sep="\n    ")
    assert len(files) <= LIMITS[journey], "\n".join(files)
