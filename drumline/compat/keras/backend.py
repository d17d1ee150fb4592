"""``tf.keras.backend`` of Keras 2: functions of tensors and variables, in terms of this package's.

Keras 3 has them with TensorFlow only. Those of configuration (``epsilon``, ``floatx``, ...) are
Keras's own; what is neither here nor there is refused with a remedy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from drumline.compat.keras import boundaries
from drumline.compat.ops import arrays, elementwise
from drumline.compat.ops.linalg import matrices as linalg
from drumline.compat.ops.math import reductions
from drumline.compat.ops.nn import functions as nn
from drumline.compat.training.variable import TensorVariable
from drumline.compat.values.boundary import unwrap, wrap
from drumline.compat.values.convert import tensor
from drumline.compat.values.tensor import Tensor

boundaries.install()


def _of_ops(function: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of `keras.ops` of tensors or symbolic tensors."""
    return wrap(function(*unwrap(args), **unwrap(kwargs)))


def argmax(x: Any, axis: int = -1) -> Any:
    """Where the largest is."""
    return reductions.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Any:
    """Where the smallest is."""
    return reductions.argmin(x, axis)


def cast(x: Any, dtype: Any) -> Any:
    """``x`` in another type."""
    return elementwise.cast(x, dtype)


def cast_to_floatx(x: Any) -> Any:
    """``x`` in Keras's type of numbers; a numpy array if it is none of a tensor."""
    if type(x) is Tensor or isinstance(x, (keras.Variable, keras.KerasTensor)):
        return elementwise.cast(x, keras.backend.floatx())
    return np.asarray(x, keras.backend.floatx())


def clip(x: Any, min_value: Any, max_value: Any) -> Any:
    """``x``, not below one value and not above another, either of which may be None."""
    low = -np.inf if min_value is None else min_value
    high = np.inf if max_value is None else max_value
    return elementwise.minimum(elementwise.maximum(x, low), high)


def concatenate(tensors: Sequence[Any], axis: int = -1) -> Any:
    """The tensors joined along a dimension."""
    return arrays.concat(tensors, axis)


def flatten(x: Any) -> Any:
    """All elements in one dimension."""
    return arrays.reshape(x, [-1])


def batch_flatten(x: Any) -> Any:
    """All elements of each row in one dimension."""
    return _of_ops(keras.ops.reshape, x, (-1, int(np.prod([*x.shape][1:]))))


def permute_dimensions(x: Any, pattern: Any) -> Any:
    """``x`` with its dimensions in another order."""
    return arrays.transpose(x, pattern)


def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    """Each element so many times."""
    return arrays.repeat(x, rep, axis)


def repeat(x: Any, n: int) -> Any:
    """(rows, width) as (rows, n, width)."""
    return arrays.repeat(arrays.expand_dims(x, 1), n, 1)


def stack(x: Sequence[Any], axis: int = 0) -> Any:
    """The tensors joined along a new dimension."""
    return arrays.stack(x, axis)


def squeeze(x: Any, axis: Any) -> Any:
    """``x`` without a dimension of 1."""
    return arrays.squeeze(x, [axis] if isinstance(axis, int) else axis)


def expand_dims(x: Any, axis: int = -1) -> Any:
    """``x`` with a further dimension of 1."""
    return arrays.expand_dims(x, axis)


def dot(x: Any, y: Any) -> Any:
    """The product over the last dimension of ``x`` and the last but one of ``y``."""
    return _of_ops(keras.ops.dot, x, y)


def sqrt(x: Any) -> Any:
    """The root, 0 of negative numbers."""
    return elementwise.sqrt(elementwise.maximum(x, 0.0))


def l2_normalize(x: Any, axis: Any = None) -> Any:
    """``x`` by the root of the sum of its squares."""
    return linalg.l2_normalize(x, axis)


def hard_sigmoid(x: Any) -> Any:
    """``x / 6 + 0.5``, between 0 and 1."""
    return _of_ops(keras.ops.hard_sigmoid, x)


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Any:
    """Rectified numbers."""
    return _of_ops(
        keras.activations.relu, x, negative_slope=alpha, max_value=max_value, threshold=threshold
    )


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """The cross-entropy of each element."""
    return _of_ops(keras.ops.binary_crossentropy, target, output, from_logits=from_logits)


