"""Functions of JAX's on raw arrays: `compute`, and `compute_as_one`, which compiles them.

An operation of TensorFlow's is often several of JAX's: ``tf.nn.relu`` a function with a derivative
of its own around two more. Evaluated one by one, each costs its dispatch; under a gradient tape,
which records each, ten times that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np

from drumline.compat.values.convert import WIDE, is_jax, is_wide
from drumline.data.functions.native.symbol import Symbol
from drumline.training.jax_internals import is_evaluating, is_staging
from drumline.training.tape.compiled_operation import CompiledOperation
from drumline.training.tape.session import compiles_functions


def _takes_64_bits(arrays: tuple[Any, ...]) -> bool:
    """Whether JAX's functions of these arrays are to keep 64 bits."""
    if any(map(is_wide, arrays)):
        return True
    wide = [a.dtype for a in arrays if isinstance(a, np.ndarray) and a.dtype in WIDE]
    if not wide or is_staging():
        return False
    # Integers are indices beside arrays of JAX's; floats are what is computed with.
    return any(each.kind in "fc" for each in wide) or not any(map(is_jax, arrays))


def compute(jax_function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """A function of JAX's of raw arrays, 64-bit ones as they are."""
    if _takes_64_bits(arrays):
        with jax.enable_x64(True):
            return jax_function(*arrays, **options)
    return jax_function(*arrays, **options)


def compute_as_one(jax_function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
    """As `compute`; where it is evaluated at once, as one compiled operation.

    A gradient tape records that one. While a function is traced, its operations become part of the
    trace.

    Args:
        jax_function: the same object for each call, without loops of unknown length, which have no
            gradient as a whole.
        arrays: raw arrays, or Python's numbers.
        options: what the function needs to know while it is traced, such as axes: hashable, or
            nested lists. Arrays and floats among them count as arrays.
    """
    taped = compiles_functions()
    if not (taped or is_evaluating()) or any(isinstance(each, Symbol) for each in arrays):
        return compute(jax_function, *arrays, **options)
    names, chosen = [], []
    for name, option in options.items():
        if isinstance(option, (float, np.ndarray, np.generic, jax.Array)):
            names.append(name)
            arrays = (*arrays, option)
        else:
            chosen.append((name, type(option), _hashable(option)))
    compiled = _compiled(jax_function, tuple(names), tuple(chosen))
    if _takes_64_bits(arrays):
        with jax.enable_x64(True):
            return compiled(*arrays)
    return compiled(*arrays)


@functools.lru_cache(maxsize=4096)
def _compiled(
    function: Callable[..., Any],
    names: tuple[str, ...],
    options: tuple[tuple[str, type, Hashable], ...],
) -> CompiledOperation:
    chosen = {name: value for name, _, value in options}

    def of_arrays(*arrays: Any) -> Any:
        first = len(arrays) - len(names)
        named = dict(zip(names, arrays[first:], strict=True))
        return function(*arrays[:first], **named, **chosen)

    return CompiledOperation(of_arrays)


def _hashable(option: Any) -> Hashable:
    return tuple(map(_hashable, option)) if isinstance(option, (list, tuple)) else option
