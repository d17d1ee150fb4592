"""Every program that tests of `MirroredStrategy` run on replicas compiles for a TPU.

The tests run once more, on CPU devices, and what differs of their programs is compiled by libtpu
(`tests.compiled_for_tpus.twins`). Judged is what holds for any program; test_programs.py knows what
is in its own. The list of programs is printed.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drumline.plan.planned_strategy import tpu_environment

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("libtpu") is None, reason="libtpu compiles for TPUs: make test-tpu"
    ),
    pytest.mark.thorough,
]
ROOT = Path(__file__).parents[2]
TESTS = [
    *(f"tests/distribute/{each}" for each in ("step", "functions", "input")),
    *(f"tests/distribute/test_{each}.py" for each in ("strategy", "variable", "values")),
    "tests/distribute/test_tpu_strategy.py",
    "tests/keras",
    "tests/snippets/test_tpu.py",
]
LEFT_OUT = [
    *(f"tests/keras/{each}" for each in ("layers", "parameter_server")),
    *(f"tests/keras/resuming/test_{each}.py" for each in ("odd_moments", "resume_matrix")),
    "tests/keras/callbacks/test_step_profiler.py",  # looks at the programs itself
    "tests/keras/resuming/test_two_processes.py",
    *(f"tests/keras/test_{each}.py" for each in ("interrupted_fit", "sidecar_evaluator")),
    *(f"tests/keras/test_{each}.py" for each in ("compilations", "central_storage")),
    "tests/keras/test_central_tables.py",
    "tests/keras/test_model_parallel.py",
]
"""What has no program of `MirroredStrategy`, or trains models that others train, to look at
something else, as how often they are traced.
"""
LIMIT_SECONDS = 2400
NOT_FOR_TPUS = {
    "test_update_with_values_that_differ": "a difference of the replicas calls back to Python",
}
"""Tests whose programs no compiler makes without the device, and why."""
XLAS_OWN = {
    "AllocateBuffer",
    "AssumeGatherIndicesInBound",
    "AsyncCollectiveDone",
    "AsyncCollectiveStart",
    "ConcatBitcast",
    "GatherScatterIndicesBitpacked",
    "X64Combine",
    "X64SplitHigh",
    "X64SplitLow",
    "ZeroCrop",
}
WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2}
WIDTHS |= {"f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}
ASKED = {"i1": 1, "i8": 1, "ui8": 1, "bf16": 2, "f16": 2, "i16": 2, "ui16": 2}
ASKED |= {"f32": 4, "i32": 4, "ui32": 4, "f64": 8, "i64": 8, "ui64": 8}
TILE_BYTES = 512
"""What numbers of 8 bits are filled up to before they travel, and cropped from (``ZeroCrop``)."""

Twin = dict[str, Any]


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> list[Twin]:
    """What is said of each program."""
    file = tmp_path_factory.mktemp("twins") / "twins.jsonl"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"]
    command += ["-m", "not thorough", "-p", "tests.compiled_for_tpus.twins", "--twins", str(file)]
    command += [*TESTS, *(f"--ignore={each}" for each in LEFT_OUT)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **tpu_environment(), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    found = [json.loads(line) for line in file.read_text().splitlines()]
    print(*map(_line, found), sep="\n")
    kinds = collections.Counter(each["kind"] for each in found)
    print(f"{len(found)} programs: {dict(kinds)}")
    return found


def _line(twin: Twin) -> str:
    """A program of the list: its test, what it is, and its collectives or why there is none."""
    said = twin.get("not_exported") or twin.get("not_compiled")
    if said is None:
        said = ", ".join(f"{kind} {arrays}" for kind, arrays in twin["collectives"]) or "none"
    return f"{twin['test']}: {twin['kind']}, {twin.get('replicas', '?')} replicas: {said}"


def compiled(twins: list[Twin]) -> list[Twin]:
    return [twin for twin in twins if "collectives" in twin]


def test_they_are_those_of_the_tests(twins: list[Twin]) -> None:
    """Steps of `fit`, `evaluate` and `predict`, of `run` and of `dl.function`: most of some 430."""
    kinds = collections.Counter(each["kind"].partition(" ")[0] for each in compiled(twins))
    for kind, least in {
        "train_step": 90,
        "partitioned_step": 30,
        "replicated_step": 120,
        "ReplicaProgram": 75,
        "UnevenProgram": 30,
        "FunctionProgram": 18,
    }.items():
        assert kinds[kind] >= least, kinds


def test_all_compile(twins: list[Twin]) -> None:
    missing = [
        _line(twin)
        for twin in twins
        if "collectives" not in twin and not any(test in twin["test"] for test in NOT_FOR_TPUS)
    ]
    assert missing == []


def test_nothing_foreign_is_called(twins: list[Twin]) -> None:
    foreign = [twin for twin in compiled(twins) if set(twin["custom_calls"]) - XLAS_OWN]
    assert [(twin["test"], twin["custom_calls"]) for twin in foreign] == []


def test_state_is_given_away(twins: list[Twin]) -> None:
    """What a step takes to write is replaced in place.

    But for a few numbers, as [2] of each replica, which libtpu lays out otherwise when they leave.
    """
    kept = [
        f"{_line(twin)}: {twin['aliased']} of {twin['given']} bytes"
        for twin in compiled(twins)
        if twin["aliased"] < twin["given"] and twin["given"] > 64
    ]
    assert kept == []


def test_replicas_exchange_what_they_ask_for(twins: list[Twin]) -> None:
    """No more sums than the step has, nor more bytes; compilers put sums together.

    But for numbers of 64 bits, which TPUs do not have: XLA carries them as pairs; and of 8 bits,
    which travel in whole tiles. A program without arguments is asked by the plugin to leave its
    results everywhere, as nothing else places it.
    """
    more = []
    for twin in compiled(twins):
        by_replica = twin["kind"] in ("train_step", "ReplicaProgram")
        if not by_replica or {kind for kind, _ in twin["asked"]} - {"all_reduce"}:
            continue
        if any("64" in text for _, texts in twin["asked"] for text in texts):
            continue
        if not twin["arguments"]:
            continue
        sums = [arrays for kind, arrays in twin["collectives"] if kind == "all-reduce"]
        sent = sum(WIDTHS[dtype] * size for arrays in sums for dtype, size in arrays)
        asked = sum(map(_asked_bytes, (text for _, texts in twin["asked"] for text in texts)))
        if len(sums) > len(twin["asked"]) or sent > asked:
            more.append(f"{_line(twin)}: {sent} of {asked} bytes, asked {twin['asked']}")
    assert more == []


def _asked_bytes(text: str) -> int:
    """The bytes of an array of type ``3x4xf32``."""
    *dims, dtype = text.split("x")
    size = math.prod(map(int, dims)) * ASKED[dtype]
    return -(-size // TILE_BYTES) * TILE_BYTES if ASKED[dtype] == 1 else size
