"""A function's value and its gradients with respect to variables, in one call."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from drumline.training import jax_internals
from drumline.training.keras_internals import StatelessScope
from drumline.training.state_scope import StateScope, assign_values
from drumline.training.tape.gradient_tape import flatten, is_variable
from drumline.training.tape.session import read_unconverted


def value_and_grad(
    fn: Callable[..., Any], variables: Any, *, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of `fn` and its gradients by `variables`.

    As ``jax.value_and_grad``, with variables in place of arguments::

        step = dl.value_and_grad(loss_fn, model.trainable_variables)
        loss, gradients = step(images, labels)

    What `fn` writes to any variable, as metrics and BatchNormalization do, is kept. Within
    ``jax.jit`` the values are those of the enclosing ``keras.StatelessScope``. Outside of it `fn`
    runs operation by operation, functions compiled by ``jax.jit`` included.

    Args:
        fn: returns a floating scalar; with `has_aux` a pair of it and any pytree of arrays.
        variables: floating variables, in any nested structure.
        has_aux: whether `fn` returns a pair.

    Returns:
        A function of the arguments of `fn` that returns ``(value, gradients)``, or with `has_aux`
        ``((value, aux), gradients)``. The gradients have the structure of `variables`, and each
        the shape and dtype of its variable; they are zero where `fn` does not depend on it.

    Raises:
        TypeError: if `variables` holds anything but floating variables; when called, if `fn`
            does not return what it should.
        ValueError: when called, if a variable has no value yet, as in a layer not yet built.
    """
    leaves, structure = flatten(variables)
    for leaf in leaves:
        _check_variable(leaf)
    unique = list({id(variable): variable for variable in leaves}.values())

    @functools.wraps(fn)
    def value_and_gradients(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        written: list[Any] = []

        def substituted(values: Sequence[Any]) -> tuple[Any, Any]:
            with _scope(unique, values) as scope:
                result = fn(*args, **kwargs)
                written[:] = scope.written
                writes = [scope.value_of(variable) for variable in written]
            value, aux = result if has_aux else (result, None)
            return value, (aux, writes)

        differentiated = jax.value_and_grad(substituted, has_aux=True)
        (value, (aux, writes)), gradients = differentiated(list(map(_current_value, unique)))
        assign_values(written, writes)
        by_variable = {id(v): each for v, each in zip(unique, gradients, strict=True)}
        arranged = jax.tree.unflatten(structure, [by_variable[id(leaf)] for leaf in leaves])
        return ((value, aux) if has_aux else value), arranged

    return value_and_gradients


@contextlib.contextmanager
def _scope(variables: Sequence[Any], values: Sequence[Any]) -> Iterator[StateScope]:
    """A scope in which `variables` hold `values`; eagerly compiled functions run as Python.

    JAX would trace them again in every call, since a program it cached holds old values.
    """
    staged = jax_internals.is_staged(jax_internals.current_trace())
    scope = StateScope(variables, values) if staged else _EagerScope(variables, values)
    scope.collect_losses = True
    with contextlib.nullcontext() if staged else jax.disable_jit(), scope:
        yield scope


class _EagerScope(StateScope):
    """A scope without compiled programs of its own, in which single operations stay cached."""

    def __enter__(self) -> StateScope:
        return StatelessScope.__enter__(self)

    def __exit__(self, *exception: Any) -> None:
        StatelessScope.__exit__(self, *exception)


def _check_variable(leaf: Any) -> None:
    if not is_variable(leaf):
        raise TypeError(
            f"value_and_grad differentiates with respect to variables, but was given a "
            f"{type(leaf).__name__}; for arrays use jax.value_and_grad."
        )
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
        raise TypeError(
            f"The variable {leaf.path!r} is of dtype {leaf.dtype}, which has no gradient; leave it "
            "out of the variables of value_and_grad."
        )


def _current_value(variable: Any) -> Any:
    value = read_unconverted(variable)
    if value is None:
        raise ValueError(
            f"The variable {variable.path!r} has no value yet; build the layer or model that it "
            "belongs to before its gradients are asked for."
        )
    return value
