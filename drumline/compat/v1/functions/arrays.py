"""Arrays of ``tf.compat.v1``: functions whose arguments TensorFlow 2 named or ordered otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline.compat.composite.sparse import IndexedSlices
from drumline.compat.ops import arrays, elementwise
from drumline.compat.symbols import table
from drumline.compat.v1.functions.former import KEPT_DIMENSIONS, former
from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor

_REDUCTION = "input_tensor axis keepdims name reduction_indices keep_dims"


def _reduction(kind: str) -> Callable[..., Any]:
    return former(f"reduce_{kind}", f"reduce_{kind}", _REDUCTION, KEPT_DIMENSIONS)


reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_mean, reduce_all, reduce_any = (
    _reduction(kind) for kind in ("sum", "prod", "max", "min", "mean", "all", "any")
)
reduce_logsumexp = _reduction("logsumexp")
count_nonzero = former(
    "count_nonzero",
    "math.count_nonzero",
    "input_tensor axis keepdims dtype name reduction_indices keep_dims input",
    {**KEPT_DIMENSIONS, "input_tensor": "input"},
)
argmax, argmin = (
    former(kind, kind, "input axis name dimension output_type", {"dimension": "axis"})
    for kind in ("argmax", "argmin")
)
arg_max, arg_min = (
    former(f"arg_{kind}", f"arg{kind}", "input dimension output_type name", {"dimension": "axis"})
    for kind in ("max", "min")
)
expand_dims = former("expand_dims", "expand_dims", "input axis name dim", {"dim": "axis"})
squeeze = former("squeeze", "squeeze", "input axis name squeeze_dims", {"squeeze_dims": "axis"})
size = former("size", "size", "input name out_type", {"out_type": "out_type"})
shape = former("shape", "shape", "input name out_type", {"out_type": "out_type"})
zeros_like, ones_like = (
    former(kind, kind, "tensor dtype name optimize", {"tensor": "input"}, "name optimize")
    for kind in ("zeros_like", "ones_like")
)
gather = former(
    "gather",
    "gather",
    "params indices validate_indices name axis batch_dims",
    {},
    "name validate_indices",
)
gather_nd = former("gather_nd", "gather_nd", "params indices name batch_dims", {})
batch_gather = former("batch_gather", "gather", "params indices name", {})
boolean_mask = former("boolean_mask", "boolean_mask", "tensor mask name axis", {})
pad = former("pad", "pad", "tensor paddings mode name constant_values", {})
transpose = former("transpose", "transpose", "a perm name conjugate", {})
norm = former("norm", "norm", "tensor ord axis keepdims name keep_dims", KEPT_DIMENSIONS)
floor_div = former("floor_div", "math.floordiv", "x y name", {})
scalar_mul = former("scalar_mul", "scalar_mul", "scalar x name", {})
convert_to_tensor = former(
    "convert_to_tensor",
    "convert_to_tensor",
    "value dtype name preferred_dtype dtype_hint",
    {"preferred_dtype": "dtype_hint"},
)


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    """Elements of two tensors of one shape, or rows of them where the condition is a vector.

    Raises:
        ValueError: the shapes of ``x`` and ``y`` differ, or the condition's fits neither them nor
            their rows.
    """
    if x is None or y is None:
        return arrays.where(condition, x, y)
    chosen, first, second = convert(condition), convert(x), convert(y)
    sizes = tuple(first.shape)
    if sizes != tuple(second.shape):
        raise ValueError(f"where: x and y have different shapes {sizes}, {tuple(second.shape)}")
    if tuple(chosen.shape) not in (sizes, sizes[:1]):
        raise ValueError(f"where: a condition of shape {tuple(chosen.shape)} for {sizes}")
    if len(chosen.shape) < len(sizes):
        chosen = chosen.reshape(*sizes[:1], *(1,) * (len(sizes) - 1))
    return arrays.where(Tensor(chosen), x, y)


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: Any = None, verify_shape: bool = False
) -> Any:
    """A tensor of a value; with ``verify_shape`` it must have the shape already.

    Raises:
        TypeError: it has another shape.
    """
    found = arrays.constant(value, dtype)
    if verify_shape and shape is not None and found.shape != tuple(static(shape)):
        raise TypeError(f"Expected Tensor's shape: {tuple(static(shape))}, got {found.shape}.")
    return found if shape is None else arrays.constant(value, dtype, shape)


def div(x: Any, y: Any, name: Any = None) -> Any:
    """Division as in Python 2: integers are divided without a rest, downwards."""
    kind = dtypes.of_array(convert(x).dtype)
    whole = kind.is_integer and dtypes.of_array(convert(y).dtype).is_integer
    return elementwise.floordiv(x, y) if whole else elementwise.divide(x, y)


def _casts(dtype: str) -> Callable[..., Any]:
    def to(x: Any, name: Any = None) -> Any:
        return elementwise.cast(x, dtype)

    to.__name__ = to.__qualname__ = f"to_{dtype}"
    to.__doc__ = f"The tensor as {dtype}."
    return to


to_float, to_double, to_int32, to_int64, to_bfloat16, to_complex64, to_complex128 = map(
    _casts, ("float32", "float64", "int32", "int64", "bfloat16", "complex64", "complex128")
)


def assign(
    ref: Any, value: Any, validate_shape: Any = None, use_locking: Any = None, name: Any = None
) -> Any:
    """Give a variable another value."""
    return ref.assign(value)


def assign_add(ref: Any, value: Any, use_locking: Any = None, name: Any = None) -> Any:
    """Add to a variable."""
    return ref.assign_add(value)


def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: Any = None) -> Any:
    """Subtract from a variable."""
    return ref.assign_sub(value)


reverse_sequence = former(
    "reverse_sequence",
    "reverse_sequence",
    "input seq_lengths seq_axis batch_axis name seq_dim batch_dim",
    {"seq_dim": "seq_axis", "batch_dim": "batch_axis"},
)
bincount = former("bincount", "math.bincount", "arr weights minlength maxlength dtype", {})
confusion_matrix = former(
    "confusion_matrix",
    "math.confusion_matrix",
    "labels predictions num_classes dtype name weights",
    {},
)
poisson = former("poisson", "random.poisson", "lam shape dtype seed name", {})
multinomial = former(
    "multinomial",
    "random.categorical",
    "logits num_samples seed name output_dtype",
    {"output_dtype": "dtype"},
)
tuple_ = former("tuple", "tuple", "tensors name control_inputs", {}, "name control_inputs")
verify_tensor_all_finite = former(
    "verify_tensor_all_finite",
    "debugging.assert_all_finite",
    "t msg name x message",
    {"t": "x", "msg": "message"},
)


def _block(block_size: Any, block_shape: Any) -> Any:
    if (block_size is None) == (block_shape is None):
        raise ValueError("exactly one of block_size and block_shape must be given")
    return block_shape if block_size is None else [static(block_size)] * 2


def space_to_batch(
    input: Any, paddings: Any, block_size: Any = None, name: Any = None, block_shape: Any = None
) -> Any:
    """Blocks of space as batches: of images, for a ``block_size`` that is a number.

    Raises:
        ValueError: with both sizes, or none.
    """
    target: Any = table.find("space_to_batch")
    return target.load()(input, _block(block_size, block_shape), paddings)


def batch_to_space(
    input: Any, crops: Any, block_size: Any = None, name: Any = None, block_shape: Any = None
) -> Any:
    """The inverse of `space_to_batch`.

    Raises:
        ValueError: with both sizes, or none.
    """
    target: Any = table.find("batch_to_space")
    return target.load()(input, _block(block_size, block_shape), crops)


def clip_by_average_norm(t: Any, clip_norm: Any, name: Any = None) -> Any:
    """A tensor scaled down to a norm of ``clip_norm`` an element, if it has more."""
    array = jnp.asarray(convert(t))
    norm = jnp.sqrt(jnp.sum(array * array)) / array.size
    return Tensor(array * jnp.minimum(1.0, convert(clip_norm) / norm).astype(array.dtype))


def setdiff1d(
    x: Any, y: Any, index_dtype: Any = dtypes.int32, name: Any = None
) -> tuple[Tensor, Tensor]:
    """The elements of a vector that another lacks, in their order, and their places."""
    first, second = np.asarray(convert(x)), np.asarray(convert(y))
    (places,) = np.nonzero(~np.isin(first, second))
    return Tensor(first[places]), Tensor(places.astype(dtypes.as_dtype(index_dtype).dtype))


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: Any = None,
) -> Any:
    """A tensor of ``default_value`` with ``sparse_values`` at some places.

    Args:
        sparse_indices: a scalar, ``(n,)`` for a vector, or ``(n, rank)``.
        output_shape: ``(rank,)``.
        sparse_values: a scalar, or ``(n,)``.
        default_value: of the dtype of the values.
        validate_indices: whether places must be sorted and differ.
        name: no effect.

    Raises:
        InvalidArgumentError: places are repeated, out of order or out of bounds.
    """
    shape = tuple(int(size) for size in np.asarray(convert(output_shape)))
    places = np.asarray(convert(sparse_indices)).reshape(-1, len(shape))
    values = np.broadcast_to(np.asarray(convert(sparse_values)), len(places))
    if places.size and not (places >= 0).all() & (places < shape).all():
        raise InvalidArgumentError(f"sparse_to_dense: an index is out of bounds of {shape}")
    flat = np.ravel_multi_index(tuple(places.T), shape) if len(places) else np.zeros(0, int)
    if validate_indices and (np.diff(flat) <= 0).any():
        raise InvalidArgumentError("sparse_to_dense: indices are repeated or out of order")
    found = np.full(shape, np.asarray(convert(default_value)).astype(values.dtype))
    found.reshape(-1)[flat] = values
    return Tensor(found)


def _scattered(kind: str) -> Callable[..., Any]:
    def call(
        ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: Any = None
    ) -> Any:
        places, values = convert(indices), convert(updates)
        before = convert(ref.value())
        shape = places.shape + before.shape[1:]
        slices = IndexedSlices(Tensor(jnp.broadcast_to(values, shape)), Tensor(places))
        return getattr(ref, f"scatter_{kind}")(slices)

    call.__name__ = call.__qualname__ = f"scatter_{kind}"
    call.__doc__ = f"``ref.scatter_{kind}`` of rows: ``indices``, and ``updates`` of each."
    return call


scatter_add, scatter_sub, scatter_mul, scatter_div, scatter_min, scatter_max, scatter_update = map(
    _scattered, ("add", "sub", "mul", "div", "min", "max", "update")
)


def _scattered_nd(kind: str) -> Callable[..., Any]:
    def call(
        ref: Any, indices: Any, updates: Any, use_locking: Any = None, name: Any = None
    ) -> Any:
        return getattr(ref, f"scatter_nd_{kind}")(indices, updates)

    call.__name__ = call.__qualname__ = f"scatter_nd_{kind}"
    call.__doc__ = f"``ref.scatter_nd_{kind}(indices, updates)``."
    return call


scatter_nd_add, scatter_nd_sub, scatter_nd_update = map(_scattered_nd, ("add", "sub", "update"))
