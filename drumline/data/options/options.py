"""How a dataset runs; no option changes what it yields."""

from __future__ import annotations

import dataclasses
from typing import Any

from drumline.data.option_groups import Group, shown, switch
from drumline.data.options.autotune import AutotuneOptions
from drumline.data.options.distribution import DistributeOptions
from drumline.data.options.optimization import OptimizationOptions
from drumline.data.options.threads import ThreadingOptions
from drumline.data.runtime.statistics import Statistics


def _statistics(name: str, value: Any) -> Statistics | None:
    if value is not None and not isinstance(value, Statistics):
        wanted = "an instance of dl.data.experimental.Statistics"
        raise TypeError(f"{name} takes {wanted}, got {shown(value)}")
    return value


def _workers(name: str, value: Any) -> str:
    if value not in ("threads", "processes"):
        raise ValueError(f"{name} must be 'threads' or 'processes', got {value!r:.40}")
    return str(value)


@dataclasses.dataclass
class Options(Group):
    """Options of a dataset, given by ``Dataset.with_options``; the last given value holds.

    Attributes:
        autotune: which numbers may be chosen for ``AUTOTUNE``.
        deterministic: ``False`` has maps with ``num_parallel_calls`` read so far ahead (32 tasks
            for each worker) that one slow element seldom stops the others. Elements come in order
            whatever it says; in ``tf.data`` others may overtake the slow one.
        experimental_distribute: how a strategy of several processes divides the dataset.
        experimental_optimization: what the optimizer may do.
        experimental_slack: whether a ``prefetch`` at the end lets some time pass after its consumer
            took elements before it makes more, so as not to compete with the start of a step. The
            plan must end with ``prefetch``.
        experimental_statistics: counts what the dataset's stages do.
        python_workers: what calls Python functions of maps with ``num_parallel_calls``. By default
            ``"threads"``, which serve where the function waits, or computes in numpy or another
            library that lets go of Python's lock. ``"processes"`` are fresh interpreters, started
            when they are first needed and kept for later epochs; arrays travel in shared memory.
            The function is pickled, with all it refers to; what it changes stays in the worker.
            Not in tf.data.
        threading: how many threads work.
    """

    autotune: AutotuneOptions = dataclasses.field(default_factory=AutotuneOptions)
    deterministic: bool | None = None
    experimental_distribute: DistributeOptions = dataclasses.field(
        default_factory=DistributeOptions
    )
    experimental_optimization: OptimizationOptions = dataclasses.field(
        default_factory=OptimizationOptions
    )
    experimental_slack: bool | None = None
    experimental_statistics: Statistics | None = None
    python_workers: str = "threads"
    threading: ThreadingOptions = dataclasses.field(default_factory=ThreadingOptions)

    checks = {  # noqa: RUF012
        "deterministic": switch,
        "experimental_slack": switch,
        "experimental_statistics": _statistics,
        "python_workers": _workers,
    }
    refused = {  # noqa: RUF012
        "dataset_name": "name the statistics, as in experimental_statistics",
        "experimental_deterministic": "it is called deterministic",
        "experimental_external_state_policy": "functions with outside state run as Python, always",
        "experimental_service": "distribute takes its options itself",
        "experimental_symbolic_checkpoint": "iterators' states never hold elements",
        "experimental_threading": "it is called threading",
        "experimental_warm_start": "iterators start when they are first asked",
        "framework_type": "there is one framework",
    }
