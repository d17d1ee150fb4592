"""Jobs: submitting, queueing, starting and watching training processes.

``dl.jobs.run("job.yaml")`` submits a job as ``drumline run job.yaml`` does. Nothing here imports
JAX or Keras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumline.jobs.api import JobFileError, JobHandle, find, latest, run

__all__ = ["JobFileError", "JobHandle", "find", "latest", "run"]


def __getattr__(name: str) -> object:
    # The launcher and the keepers of jobs import this package, and need none of it.
    if name not in __all__:
        raise AttributeError(f"module 'drumline.jobs' has no attribute {name!r}")
    from drumline.jobs import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
