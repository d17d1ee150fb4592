"""64-bit numbers on their way to JAX, which has 32 bits by default.

An integer that does not fit would become another number without a word, so that it is refused.
Who wants 64 bits says so, and then JAX's 64-bit types are on (`keeping_64_bits`). Floats are
rounded to 32 bits, as JAX does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data.functions.modes import WIDE, narrowed


def is_wide(dtype: Any) -> bool:
    """Whether JAX by default has no such numbers, of 64 bits."""
    return isinstance(dtype, np.dtype) and dtype in WIDE


def require_fits(array: Any, what: str, remedy: str, to: Any = None) -> None:
    """Refuse integers that are other numbers in the type that they become.

    It costs a look at the smallest and the largest (0.2 ms for a million on a CPU of 2023), and
    nothing for arrays of JAX's and for other types than 64-bit integers.

    Args:
        array: any value.
        what: what it is, for the message.
        remedy: what to do, for the message: a clause that ends the sentence.
        to: the type; by default what JAX makes of the array's.

    Raises:
        OverflowError: if one does not fit.
    """
    if not isinstance(array, (np.ndarray, np.generic)) or array.dtype not in WIDE:
        return
    if array.dtype.kind not in "iu" or not array.size:
        return
    target = np.dtype(jax.dtypes.canonicalize_dtype(array.dtype) if to is None else to)
    if target == array.dtype or target.kind not in "iu":
        return
    limits = np.iinfo(target)
    for value in (int(array.min()), int(array.max())):
        if not limits.min <= value <= limits.max:
            became = np.asarray(value, array.dtype).astype(target)
            raise OverflowError(
                f"{what} holds the {array.dtype} number {value}, which does not fit into {target}, "
                f"what JAX makes of it by default: it would become {became}. To keep 64 bits, "
                f"{remedy}; or make it smaller, as with `x % 2**31`."
            )


def require_all_fit(tree: Any, what: str, remedy: str) -> None:
    """`require_fits` for each leaf of a pytree."""
    for leaf in jax.tree.leaves(tree):
        require_fits(leaf, what, remedy)


@contextlib.contextmanager
def keeping_64_bits(keep: bool = True) -> Iterator[None]:
    """Within the block JAX has its 64-bit types, if `keep`.

    To allow them where they are asked for by name is not enough: numbers beside them, as in
    ``x + np.int64(2**40)``, would be narrowed.
    """
    with jax.enable_x64(True) if keep else contextlib.nullcontext():
        yield


def bits_of_this_thread() -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Makes contexts in which another thread has 64-bit types where this one has them now.

    JAX's settings by context managers hold for one thread.
    """
    x64 = bool(jax.config.read("jax_enable_x64"))
    return lambda: jax.enable_x64(x64)


def in_64_bits(tree: Any) -> Any:
    """A pytree with numpy's arrays of 64-bit numbers as arrays of JAX's that keep them."""

    def kept(leaf: Any) -> Any:
        if not isinstance(leaf, (np.ndarray, np.generic)) or leaf.dtype not in WIDE:
            return leaf
        return jnp.asarray(leaf)

    with keeping_64_bits():
        return jax.tree.map(kept, tree)


def in_32_bits(array: Any) -> Any:
    """An array of numpy's in the types that JAX has by default, also where it has others now."""
    if not isinstance(array, (np.ndarray, np.generic)) or array.dtype not in WIDE:
        return array
    return np.asarray(array).astype(narrowed(array.dtype))


def any_wide(arrays: Iterable[Any]) -> bool:
    """Whether one of JAX's arrays, concrete or traced, has 64-bit numbers."""
    return any(isinstance(array, jax.Array) and is_wide(array.dtype) for array in arrays)
