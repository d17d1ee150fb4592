"""What a function that runs as Python returns: found out by calling it with an element.

numpy and JAX differ in the types of results: ``uint8 / 255`` is float64 by numpy's rules, float32
by JAX's. A function is to have the same types whether it could be compiled or not. So where
numpy's result has a 64-bit type, the function is called again with JAX's arrays in place of
numpy's, and what is narrower then is narrowed. What has 64 bits then too was asked for by name,
comes from 64-bit columns, or is computed with arrays that the function got from numpy itself.
"""

from __future__ import annotations

import warnings
from typing import Any

from drumline.data.elements import precision
from drumline.data.elements.errors import at_element
from drumline.data.elements.rows import specs_of_leaves
from drumline.data.elements.spec import ElementSpec, TensorSpec, is_array_literal
from drumline.data.elements.structure import flatten
from drumline.data.functions.as_python import as_python
from drumline.data.functions.choice import kind_of
from drumline.data.functions.keras_state import keras_writes_held
from drumline.data.functions.purity import random_states_kept
from drumline.data.functions.user_function import UserFunction


def spec_from_example(
    user: UserFunction, source: ElementSpec, element: Any, static: bool
) -> ElementSpec:
    """The spec of what the function returns.

    Args:
        user: the function.
        source: the spec of its argument.
        element: its argument.
        static: whether the result's shape is that of all results.

    Raises:
        Exception: what the function raises, with a note that it was the first element.
    """
    with random_states_kept():
        try:
            with as_python(source.leaves):
                found = _spec_of(user(element), user, static)
        except Exception as error:
            at_element(error, 0, user.where)
            if isinstance(error, TypeError) and "JAX" in str(error):
                error.add_note(
                    "drumline: JAX has no strings; use numpy, dl.strings, or the element's own "
                    "operators ([], ==, !=)"
                )
            raise
        arrays = any(type(leaf) is TensorSpec for leaf in source.leaves)
        if not arrays or not any(leaf.dtype in precision.WIDE for leaf in found.leaves):
            return found
        return _narrowed(found, user, source, element)


def _spec_of(result: Any, user: UserFunction, static: bool) -> ElementSpec:
    """The spec of what a function returned for one element.

    Unless its argument has a ``static`` shape, one result says nothing of the others' dimensions:
    the last batch may be shorter.
    """
    leaves, structure = flatten(result, is_array_literal)
    if not leaves:
        raise ValueError(f"{user.where} returned nothing; it must return the new element")
    return specs_of_leaves(leaves, structure, static, f"what {user.where} returned")


def _narrowed(
    found: ElementSpec, user: UserFunction, source: ElementSpec, element: Any
) -> ElementSpec:
    """``found`` with the types that a compiled function would have, as `Choice` has them."""
    kinds = {kind_of(leaf.dtype) for leaf in source.leaves if leaf.dtype in precision.WIDE}
    narrow = _with_arrays_of_jax(user, source, element, wide=False)
    wide = narrow
    if kinds:
        wide = _with_arrays_of_jax(user, source, element, wide=True)
        if wide is None:
            # Some of JAX's functions, such as max, take 64-bit arrays in this mode alone.
            wide = _with_arrays_of_jax(user, source, element, wide=True, x64=True)
    if narrow is None or wide is None or not narrow.structure == wide.structure == found.structure:
        return found
    return found.with_leaves(
        [
            _narrower(mine, b if kind_of(b.dtype) in kinds else a)
            for mine, a, b in zip(found.leaves, narrow.leaves, wide.leaves, strict=True)
        ]
    )


def _with_arrays_of_jax(
    user: UserFunction, source: ElementSpec, element: Any, wide: bool, x64: bool = False
) -> ElementSpec | None:
    """What it returns for JAX's arrays; ``None`` if it is not for them.

    Args:
        user: the function.
        source: the spec of its argument.
        element: its argument.
        wide: whether 64-bit columns have 64 bits.
        x64: whether all else has, too.
    """
    try:
        with warnings.catch_warnings(), keras_writes_held(), precision.arrays_of_jax(x64):
            warnings.simplefilter("ignore")
            leaves = [_of_jax(leaf, wide) for leaf in source.structure.flatten(element)]
            return _spec_of(user(source.structure.unflatten(leaves)), user, static=True)
    except Exception:
        # It looks at its argument as numpy alone allows: numpy's rules hold.
        return None


def _of_jax(leaf: Any, wide: bool) -> Any:
    dtype = getattr(leaf, "dtype", None)
    if dtype in precision.WIDE and not wide:
        leaf = leaf.astype(precision.narrowed(dtype))
    return precision.given(leaf)


def _narrower(mine: TensorSpec, theirs: TensorSpec) -> TensorSpec:
    smaller = theirs.dtype.itemsize < mine.dtype.itemsize and theirs.dtype.kind == mine.dtype.kind
    return (
        TensorSpec(mine.shape, theirs.dtype) if mine.dtype in precision.WIDE and smaller else mine
    )
