"""The start of a job's keeper, and of the supervisor of a workspace.

``python -m drumline_command.job_process keeper FOLDER LOCK``, ``... supervisor HOME``. As the
command ``drumline`` they leave JAX and Keras alone, and they import no command line.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Be what the first argument says."""
    role, *arguments = sys.argv[1:]
    if role == "keeper":
        from drumline.jobs.engines.local.keeper import main as run
    else:
        from drumline.jobs.supervisor.loop import main as run
    run(arguments)


if __name__ == "__main__":
    main()
