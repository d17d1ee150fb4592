"""Traces of JAX's profiler, beside JAX's own reader, in a process that it may abort."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from drumline.profiler.device_trace import communication_share
from drumline.profiler.trace_file import read_trace

THEIRS = """
import json, sys
from jax.profiler import ProfileData
found = []
for plane in ProfileData.from_file(sys.argv[1]).planes:
    for line in plane.lines:
        for event in line.events:
            of_event = {name: str(value) for name, value in event.stats if value is not None}
            found.append([event.name, round(event.duration_ns), sorted(of_event.items())])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a program that sums over two devices, and one that does not."""
    folder = tmp_path_factory.mktemp("trace")
    square = jax.jit(lambda x: x @ x)
    mesh = jax.sharding.Mesh(jax.devices()[:2], ("i",))
    spec = jax.sharding.PartitionSpec("i")
    total = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=spec, out_specs=spec)
    )
    matrix, rows = jnp.ones((256, 256)), jnp.ones((2, 1000))
    jax.block_until_ready((square(matrix), total(rows)))
    with jax.profiler.trace(str(folder)), jax.profiler.StepTraceAnnotation("train", step_num=7):
        jax.block_until_ready((square(matrix), total(rows)))
    (file,) = folder.rglob("*.xplane.pb")
    return file


def test_events_are_those_that_jax_reads(trace: Path) -> None:
    theirs = subprocess.run(
        [sys.executable, "-c", THEIRS, str(trace)], capture_output=True, text=True
    )
    if theirs.returncode < 0:
        pytest.skip(f"ProfileData of jax {jax.__version__} aborts")
    assert theirs.returncode == 0, theirs.stderr

    def told(name: str, nanoseconds: int, statistics: Any) -> str:
        return json.dumps([name, nanoseconds, [list(each) for each in statistics]])

    ours = [
        told(
            event.name,
            round(event.duration * 1e9),
            sorted(
                (name, str(value)) for name, value in event.statistics.items() if value is not None
            ),
        )
        for event in read_trace(trace)
    ]
    assert Counter(ours) == Counter(told(*each) for each in json.loads(theirs.stdout))


def test_operations_and_steps_are_found(trace: Path) -> None:
    events = list(read_trace(trace))
    (step,) = [event for event in events if event.name == "train"]
    assert step.statistics["step_num"] == 7 and step.duration > 0
    operations = [event for event in events if "hlo_op" in event.statistics]
    assert operations == list(read_trace(trace, having="hlo_op"))
    assert len(operations) < len(events)
    share = communication_share(str(trace.parent))
    assert share is not None and 0 < share < 1


def test_a_trace_that_is_cut_off_is_named(trace: Path, tmp_path: Path) -> None:
    content = trace.read_bytes()
    for length in (1, len(content) // 2, len(content) - 1):
        cut = tmp_path / "cut.xplane.pb"
        cut.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"cut\.xplane\.pb: .* was cut off"):
            list(read_trace(cut))
