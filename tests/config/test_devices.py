"""Logical devices, each case in a process of its own: JAX fixes its devices once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drumline.config import set_logical_devices

ROOT = Path(__file__).parents[1]
BEGIN = "import jax; from drumline.config import *\n"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter without inherited device counts."""
    counts = ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")
    inherited = {k: v for k, v in os.environ.items() if k not in counts}
    env = {**inherited, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **environment}
    return subprocess.run(
        [sys.executable, "-c", BEGIN + code],
        check=False,
        env=env,
        capture_output=True,
        text=True,
    )


@pytest.mark.thorough
def test_gives_that_many_devices() -> None:
    done = run("set_logical_devices('CPU', 3); print(len(jax.devices()), list_logical_devices())")
    assert done.stdout.strip() == "3 ['cpu:0', 'cpu:1', 'cpu:2']", done.stderr


def test_may_be_changed_until_jax_starts_and_repeated_after() -> None:
    code = "set_logical_devices('cpu', 3); set_logical_devices('cpu', 2); jax.devices();"
    done = run(code + "set_logical_devices('cpu', 2); print(jax.device_count())")
    assert done.stdout.strip() == "2", done.stderr


def test_lists_by_kind_and_then_changing_comes_too_late() -> None:
    code = "print(list_logical_devices('CPU'), list_logical_devices('tpu'));"
    done = run(code + "set_logical_devices('cpu', 2)")
    assert done.stdout.strip() == "['cpu:0'] []", done.stderr
    assert done.returncode != 0
    assert "comes too late: JAX has started, with 1 CPU device(s)" in done.stderr


@pytest.mark.thorough
def test_the_count_jax_started_with_is_not_too_late() -> None:
    flags = "--xla_force_host_platform_device_count=2"
    done = run("jax.devices(); set_logical_devices('cpu', 2); print('fine')", XLA_FLAGS=flags)
    assert done.stdout.strip() == "fine", done.stderr


@pytest.mark.thorough
def test_wins_over_xla_flags_with_a_warning() -> None:
    flags = "--xla_force_host_platform_device_count=5"
    done = run("set_logical_devices('cpu', 2); print(jax.device_count())", XLA_FLAGS=flags)
    assert done.stdout.strip() == "2", done.stderr
    assert f"overrules {flags}" in done.stderr


@pytest.mark.thorough
def test_the_same_count_in_xla_flags_is_no_conflict() -> None:
    flags = "--xla_force_host_platform_device_count=2"
    done = run("set_logical_devices('cpu', 2); print(jax.device_count())", XLA_FLAGS=flags)
    assert done.stdout.strip() == "2", done.stderr
    assert "overrules" not in done.stderr


@pytest.mark.parametrize(
    ("kind", "n", "error", "message"),
    [
        ("gpu", 2, ValueError, "only the CPU can be divided"),
        (3, 2, TypeError, "kind must be a string"),
        ("cpu", 0, ValueError, "at least 1, got 0"),
        ("cpu", True, ValueError, "at least 1, got True"),
        ("cpu", 2.5, TypeError, "an integer, got 2.5"),
    ],
)
def test_bad_arguments(kind: object, n: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        set_logical_devices(kind, n)  # type: ignore[arg-type]