def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """The cross-entropy of one-hot targets."""
    return _of_ops(
        keras.ops.categorical_crossentropy, target, output, from_logits=from_logits, axis=axis
    )


def sparse_categorical_crossentropy(
    target: Any,
    output: Any,
    from_logits: bool = False,
    axis: int = -1,
    ignore_class: int | None = None,
) -> Any:
    """The cross-entropy of numbers of classes, 0 for a class to ignore."""
    if ignore_class is not None:
        ignored = elementwise.equal(target, elementwise.cast(ignore_class, dtype(target)))
        target = arrays.where(ignored, arrays.zeros_like(target), target)
        losses = sparse_categorical_crossentropy(target, output, from_logits, axis)
        return arrays.where(ignored, arrays.zeros_like(losses), losses)
    return _of_ops(
        keras.ops.sparse_categorical_crossentropy,
        target,
        output,
        from_logits=from_logits,
        axis=axis,
    )


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """One of two tensors, or of what two functions give."""
    then = then_expression() if callable(then_expression) else then_expression
    other = else_expression() if callable(else_expression) else else_expression
    return _of_ops(keras.ops.where, condition, then, other)


def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    """A variable."""
    kind = dtype or keras.backend.floatx()
    given = elementwise.cast(value, kind)
    return TensorVariable(given, dtype=kind, name=name, constraint=constraint)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Any:
    """A tensor."""
    made = tensor(value, dtype or keras.backend.floatx())
    return made if shape is None else arrays.broadcast_to(made, shape)


def get_value(x: Any) -> Any:
    """The value of a variable or a tensor, as numpy's."""
    return x.numpy() if hasattr(x, "numpy") else x


def set_value(x: Any, value: Any) -> None:
    """Give a variable its value."""
    x.assign(np.asarray(unwrap(value), keras.backend.standardize_dtype(x.dtype)))


def batch_get_value(tensors: Sequence[Any]) -> list[Any]:
    """The values of variables or tensors."""
    return [get_value(each) for each in tensors]


def batch_set_value(tuples: Sequence[tuple[Any, Any]]) -> None:
    """Give variables their values."""
    for each, value in tuples:
        set_value(each, value)


def update(x: Any, new_x: Any) -> Any:
    """Give a variable its value."""
    x.assign(new_x)
    return x


def update_add(x: Any, increment: Any) -> Any:
    """Add to a variable."""
    x.assign_add(increment)
    return x


def update_sub(x: Any, decrement: Any) -> Any:
    """Subtract from a variable."""
    x.assign_sub(decrement)
    return x


def count_params(x: Any) -> int:
    """How many elements there are."""
    return int(np.prod([*x.shape]))


def int_shape(x: Any) -> tuple[int | None, ...]:
    """The dimensions, None for those that are not known."""
    return tuple(x.shape)


def ndim(x: Any) -> int:
    """How many dimensions there are."""
    return len(x.shape)


def dtype(x: Any) -> str:
    """The name of the type."""
    name: str = keras.backend.standardize_dtype(getattr(x.dtype, "name", x.dtype))
    return name


def pow(x: Any, a: Any) -> Any:
    """``x`` to a power."""
    return elementwise.power(x, a)


