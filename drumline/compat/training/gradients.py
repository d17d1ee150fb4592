"""Functions with gradients of their own, and gradients that compute their function again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.values.boundary import map_structure, unwrap, wrap
from drumline.compat.values.convert import convert, raw
from drumline.compat.values.tensor import Tensor


def _is_differentiable(value: Any) -> bool:
    array = raw(value)
    if isinstance(array, (bool, int, str, bytes)) or not hasattr(array, "dtype"):
        return isinstance(array, float)
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that says its own gradient, as ``tf.custom_gradient``; a decorator.

    The function is computed again for the gradient, in which compiled functions share what is the
    same. So random numbers that it draws must come from a seed that is an argument.

    Args:
        f: gives its results, and a function from their gradients to those of the arguments.

    Raises:
        NotImplementedError: the gradient function takes `variables`: gradients go to arguments.
        ValueError: it gives another number of gradients.

    Example:
        >>> @custom_gradient
        ... def doubled_backwards(x):
        ...     return x, lambda upstream: 2 * upstream
    """

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        flat, structure = jax.tree.flatten(list(args), is_leaf=lambda leaf: not _nested(leaf))
        places = [i for i, leaf in enumerate(flat) if _is_differentiable(leaf)]

        def called(*arrays: Any) -> Any:
            given = [
                Tensor(convert(leaf)) if hasattr(raw(leaf), "dtype") else leaf for leaf in flat
            ]
            for place, array in zip(places, arrays, strict=True):
                given[place] = Tensor(array)
            results, gradient = f(*jax.tree.unflatten(structure, given), **kwargs)
            if "variables" in inspect.signature(gradient).parameters:
                raise NotImplementedError(
                    "tf.custom_gradient: the gradient function takes variables=. Pass the "
                    "variables to the function as arguments, and give their gradients in order."
                )
            return map_structure(lambda leaf: jnp.asarray(convert(leaf)), unwrap(results)), gradient

        @jax.custom_vjp
        def function(*arrays: Any) -> Any:
            return called(*arrays)[0]

        def forward(*arrays: Any) -> Any:
            return function(*arrays), arrays

        def backward(arrays: Any, upstream: Any) -> Any:
            _, gradient = called(*arrays)
            found = gradient(*jax.tree.leaves(wrap(upstream), is_leaf=_is_tensor))
            found = list(found) if isinstance(found, (list, tuple)) else [found]
            if len(found) != len(flat):
                raise ValueError(
                    f"custom_gradient function expected to return {len(flat)} gradients, but "
                    f"returned {len(found)} instead."
                )
            return tuple(_cotangent(found[i], a) for i, a in zip(places, arrays, strict=True))

        function.defvjp(forward, backward)
        return wrap(function(*(jnp.asarray(convert(flat[i])) for i in places)))

    return call


def _nested(leaf: Any) -> bool:
    return isinstance(leaf, (list, tuple, dict)) and not _numbers(leaf)


def _numbers(leaf: Any) -> bool:
    return isinstance(leaf, list) and all(isinstance(each, (int, float, list)) for each in leaf)


def _is_tensor(leaf: Any) -> bool:
    return type(leaf) is Tensor


def _cotangent(gradient: Any, like: Any) -> Any:
    if gradient is None:
        return jnp.zeros(like.shape, like.dtype)
    array = jnp.asarray(convert(gradient))
    return jnp.broadcast_to(array, like.shape).astype(like.dtype)


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose gradient is that of the identity, as ``tf.grad_pass_through``."""

    @custom_gradient
    def passed(*args: Any, **kwargs: Any) -> Any:
        def gradient(*upstream: Any) -> Any:
            return upstream[0] if len(upstream) == 1 else list(upstream)

        return f(*args, **kwargs), gradient

    return passed


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is computed again for its gradient, to need less memory; `jax.checkpoint`.

    Args:
        f: takes and gives tensors.
    """

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        @jax.checkpoint
        def of_arrays(arrays: Any) -> Any:
            given, named = wrap(arrays)
            return unwrap(f(*given, **named))

        def array(leaf: Any) -> Any:
            value = raw(leaf)
            return jnp.asarray(value) if isinstance(value, (np.ndarray, jax.Array)) else leaf

        return wrap(of_arrays(map_structure(array, (args, kwargs))))

    return call
