"""Initializers of ``tf.compat.v1``: Keras's, with TensorFlow 1's arguments and defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


def _initializer(name: str, kind: str, parameters: str, **defaults: Any) -> Callable[..., Any]:
    names = parameters.split()

    def make(*args: Any, **kwargs: Any) -> Any:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or kwargs.keys() - set(names):
            raise TypeError(f"{name}() takes {', '.join(names)}")
        dtype = given.pop("dtype", None)
        given.pop("verify_shape", None)
        return _Initializer(getattr(keras.initializers, kind)(**given), dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"As `keras.initializers.{kind}`, with the arguments {', '.join(names)}."
    return make


class _Initializer(keras.initializers.Initializer):
    """One of Keras's, with a dtype of its own, which that of a variable overrides."""

    def __init__(self, initializer: Any, dtype: Any):
        self._initializer = initializer
        self._dtype = dtype

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        chosen = self._dtype if dtype is None else dtype
        return self._initializer(shape, dtype=getattr(chosen, "name", chosen))

    def get_config(self) -> dict[str, Any]:
        """What makes another one."""
        config: dict[str, Any] = self._initializer.get_config()
        return config


zeros_initializer = _initializer("zeros_initializer", "Zeros", "dtype")
ones_initializer = _initializer("ones_initializer", "Ones", "dtype")
constant_initializer = _initializer(
    "constant_initializer", "Constant", "value dtype verify_shape", value=0
)
random_normal_initializer = _initializer(
    "random_normal_initializer", "RandomNormal", "mean stddev seed dtype", stddev=1.0
)
truncated_normal_initializer = _initializer(
    "truncated_normal_initializer", "TruncatedNormal", "mean stddev seed dtype", stddev=1.0
)
random_uniform_initializer = _initializer(
    "random_uniform_initializer",
    "RandomUniform",
    "minval maxval seed dtype",
    minval=0.0,
    maxval=1.0,
)
variance_scaling_initializer = _initializer(
    "variance_scaling_initializer", "VarianceScaling", "scale mode distribution seed dtype"
)
orthogonal_initializer = _initializer("orthogonal_initializer", "Orthogonal", "gain seed dtype")
glorot_uniform_initializer, glorot_normal_initializer = (
    _initializer(f"glorot_{kind}_initializer", f"Glorot{kind.title()}", "seed dtype")
    for kind in ("uniform", "normal")
)
he_normal, he_uniform, lecun_normal, lecun_uniform = (
    _initializer(f"{who}_{kind}", f"{who.title()}{kind.title()}", "seed")
    for who in ("he", "lecun")
    for kind in ("normal", "uniform")
)
identity = _initializer("identity", "Identity", "gain dtype")
