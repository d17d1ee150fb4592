"""Steps compiled for NVIDIA GPUs that are not there, where JAX's CUDA plugin is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from jax._src import xla_bridge

from drumline import config
from drumline.plan import jax_internals
from drumline.plan.gpu_topology import gpu_compiler_options, gpu_topology

PLUGINS = ("jax_cuda12_plugin", "nvidia.cuda_nvcc")


def installed() -> bool:
    try:
        return all(importlib.util.find_spec(name) is not None for name in PLUGINS)
    except ModuleNotFoundError:  # not even the package that it is in
        return False


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's own answer, put back afterwards."""
    monkeypatch.setattr(xla_bridge, "canonicalize_platform", jax_internals._ask_jax)


def test_gpus_are_nvidias_where_there_are_none(asked: None) -> None:
    with pytest.raises(RuntimeError, match="gpu"):
        xla_bridge.canonicalize_platform("gpu")
    jax_internals.take_gpus_for_nvidias()
    jax_internals.take_gpus_for_nvidias()
    assert xla_bridge.canonicalize_platform("gpu") == "cuda"
    assert xla_bridge.canonicalize_platform("cpu") == "cpu"
    assert xla_bridge.canonicalize_platform("tpu") == "tpu"
    noted = [change.what for change in config.report() if "canonicalize_platform" in change.what]
    assert noted == ["jax._src.xla_bridge.canonicalize_platform"]


def test_the_answer_of_gpus_that_are_there_counts(
    asked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax_internals, "_ask_jax", {"gpu": "rocm"}.__getitem__)
    jax_internals.take_gpus_for_nvidias()
    assert xla_bridge.canonicalize_platform("gpu") == "rocm"


@pytest.mark.parametrize(
    "name", ["h100", "h100:8", "h100:0x8", "h100:1x08x1", "H100:1x8", "z9:1x8"]
)
def test_names(name: str) -> None:
    with pytest.raises(ValueError, match=r"a kind \(a100, h100, h200\), machines and the GPUs"):
        gpu_topology(name)


@pytest.mark.skipif(installed(), reason="JAX's CUDA plugin is installed")
def test_without_the_plugin(asked: None) -> None:
    with pytest.raises(ValueError, match=r"No topology 'h100:1x8'.*Install jax-cuda12-plugin"):
        gpu_topology("h100:1x8")
    with pytest.raises(ValueError, match="nvidia-cuda-nvcc-cu12"):
        gpu_compiler_options()
    assert xla_bridge.canonicalize_platform is jax_internals._ask_jax


@pytest.fixture(scope="module")
def programs() -> dict[str, dict[str, Any]]:
    """What is said of programs for 8 H100s of one machine, and of A100s of two."""
    said = {}
    wanted = {"h100:1x8": ["mixed_precision", "counting"], "a100:2x2": ["custom_loop"]}
    for topology, names in wanted.items():
        done = subprocess.run(
            [sys.executable, "-m", "tests.compiled_for_tpus.programs", topology, *names],
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                each = json.loads(line)
                said[each["name"]] = each
    return said


@pytest.mark.skipif(not installed(), reason="needs JAX's CUDA plugin and the compiler of PTX")
def test_steps_compile_without_a_gpu(programs: dict[str, dict[str, Any]]) -> None:
    """One all-reduce of floats, the state is given away, and cuDNN's and cuBLAS's calls alone."""
    assert set(programs) == {"mixed_precision", "counting", "custom_loop"}
    for each in programs.values():
        ((kind, arrays),) = each["collectives"]
        assert kind == "all-reduce" and {dtype for dtype, _ in arrays} == {"f32"}
        sent = sum(size for _, size in arrays)
        assert each["parameters"] <= sent <= each["parameters"] + each["beside"]
        assert each["state"] <= each["aliased"] <= each["arguments"]
        assert all(name.startswith(("__cudnn$", "__cublas$")) for name in each["custom_calls"])
    assert "8 x NVIDIA H100" in programs["counting"]["refused"]
    assert "4 x NVIDIA A100" in programs["custom_loop"]["refused"]
    assert programs["mixed_precision"]["custom_calls"], "convolutions are cuDNN's"
