"""The multi-worker tutorials in two processes, and in one that goes on where the two have ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LAUNCH = [sys.executable, "-m", "drumline_command", "launch", "--workers", "2"]


def environment() -> dict[str, str]:
    steering = ("DRUMLINE", "TF_CONFIG", "XLA_FLAGS")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(steering)}
    return kept | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What each process prints: the workers by their logs, and the one alone."""
    folder = tmp_path_factory.mktemp("tutorials")
    jobs = {}
    for name in ("multi_worker_with_keras", "multi_worker_custom_loop"):
        script = [sys.executable, str(EXAMPLES / f"{name}.py"), "--directory", str(folder / name)]
        command = [*LAUNCH, "--log-dir", str(folder / f"{name}-logs"), "--", *script]
        jobs[name] = subprocess.Popen(
            [*command, "--epochs", "2"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    outputs = {name: job.communicate(timeout=900)[0] for name, job in jobs.items()}
    for name, job in jobs.items():
        assert job.returncode == 0, outputs[name]
    alone = subprocess.run(
        [*script, "--epochs", "3"], env=environment(), capture_output=True, text=True, timeout=900
    )
    assert alone.returncode == 0, alone.stderr[-3000:]
    logs = {
        f"{name} {worker}": (folder / f"{name}-logs" / f"worker-{worker}.log").read_text()
        for name in jobs
        for worker in (0, 1)
    }
    written = {path.name for path in (folder / "multi_worker_with_keras").iterdir()}
    return {**logs, "alone": alone.stdout, "written": " ".join(sorted(written))}


def numbers(pattern: str, text: str) -> list[float]:
    found = re.findall(pattern, text)
    assert found, f"{pattern!r} is not in {text!r}"
    return [float(number) for number in found]


def test_keras_fit(printed: Mapping[str, str]) -> None:
    first, second = (printed[f"multi_worker_with_keras {worker}"] for worker in (0, 1))
    for line in ("trained", "validation accuracy", "without auto-shard", "restored", "backed up"):
        (pair,) = zip(
            *(re.findall(rf"^{line}: .*", text, re.M) for text in (first, second)), strict=True
        )
        assert pair[0] == pair[1]
    trained = numbers(r"(\d\.\d+)", re.findall("trained: .*", first)[0])
    restored = numbers(r"(\d\.\d+)", re.findall("restored: .*", first)[0])
    assert trained[1] < trained[0] and restored[0] < trained[1]
    for text in (first, second):
        assert numbers(r"loaded without the strategy: (\S+)", text)[0] < trained[1]
    assert printed["written"].split() == [
        "ckpt",
        "epoch-1.weights.h5",
        "epoch-2.weights.h5",
        "keras-model.keras",
        "workertemp_1",
    ]


def test_the_custom_loop(printed: Mapping[str, str]) -> None:
    epochs = [
        re.findall(r"Epoch: .*", printed[f"multi_worker_custom_loop {worker}"]) for worker in (0, 1)
    ]
    assert epochs[0] == epochs[1] and len(epochs[0]) == 2
    losses = numbers(r"train_loss: (\d\.\d+)", "".join(epochs[0]))
    assert losses[1] < losses[0] / 1.5


def test_one_process_goes_on_where_two_have_ended(printed: Mapping[str, str]) -> None:
    restored, last = printed["alone"].splitlines()
    assert restored == "Restored ckpt-2"
    assert last.startswith("Epoch: 2")
    before = numbers(r"train_loss: (\d\.\d+)", printed["multi_worker_custom_loop 0"])[-1]
    assert numbers(r"train_loss: (\d\.\d+)", last)[0] < before
