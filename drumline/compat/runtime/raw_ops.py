"""``tf.raw_ops``: operations that functions of the look-alike compute, by TensorFlow's arguments.

``symbols/raw_ops.txt`` has a line for each, of which `operation` makes the function. What is here
besides are conversions of arguments that the expressions there use.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from drumline.compat.symbols.raw_ops import operations
from drumline.compat.values.tensor import Tensor


@functools.cache
def operation(name: str) -> Callable[..., Any]:
    """The function of an operation.

    Raises:
        KeyError: the table has no such operation.
    """
    found = operations()[name]
    from drumline.compat import tf

    scope = {"tf": tf, **_HELPERS}
    names = ", ".join(each for each in found.signature.parameters if each != "name")
    computed = eval(f"lambda {names}: {found.expression}", scope)
    results = collections.namedtuple(name, found.results) if found.results else None
    usual = {key: each.default for key, each in found.signature.parameters.items()}

    def function(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise TypeError(
                f"{name} only takes keyword args (possible keys: {list(usual)}). Please pass these "
                "args as kwargs instead."
            )
        bound = found.signature.bind(**kwargs)
        bound.apply_defaults()
        given = bound.arguments
        for each in found.fixed:
            if not _is(given[each], usual[each]):
                raise NotImplementedError(
                    f"tf.raw_ops.{name} with {each}={given[each]!r:.60}: only its default "
                    f"{usual[each]!r} is there"
                )
        given.pop("name")
        made = computed(**{key: _as_tensor(key, value) for key, value in given.items()})
        return results(*made) if results is not None else made

    function.__name__ = function.__qualname__ = name
    function.__signature__ = found.signature  # type: ignore[attr-defined]
    function.__doc__ = f"``{found.expression}``; all arguments are given by name."
    return function


class _Functions:
    """Has the functions of the operations, each made when it is first asked for."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in operations():
            raise AttributeError(name)
        return operation(name)


functions = _Functions()


def _is(value: Any, usual: Any) -> bool:
    return bool(np.array_equal(value, usual)) if isinstance(usual, list) else bool(value == usual)


_OPERANDS = frozenset(
    ("x", "y", "a", "b", "input", "features", "gradients", "dy", "outputs", "labels", "logits", "t")
    + ("value", "minval", "superdiag", "maindiag", "subdiag", "out_backprop", "condition")
)
"""Arguments that expressions compute with: numbers and lists become tensors."""


def _as_tensor(name: str, value: Any) -> Any:
    if (
        name not in _OPERANDS
        or type(value) is Tensor
        or not isinstance(value, (int, float, np.ndarray, np.generic))
    ):
        return value
    from drumline.compat.ops.arrays import convert_to_tensor

    return convert_to_tensor(value)


def padding_of(padding: Any, explicit: Any) -> Any:
    """``"SAME"``, ``"VALID"``, or the numbers before and behind each dimension."""
    if padding != "EXPLICIT":
        return padding
    return np.reshape(explicit, (-1, 2)).tolist()


def space_of(dilations: Any, data_format: str) -> Any:
    """The dilations of both dimensions of space, of those of all four."""
    return list(dilations[2:] if data_format.startswith("NC") else dilations[1:3])


def batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any,
    variance: Any,
    epsilon: float,
    share: float,
    data_format: str,
    is_training: bool,
) -> tuple[Any, ...]:
    """Images normalized, the moments that move, and what the gradient's operation would take."""
    from drumline.compat import tf

    made = tf.compat.v1.nn.fused_batch_norm(
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon,
        data_format,
        is_training,
        exponential_avg_factor=share,
    )
    if not is_training:
        return (*made, mean, variance)
    axes = [0, 2, 3] if data_format == "NCHW" else [0, 1, 2]
    return (*made, *tf.nn.moments(tf.cast(x, "float32"), axes))


def counted(input: Any, size: Any, weights: Any, binary_output: bool) -> Any:
    """How often each number below a size occurs, in each row of a matrix."""
    from drumline.compat import tf

    shares = tf.convert_to_tensor(weights)
    none = shares.shape.num_elements() == 0 or binary_output
    return tf.math.bincount(
        input,
        None if none else shares,
        size,
        size,
        shares.dtype,
        axis=-1 if len(input.shape) > 1 else None,
        binary_output=binary_output,
    )


def bucket_of(input: Any, boundaries: Any) -> Any:
    """The number of each value's bucket, int32, of those between rising boundaries."""
    from drumline.compat import tf

    limits = tf.constant(boundaries, "float32")
    flat = tf.reshape(tf.cast(input, "float32"), [-1])
    return tf.reshape(tf.searchsorted(limits, flat, "right"), tf.shape(input))


def as_rows(condition: Any, x: Any) -> Any:
    """A condition of rows with as many dimensions as what it chooses from."""
    from drumline.compat import tf

    chosen, more = tf.convert_to_tensor(condition), len(x.shape) - len(condition.shape)
    if len(chosen.shape) != 1 or more <= 0:
        return chosen
    return tf.reshape(chosen, [-1, *[1] * more])


def of_sparse(tensor: Any) -> tuple[Any, Any, Any]:
    """The indices, values and shape of a sparse tensor."""
    return tensor.indices, tensor.values, tensor.dense_shape


def known(value: Any) -> list[Any]:
    """The numbers of a tensor."""
    found: list[Any] = np.asarray(value).tolist()
    return found


_HELPERS: dict[str, Any] = {
    each.__name__: each
    for each in (padding_of, space_of, batch_norm, counted, bucket_of, as_rows, of_sparse, known)
}
