"""Scripts of TensorFlow's in two processes give what they give in one, and compile once."""

import itertools

import numpy as np
import pytest

from drumline.compat import tf
from tests.compat import worker_programs
from tests.distribute.process_group.clusters import Cluster, running

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
