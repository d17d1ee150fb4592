"""How long CPU devices of a process wait for each other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from drumline.distribute.process_group import environment, jax_internals

LIMIT = "--xla_cpu_collective_call_terminate_timeout_seconds"
SOON = "--xla_cpu_collective_call_warn_stuck_timeout_seconds=1"
ROOT = Path(__file__).parents[3]
SLOW = """
import sys, time
import jax, numpy as np
import drumline as dl
from drumline.distribute.process_group.environment import let_cpu_devices_wait

dl.config.set_logical_devices("cpu", 2)
let_cpu_devices_wait(int(sys.argv[1]))
strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])

def slowly(number):
    time.sleep(6 * float(number))
    return np.float32(number)

def step():
    context = dl.distribute.get_replica_context()
    number = jax.numpy.float32(context.replica_id_in_sync_group)
    late = jax.pure_callback(slowly, jax.ShapeDtypeStruct((), np.float32), number)
    return context.all_reduce("SUM", late)

print(strategy.reduce("MEAN", strategy.run(step), axis=None))
"""


@pytest.mark.parametrize(("seconds", "given"), [("100", SOON), ("100", f"{SOON} {LIMIT}=1")])
def test_a_device_that_is_late_ends_the_process_after_the_limit_alone(
    seconds: str, given: str
) -> None:
    """A limit that is set already stands: the second process ends by XLA's own error."""
    done = subprocess.run(
        [sys.executable, "-c", SLOW, seconds],
        cwd=ROOT,
        env={**os.environ, "XLA_FLAGS": given},
        capture_output=True,
        text=True,
    )
    if LIMIT in given:
        assert done.returncode < 0 and re.search("[Tt]ermination timeout", done.stderr)
    else:
        assert (done.returncode, done.stdout) == (0, "1.0\n"), done.stderr[-3000:]


def test_after_jaxs_start_and_without_the_flag_all_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    jax.devices()
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    environment.let_cpu_devices_wait()
    monkeypatch.setattr(environment, "jax_has_started", lambda: False)
    with monkeypatch.context() as patched:
        patched.setattr(jax_internals, "xla_knows_flag", lambda flag: False)
        environment.let_cpu_devices_wait()
    assert os.environ["XLA_FLAGS"] == "--xla_dump_to=x"
    environment.let_cpu_devices_wait()
    assert os.environ["XLA_FLAGS"] == f"--xla_dump_to=x {LIMIT}=1800"
