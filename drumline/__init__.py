"""drumline: training scripts written for one device, run on many.

``import drumline as dl`` selects Keras's JAX backend, and imports neither Keras nor JAX: they, and
each package of drumline's, are imported when they are first used. What drumline does to Keras and
JAX is done when they are imported (``drumline/_startup.py``), and listed by
``dl.config.report()``. The packages are described in ``docs/inside/architecture.md``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from drumline import _startup

if TYPE_CHECKING:
    from drumline import (
        audio,
        config,
        cpu_kernels,
        data,
        datasets,
        distribute,
        errors,
        estimator,
        image,
        io,
        jobs,
        keras,
        nn,
        random,
        strings,
        summary,
        tpu,
        train,
        video,
    )
    from drumline.data import RaggedArray, RaggedTensorSpec, TensorSpec
    from drumline.distribute import (
        Variable,
        VariableAggregation,
        VariableSynchronization,
        function,
    )
    from drumline.profiler import profile_steps
    from drumline.training import GradientTape, UnconnectedGradients, value_and_grad

    __version__: str

__all__ = [
    "GradientTape",
    "RaggedArray",
    "RaggedTensorSpec",
    "TensorSpec",
    "UnconnectedGradients",
    "Variable",
    "VariableAggregation",
    "VariableSynchronization",
    "__version__",
    "audio",
    "config",
    "cpu_kernels",
    "data",
    "datasets",
    "distribute",
    "errors",
    "estimator",
    "function",
    "image",
    "io",
    "jobs",
    "keras",
    "nn",
    "profile_steps",
    "random",
    "strings",
    "summary",
    "tpu",
    "train",
    "value_and_grad",
    "video",
]

_FROM = {
    "drumline.data": ("RaggedArray", "RaggedTensorSpec", "TensorSpec"),
    "drumline.distribute": (
        "Variable",
        "VariableAggregation",
        "VariableSynchronization",
        "function",
    ),
    "drumline.profiler": ("profile_steps",),
    "drumline.training": ("GradientTape", "UnconnectedGradients", "value_and_grad"),
}
"""Where the names are that are no packages."""

_startup.start()


def __getattr__(name: str) -> object:
    """Import what is asked for, once."""
    value: object
    if name == "__version__":
        from importlib.metadata import version

        value = version("drumline")
    elif name in __all__:
        for module, names in _FROM.items():
            if name in names:
                value = getattr(importlib.import_module(module), name)
                break
        else:
            value = importlib.import_module(f"drumline.{name}")
    else:
        raise AttributeError(f"module 'drumline' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
