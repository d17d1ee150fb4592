"""Every example, planned as a user plans it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from drumline.plan.targets import cuda_plugin

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = {
    "custom_loop.py": "run of distributed_train_step",
    "gan.py": "run of a loop over a dataset",
    "multi_worker_custom_loop.py": "run of train_step.<locals>.step_fn",
    "multi_worker_with_keras.py": "fit of model 'sequential'",
    "third_party_strategy.py": "run of train.<locals>.step",
    "distribution_aware_library.py": "run of in_a_step.<locals>.step",
}
NOT_PLANNED = {
    "parameter_server_wide_and_deep.py": "has no step of all chips",
    "tf_cnn_benchmarks.py": "is a command with steps of every mode",
}


def test_all_examples_are_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*STEPS, *NOT_PLANNED}


@pytest.mark.thorough
@pytest.mark.parametrize("example", STEPS)
@pytest.mark.parametrize("target", ["cpu-4x2", "tpu-v5e-8", "tpu-v6e-8", "gpu-h100-8"])
def test_an_example_is_planned(example: str, target: str, tmp_path: Path) -> None:
    if target.startswith("tpu") and importlib.util.find_spec("libtpu") is None:
        pytest.skip("needs libtpu")
    if target.startswith("gpu") and cuda_plugin() is None:
        pytest.skip("needs JAX's plugin for CUDA")
    page = tmp_path / "plan.json"
    command = [
        sys.executable,
        "-m",
        "drumline_command",
        "plan",
        "--on",
        target,
        "--json",
        str(page),
    ]
    done = subprocess.run(
        [*command, str(EXAMPLES / example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(page.read_text())
    assert found["step"].startswith(STEPS[example]) and found["replicas"] == 8
    assert found["fits"] in (True, None)
