"""What tests share and must leave as it was: settings of the process that other tests rely on."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from collections.abc import Iterator
from typing import Any

import jax
import keras
import numpy as np

import drumline as dl

_LOGGERS = ("", "drumline", "jax")
_VARIABLES = ("DRUMLINE_", "JAX_", "KERAS_", "PYTHON", "TF_CONFIG", "XLA_")
"""What names of environment variables begin with; libraries set others as they are imported."""


def state() -> dict[str, Any]:
    """The settings, by what they are called."""
    loggers = {f"the level of the logger {name!r}": _level(name) for name in _LOGGERS}
    options = {f"jax.config.{name}": value for name, value in jax.config.values.items()}
    variables = {
        f"the environment variable {name}": value
        for name, value in os.environ.items()
        if name.startswith(_VARIABLES)
    }
    return {
        **loggers,
        **options,
        **variables,
        "the working directory": os.getcwd(),
        "numpy.geterr()": np.geterr(),
        "gc.isenabled()": gc.isenabled(),
        "keras.config.floatx()": keras.config.floatx(),
        "keras.config.epsilon()": keras.config.epsilon(),
        "keras.config.image_data_format()": keras.config.image_data_format(),
        "keras.config.dtype_policy()": keras.config.dtype_policy().name,
        "dl.config.functions_run_eagerly()": dl.config.functions_run_eagerly(),
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was, a line each."""
    absent = "absent"
    return [
        f"{name} was {before.get(name, absent)!r} and is {after.get(name, absent)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name, absent) != after.get(name, absent)
    ]


@contextlib.contextmanager
def compiling_quickly() -> Iterator[None]:
    """A block in which no time is spent on making programs fast.

    JAX keeps programs in memory by what they compute, and not by how they were compiled: those of
    the block would give other tests other bits.
    """
    jax.config.update("jax_disable_most_optimizations", True)
    jax.clear_caches()
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
        jax.clear_caches()


def _level(name: str) -> int:
    return logging.getLogger(name).level
