"""The start of a process that runs Python functions of datasets.

It leaves JAX to functions that use it: loading it would take longer than most have to do.
"""

from __future__ import annotations


def main() -> None:
    """Serve the process that started this one."""
    from drumline.data.workers.processes.worker import main as serve

    serve()
