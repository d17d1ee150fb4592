"""Initial values, computed where they are kept."""

from __future__ import annotations

import jax
import numpy as np

from drumline.distribute.parameter_server.compiler.container import unsealed
from drumline.distribute.parameter_server.server import memory


def run_initializer(program: bytes) -> np.ndarray:
    """The value that a program of `programs.export_initializer` makes, writable.

    A large one is left where JAX computed it, so that it is in memory once.
    """
    exported = jax.export.deserialize(bytearray(unsealed(program)))
    with jax.default_device(jax.devices("cpu")[0]):
        (value,) = jax.tree.leaves(jax.jit(exported.call)())
    return memory.taken_over(value)
