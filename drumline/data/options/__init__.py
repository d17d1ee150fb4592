"""How a dataset runs; no option changes what it yields."""

from drumline.data.option_groups import (
    AutotuneOptions,
    DistributeOptions,
    OptimizationOptions,
    Options,
    ThreadingOptions,
)

__all__ = [
    "AutotuneOptions",
    "DistributeOptions",
    "OptimizationOptions",
    "Options",
    "ThreadingOptions",
]