def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """The products of each row's tensors, summed over one dimension of both.

    Args:
        x: ``(rows, ...)``, of at least two dimensions.
        y: ``(rows, ...)``, of at least two dimensions.
        axes: the dimension of `x` and that of `y`, or one number for both; by default the last of
            `x`, and the last but one of `y` (the last, where `y` has two).

    Returns:
        The remaining dimensions of `x`, then those of `y`; ``(rows, 1)`` if none remains.

    Raises:
        ValueError: `axes` names the dimension of the rows, or the tensors have less than two.
    """
    ranks = len(x.shape), len(y.shape)
    if ranks[0] < 2 or ranks[1] < 2:
        raise ValueError(f"batch_dot takes tensors of at least 2 dimensions, not {ranks}")
    if axes is None:
        axes = ranks[0] - 1, ranks[1] - (1 if ranks[1] == 2 else 2)
    first, second = (axes, axes) if isinstance(axes, int) else axes
    first, second = first % ranks[0], second % ranks[1]
    if not first or not second:
        raise ValueError("batch_dot cannot sum over dimension 0, which is that of the rows")
    letters = [chr(ord("a") + place) for place in range(ranks[0] + ranks[1])]
    of_x, of_y = letters[: ranks[0]], letters[ranks[0] :]
    of_y[0], of_y[second] = of_x[0], of_x[first]
    rest = [*of_x[:first], *of_x[first + 1 :], *of_y[1:second], *of_y[second + 1 :]]
    result = linalg.einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(rest)}", x, y)
    return expand_dims(result, 1) if len(rest) == 1 else result


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements are true, or not zero."""
    return reductions.reduce_all(elementwise.cast(x, "bool"), axis, keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether an element is true, or not zero."""
    return reductions.reduce_any(elementwise.cast(x, "bool"), axis, keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element."""
    return reductions.reduce_max(x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element."""
    return reductions.reduce_min(x, axis, keepdims)


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum of the elements."""
    return reductions.reduce_sum(x, axis, keepdims)


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The product of the elements."""
    return reductions.reduce_prod(x, axis, keepdims)


def _floats_of_bools(x: Any) -> Any:
    return elementwise.cast(x, keras.backend.floatx()) if dtype(x) == "bool" else x


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean of the elements; of bools, the share of true ones."""
    return reductions.reduce_mean(_floats_of_bools(x), axis, keepdims)


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The variance of the elements."""
    return reductions.reduce_variance(_floats_of_bools(x), axis, keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The standard deviation of the elements."""
    return reductions.reduce_std(_floats_of_bools(x), axis, keepdims)


def zeros_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Zeros in the shape of ``x``."""
    return arrays.zeros_like(x, dtype)


def ones_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Ones in the shape of ``x``."""
    return arrays.ones_like(x, dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = "int32") -> Any:
    """Numbers from ``start``, to but not with ``stop``; from 0 to ``start`` without one."""
    if stop is None:
        start, stop = 0, start
    return elementwise.cast(arrays.range_(start, stop, step), dtype)


def eye(size: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable that is the identity matrix."""
    return variable(linalg.eye(size), dtype, name)


def reshape(x: Any, shape: Any) -> Any:
    """``x`` in another shape."""
    return arrays.reshape(x, shape)


def tile(x: Any, n: Any) -> Any:
    """``x`` repeated, each dimension its number of times."""
    return arrays.tile(x, [n] if isinstance(n, int) else n)


def transpose(x: Any) -> Any:
    """``x`` with its dimensions in the opposite order."""
    return arrays.transpose(x)


def reverse(x: Any, axes: Any) -> Any:
    """``x`` with the elements of dimensions in the opposite order."""
    return arrays.reverse(x, [axes] if isinstance(axes, int) else axes)


def gather(reference: Any, indices: Any) -> Any:
    """The rows of given indices."""
    return arrays.gather(reference, indices)


def shape(x: Any) -> Any:
    """The dimensions, a tensor."""
    return arrays.shape(x)


def stop_gradient(variables: Any) -> Any:
    """Tensors through which no gradient goes; a list of them for a list."""
    if isinstance(variables, (list, tuple)):
        return [arrays.stop_gradient(each) for each in variables]
    return arrays.stop_gradient(variables)


def one_hot(indices: Any, num_classes: int) -> Any:
    """1 where the class is, else 0."""
    return arrays.one_hot(indices, num_classes)


def softplus(x: Any) -> Any:
    """``log(exp(x) + 1)``."""
    return elementwise.softplus(x)


def softsign(x: Any) -> Any:
    """``x / (abs(x) + 1)``."""
    return elementwise.softsign(x)


def dropout(x: Any, level: float, noise_shape: Any = None, seed: int | None = None) -> Any:
    """Elements set to zero at random, in the share ``level``, the others scaled up."""
    return nn.dropout(x, level, noise_shape, seed)


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Any:
    """The bias of each channel added.

    Args:
        x: ``(rows, ..., channels)``; ``(rows, channels, ...)`` for "channels_first".
        bias: ``(channels,)``, or of the shape of a row.
        data_format: by default as in ``keras.config.image_data_format()``.
    """
    first = (data_format or keras.config.image_data_format()) == "channels_first"
    if len(bias.shape) == 1 and first:
        bias = arrays.reshape(bias, [-1, *(1,) * (len(x.shape) - 2)])
    elif len(bias.shape) > 1 and first:
        bias = arrays.transpose(bias, [len(bias.shape) - 1, *range(len(bias.shape) - 1)])
    return elementwise.add(x, bias)
