"""Steps compiled for NVIDIA GPUs that are not there, where JAX's CUDA plugin is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jax._src import xla_bridge

from drumline import config
from drumline.plan import jax_internals
from drumline.plan.gpu_topology import gpu_compiler_options, gpu_topology
from drumline.plan.targets import cuda_plugin


def installed() -> bool:
    try:
        return bool(gpu_compiler_options())
    except ValueError:
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
    with pytest.raises(ValueError, match=r"No topology 'h100:1x8'.*Install jax-cuda13-plugin"):
        gpu_topology("h100:1x8")
    with pytest.raises(ValueError, match="nvidia-cuda-nvcc-cu12"):
        gpu_compiler_options()
    assert xla_bridge.canonicalize_platform is jax_internals._ask_jax


@pytest.mark.parametrize(
    ("plugin", "tools"),
    [("jax_cuda13_plugin", "cu13"), ("jax_cuda12_plugin", "cuda_nvcc")],
)
def test_either_plugin_compiles_with_its_tools(
    plugin: str, tools: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str) -> Any:
        """As where the packages of `tmp_path` are the only ones of CUDA's."""
        if not name.startswith(("nvidia", "jax_cuda")):
            return found(name)
        folder = tmp_path.joinpath(*name.split("."))
        return SimpleNamespace(submodule_search_locations=[folder]) if folder.is_dir() else None

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    assert cuda_plugin() is None
    (tmp_path / plugin).mkdir()
    assert getattr(cuda_plugin(), "module", None) == plugin
    folder = tmp_path / "nvidia" / tools
    with pytest.raises(ValueError, match="needs CUDA's compiler"):
        gpu_compiler_options()
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "ptxas").touch()
    with pytest.raises(ValueError, match="nvidia-nvvm"):  # libdevice
        gpu_compiler_options()
    (folder / "nvvm" / "libdevice").mkdir(parents=True)
    assert gpu_compiler_options()["xla_gpu_cuda_data_dir"] == str(folder)


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
