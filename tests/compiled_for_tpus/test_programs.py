"""What the programs of `fit`, `evaluate`, `predict` and `run` are on TPUs: compiled, never run.

Compiling needs no TPU, but the package libtpu (``make test-tpu``) and an environment that is set
before JAX starts, so a process of its own compiles.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from drumline.plan.targets import tpu_environment
from tests.compiled_for_tpus import programs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="libtpu compiles for TPUs: make test-tpu"
)
TOPOLOGY = "v5e:2x4"
_LIMIT_SECONDS = 1800


@pytest.fixture(scope="module")
def facts() -> dict[str, dict[str, Any]]:
    """What is said of each program."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.compiled_for_tpus.programs", TOPOLOGY, *programs.PROGRAMS],
        env={**os.environ, **tpu_environment(), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each["name"]: each for each in said}


@pytest.fixture(params=sorted(programs.PROGRAMS))
def program(request: pytest.FixtureRequest, facts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = facts[request.param]
    return found


def sent(program: dict[str, Any]) -> int:
    """The bytes that the program's collectives reduce."""
    width = {"f32": 4, "bf16": 2, "f16": 2, "s32": 4, "u32": 4}
    return sum(
        width[dtype] * size for _, arrays in program["collectives"] for dtype, size in arrays
    )


def test_all_gradients_are_reduced_at_once(program: dict[str, Any]) -> None:
    """One all-reduce, of the gradients, the loss, and what of metrics and averages is summed.

    Integers, as seeds and counts, cost no collective of their own.
    """
    kinds = [kind for kind, _ in program["collectives"]]
    types = {dtype for _, arrays in program["collectives"] for dtype, _ in arrays}
    assert set(kinds) <= {"all-reduce"} and types <= {"f32"}
    assert bool(program["most_collectives"]) <= len(kinds) <= program["most_collectives"]
    assert 0 <= sent(program) - 4 * program["parameters"] <= 4 * program["beside"]


def test_nothing_foreign_is_called(program: dict[str, Any]) -> None:
    """No kernel of drumline's for CPUs, no callback: what XLA itself calls on TPUs alone."""
    xlas_own = {"AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast"}
    assert set(program["custom_calls"]) <= xlas_own


def test_the_state_is_given_away(program: dict[str, Any]) -> None:
    """What a step writes takes the memory of what it replaces; batches and seeds stay."""
    assert program["aliased"] >= program["state"]
    assert program["aliased"] <= program["arguments"]


def test_low_precision_is_computed_in_low_precision(facts: dict[str, dict[str, Any]]) -> None:
    """Matrix products are convolutions on TPUs; those of the last layers alone are float32."""
    assert facts["mixed_precision"]["multiplied"]["bf16"] >= 6
    assert facts["mixed_precision"]["multiplied"].get("f32", 0) <= 1
    assert facts["attention"]["multiplied"]["bf16"] >= 18
    assert facts["attention"]["multiplied"].get("f32", 0) <= 3
    assert facts["custom_loop"]["multiplied"].get("f32", 0) > 0


def test_a_strategy_of_planned_devices_runs_nothing(facts: dict[str, dict[str, Any]]) -> None:
    refused = facts["custom_loop"]["refused"]
    assert "devices that are not there" in refused
    assert facts["custom_loop"]["described"].startswith("PlannedStrategy: 8 replica(s) in sync")
