"""The start of a job's own processes, with its launcher, and of the supervisor of a workspace.

``python -m drumline_command.job_process keeper FOLDER LOCK``, ``... launch OPTIONS -- COMMAND``,
``... supervisor HOME``, ``... slurm-batch FOLDER``, ``... slurm-task FOLDER RUN RANK ADDRESS
SIGNALS``, ``... ssh-host``, ``... ray-job``. As the command ``drumline`` they leave JAX and Keras
alone, and they import no command line.
"""

from __future__ import annotations

import importlib
import sys

_PREPARATION = "drumline.jobs.sources.preparation"
_SLURM = "drumline.jobs.engines.slurm.in_job"
_ROLES = {
    "keeper": ("drumline.jobs.engines.local.keeper", "main"),
    "launch": ("drumline.jobs.engines.launching", "main"),
    "supervisor": ("drumline.jobs.supervisor.loop", "main"),
    "slurm-batch": (_SLURM, "batch"),
    "slurm-task": (_SLURM, "task"),
    "slurm-sampler": (_SLURM, "sampler"),
    "ssh-host": ("drumline.jobs.engines.ssh.on_host", "main"),
    "ray-job": ("drumline.jobs.engines.ray.in_job", "main"),
    "with-data": (_PREPARATION, "main"),
    "bring": (_PREPARATION, "bring"),
    "in-image": ("drumline.jobs.engines.images", "main"),
    "upload": (_PREPARATION, "upload"),
    "list-buckets": ("drumline.jobs.sources.available", "list_buckets"),
    "kubernetes-pod": ("drumline.jobs.engines.kubernetes.in_pod", "pod"),
    "kubernetes-code": ("drumline.jobs.engines.kubernetes.in_pod", "fetch_code"),
    "check-data": ("drumline.jobs.sources.reaching", "check"),
}


def main() -> None:
    """Be what the first argument says."""
    role, *arguments = sys.argv[1:]
    module, function = _ROLES[role]
    getattr(importlib.import_module(module), function)(arguments)


if __name__ == "__main__":
    main()
