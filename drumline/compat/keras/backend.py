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
from drumline.compat.ops import arrays, elementwise, linalg, reductions
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
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """The cross-entropy of numbers of classes."""
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


def batch_dot(x: Any, y: Any) -> Any:
    """The product of each row's matrices."""
    return linalg.matmul(x, y)
