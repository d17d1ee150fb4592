"""What every engine does for a start: the job's working copy of its code, and its environment."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from drumline.jobs.engines.engine import Start

# What a job's processes get of the environment it was submitted from; all else is its own `env`.
_PASSED = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV"}
_PASSED |= {"CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE"}
_PASSED |= {"DRUMLINE_DATA_DIR", "TFDS_DATA_DIR"}
_PASSED_BY_PREFIX = ("LC_", "JAX_", "XLA_", "KERAS_", "OMP_", "XDG_", "CUDA_", "NVIDIA_")


def passed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Those variables that a job's processes get of where it is submitted, or of its host."""
    return {
        name: value
        for name, value in environ.items()
        if name in _PASSED or name.startswith(_PASSED_BY_PREFIX)
    }


def working_copy(source: Path, job_folder: Path) -> Path:
    """The folder in which a job's processes run, the same for all of its starts.

    Args:
        source: the job's code, which is copied unless that was done.
        job_folder: that of all starts of the job.
    """
    work = job_folder / "work"
    if not work.exists():
        fresh = job_folder / "work.new"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(source, fresh, symlinks=True)
        fresh.rename(work)
    return work


def start_environment(start: Start, given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a start's launcher, but for its secrets.

    Args:
        start: what is started.
        given: those of the machine, which the job's own replace.
    """
    return {
        **given,
        **start.job.env,
        "DRUMLINE_JOB": str(start.number),
        "DRUMLINE_ATTEMPT": str(start.attempt),
    }
