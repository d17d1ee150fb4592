"""Scripts of TensorFlow's in two processes give what they give in one, and compile once."""

import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from drumline.compat import tf
from tests.compat import parameter_server_script, worker_programs
from tests.distribute.parameter_server.clusters import TOKEN
from tests.distribute.process_group.clusters import Cluster, running
from tests.ports import free_addresses

PROGRAMS = ["fit", "loop", "native_loop"]


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """What each of two processes says."""
    folder = tmp_path_factory.mktemp("workers")
    arguments = {"programs": PROGRAMS, "folder": str(folder / "written")}
    cluster = Cluster("two", "tests.compat.worker_programs:member", arguments)
    with running(folder, [cluster]) as run:
        run.wait_for(*run.names)
        ends = run.ended("two")
    for end in ends:
        assert end.status == 0, end.log[-4000:]
    return [end.facts for end in ends]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_processes_give_what_two_devices_give(workers, program, tmp_path):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    expected = getattr(worker_programs, program)(strategy, str(tmp_path))
    for facts in workers:
        found = facts[program]
        assert found.keys() == expected.keys()
        for name in found.keys() - {"compiled", "saved", "restored"}:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6)


def test_all_processes_restore_what_one_saved(workers):
    for facts in workers:
        assert facts["loop"]["saved"] == "ckpt-1"
        assert facts["loop"]["restored"] == [worker_programs.STEPS, True]


@pytest.mark.parametrize("program", ["loop", "native_loop"])
def test_a_step_of_an_iterator_is_compiled_once(workers, program):
    """Also where it is defined inside of the function, anew in each call."""
    for facts in workers:
        first, *others = facts[program]["compiled"]
        assert first > 0
        assert list(itertools.islice(others, 1, None)) == [0] * (worker_programs.STEPS - 2), facts


def test_a_script_for_parameter_servers_runs_in_processes():
    tasks = [("worker", 0), ("worker", 1), ("ps", 0), ("chief", 0)]
    addresses = iter(free_addresses(len(tasks)))
    cluster = {}
    for job, _ in tasks:
        cluster.setdefault(job, []).append(next(addresses))
    started = []
    try:
        for job, index in tasks:
            config = {"cluster": cluster, "task": {"type": job, "index": index}}
            environment = {
                **os.environ,
                "TF_CONFIG": json.dumps(config),
                "DRUMLINE_CLUSTER_TOKEN": TOKEN,
            }
            command = [sys.executable, parameter_server_script.__file__]
            started.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            )
        said = started[-1].communicate(timeout=300)[0]
        assert [task.wait(60) for task in started] == [0] * len(tasks)
    finally:
        for task in started:
            task.kill()
            task.wait()
            task.stdout.close()
    facts = json.loads(said.splitlines()[-1])
    steps = 4 * parameter_server_script.STEPS + 1
    assert facts["rows"] == steps * parameter_server_script.BATCH
    assert facts["means"][-1] < facts["means"][0] / 4
    assert facts["last"] < facts["means"][0]
