"""How a dataset runs; no option changes what it yields."""

from drumline.data.options.autotune import AutotuneOptions
from drumline.data.options.distribution import DistributeOptions
from drumline.data.options.optimization import OptimizationOptions
from drumline.data.options.options import Options
from drumline.data.options.threads import ThreadingOptions

__all__ = [
    "AutotuneOptions",
    "DistributeOptions",
    "OptimizationOptions",
    "Options",
    "ThreadingOptions",
]
