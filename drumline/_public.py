"""Everything that ``import drumline`` offers, and what it changes in Keras and JAX."""

import importlib.metadata

from drumline import _backend

_backend.select_keras_backend()
_backend.keep_cpu_platform()

from drumline import (  # noqa: E402
    _large_buffers,
    audio,
    config,
    data,
    datasets,
    distribute,
    errors,
    image,
    io,
    keras,
    lowerings,
    nn,
    strings,
    train,
    video,
)
from drumline.data import RaggedArray, RaggedTensorSpec, TensorSpec, random  # noqa: E402
from drumline.distribute import (  # noqa: E402
    Variable,
    VariableAggregation,
    VariableSynchronization,
    function,
)
from drumline.training import (  # noqa: E402
    GradientTape,
    UnconnectedGradients,
    value_and_grad,
)

__version__ = importlib.metadata.version("drumline")

_large_buffers.keep()
lowerings.install()
keras.install()

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
    "data",
    "datasets",
    "distribute",
    "errors",
    "function",
    "image",
    "io",
    "keras",
    "lowerings",
    "nn",
    "random",
    "strings",
    "train",
    "value_and_grad",
    "video",
]
