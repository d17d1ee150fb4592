"""Products of matrices, and ``tf.linalg``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from drumline.compat.values import derivatives
from drumline.compat.values.computing import compute_as_one
from drumline.compat.values.convert import convert, is_jax, raw, same_dtype, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor


def _swapped(array: Any) -> Any:
    return (jnp if is_jax(array) else np).swapaxes(array, -1, -2)


def _by(name: str, *arrays: Any, **options: Any) -> Any:
    """A function of numpy's, or of JAX's numpy if an array is JAX's, with 64 bits kept."""
    if not any(map(is_jax, arrays)):
        of_numpy: Any = functools.reduce(getattr, name.split("."), np)
        return of_numpy(*arrays, **options)
    of_jax: Any = functools.reduce(getattr, name.split("."), jnp)
    return compute_as_one(of_jax, *arrays, **options)


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: Any = None,
) -> Any:
    """The product of matrices ``(..., n, k)`` and ``(..., k, m)``.

    Raises:
        InvalidArgumentError: they are no such matrices.
    """
    from drumline.compat.ops.elementwise import keras_ops

    if keras_ops(a, b) is not None:
        return keras_ops(a, b).matmul(a, b)
    x, y = same_dtype(a, b, "MatMul")
    if len(x.shape) < 2 or len(y.shape) < 2:
        raise InvalidArgumentError(
            None, None, f"In[0] and In[1] of MatMul have {x.ndim} and {y.ndim} dimensions: need 2"
        )
    ways = _way(transpose_a, adjoint_a), _way(transpose_b, adjoint_b)
    inner = x.shape[-2 if ways[0] else -1], y.shape[-1 if ways[1] else -2]
    if inner[0] != inner[1]:
        raise InvalidArgumentError(
            None,
            None,
            f"Matrix size-incompatible: In[0]: {x.shape}, In[1]: {y.shape}"
            + "".join(f", {letter} {way}" for letter, way in zip("ab", ways, strict=True) if way),
        )
    if is_jax(x) or is_jax(y):
        made = compute_as_one(_product, x, y, ways=ways, xp=jnp)
    else:
        made = _product(x, y, ways, np)
    if output_type is None:
        return Tensor(made)
    return Tensor(convert(made, output_type))


def _way(transpose: bool, adjoint: bool) -> str:
    """How a factor is turned; empty if it is taken as it is."""
    return "adjoint" if adjoint else "transposed" if transpose else ""


def _product(x: Any, y: Any, ways: tuple[str, str], xp: Any) -> Any:
    x, y = (
        xp.swapaxes(each.conj() if way == "adjoint" else each, -1, -2) if way else each
        for each, way in zip((x, y), ways, strict=True)
    )
    return xp.matmul(x, y)


def _of_matrices(name: str, of_numpy: Callable[..., Any], of_jax: Any) -> Callable[..., Any]:
    def function(*tensors: Any, name: Any = None, **options: Any) -> Any:
        arrays = [convert(each) for each in tensors]
        if any(map(is_jax, arrays)):
            made = compute_as_one(of_jax, *arrays, **options)
        else:
            try:
                made = of_numpy(*arrays, **options)
            except np.linalg.LinAlgError as error:
                raise InvalidArgumentError(None, None, f"{label}: {error}") from None
        return tuple(map(Tensor, made)) if isinstance(made, tuple) else Tensor(made)

    label = name
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name}`` of the matrices in the last two dimensions."
    return function


det = _of_matrices("det", np.linalg.det, jnp.linalg.det)
cholesky = _of_matrices("cholesky", np.linalg.cholesky, jnp.linalg.cholesky)
pinv = _of_matrices("pinv", np.linalg.pinv, jnp.linalg.pinv)
eigh = _of_matrices("eigh", lambda x: tuple(np.linalg.eigh(x)), lambda x: tuple(jnp.linalg.eigh(x)))
eigvalsh = _of_matrices("eigvalsh", np.linalg.eigvalsh, jnp.linalg.eigvalsh)
slogdet = _of_matrices(
    "slogdet", lambda x: tuple(np.linalg.slogdet(x)), lambda x: tuple(jnp.linalg.slogdet(x))
)
trace = _of_matrices(
    "trace", lambda x: x.trace(axis1=-2, axis2=-1), lambda x: x.trace(axis1=-2, axis2=-1)
)
_inverse = _of_matrices("inv", np.linalg.inv, jnp.linalg.inv)
_solve = _of_matrices("solve", np.linalg.solve, jnp.linalg.solve)


def inv(input: Any, adjoint: bool = False, name: Any = None) -> Any:
    """The inverses of matrices.

    Raises:
        InvalidArgumentError: one is singular.
    """
    return _inverse(Tensor(_adjoint(convert(input))) if adjoint else input)


def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: Any = None) -> Any:
    """``x`` of ``matrix @ x = rhs``."""
    return _solve(Tensor(_adjoint(convert(matrix))) if adjoint else matrix, rhs)


def _adjoint(array: Any) -> Any:
    return _swapped(array.conj())


def adjoint(matrix: Any, name: Any = None) -> Any:
    """The matrices, transposed and conjugated."""
    return Tensor(_adjoint(convert(matrix)))


def matrix_transpose(a: Any, name: Any = None, conjugate: bool = False) -> Any:
    """The matrices, transposed."""
    value = convert(a)
    turned = _adjoint if conjugate else _swapped
    return Tensor(compute_as_one(turned, value) if is_jax(value) else turned(value))


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: Any = None,
) -> Any:
    """Matrices times vectors. That they are sparse is a hint, which changes nothing."""
    column = Tensor(convert(b)[..., None])
    return matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a)[..., 0]


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: Any = None) -> Any:
    """Singular values, and unless ``compute_uv`` is False the vectors: ``s, u, v``."""
    value = convert(tensor)
    if not compute_uv:
        return Tensor(_by("linalg.svd", value, compute_uv=False))
    u, s, vh = _by("linalg.svd", value, full_matrices=full_matrices)
    return Tensor(s), Tensor(u), Tensor(_adjoint(vh))


class Qr(NamedTuple):
    """The factors of matrices."""

    q: Tensor
    r: Tensor


def qr(input: Any, full_matrices: bool = False, name: Any = None) -> Qr:
    """The factors ``q, r``."""
    mode = "complete" if full_matrices else "reduced"
    q, r = _by("linalg.qr", convert(input), mode=mode)
    return Qr(Tensor(q), Tensor(r))


def band_part(input: Any, num_lower: Any, num_upper: Any, name: Any = None) -> Any:
    """The matrices with zeros outside of a band around the diagonal; negative widths keep all."""
    value = convert(input)
    rows, columns = np.indices(value.shape[-2:])
    lower, upper = int(static(num_lower)), int(static(num_upper))
    inside = (lower < 0) | (rows - columns <= lower)
    inside &= (upper < 0) | (columns - rows <= upper)
    xp = jnp if is_jax(value) else np
    return Tensor(xp.where(inside, value, np.zeros((), value.dtype)))


def tensordot(a: Any, b: Any, axes: Any, name: Any = None) -> Any:
    """The sum of products over axes."""
    x, y = same_dtype(a, b, "Tensordot")
    return Tensor(_by("tensordot", x, y, axes=static(axes)))


def einsum(equation: str, *inputs: Any, name: Any = None, **options: Any) -> Any:
    """The sum of products that an equation states."""
    arrays = [convert(each) for each in inputs]
    if any(map(is_jax, arrays)):
        return Tensor(compute_as_one(_summed_products, *arrays, equation=equation))
    return Tensor(np.einsum(equation, *arrays))


def _summed_products(*arrays: Any, equation: str) -> Any:
    return jnp.einsum(equation, *arrays)


def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool = False, name: Any = None
) -> Any:
    """A norm of vectors, or of matrices if two axes are given; of all elements by default."""
    value = convert(tensor)
    axis = static(axis)
    axis = tuple(axis) if isinstance(axis, list) else axis

    options = {"order": (raw(ord),), "axis": axis, "keepdims": keepdims}
    if is_jax(value):
        return Tensor(compute_as_one(_norm, value, **options, xp=jnp))
    return Tensor(_norm(value, **options, xp=np))


def _norm(value: Any, order: tuple[Any], axis: Any, keepdims: bool, xp: Any) -> Any:
    """A norm; the order in a tuple, since `compute_as_one` takes a float for an array."""
    if order[0] in ("euclidean", "fro") and axis is None:
        total = xp.sqrt(xp.sum(xp.abs(value) ** 2))
        return total.reshape((1,) * value.ndim) if keepdims else total
    given = value.reshape(-1) if axis is None else value
    if order[0] == 1 and xp is jnp and not isinstance(axis, tuple):
        return jnp.sum(derivatives.absolute(given), axis, keepdims=keepdims)
    return xp.linalg.norm(given, None if order[0] == "euclidean" else order[0], axis, keepdims)


def cross(a: Any, b: Any, name: Any = None) -> Any:
    """The cross products of vectors of 3 elements."""
    x, y = same_dtype(a, b, "Cross")
    return Tensor(_by("cross", x, y))


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = np.float32,
    name: Any = None,
) -> Any:
    """The identity matrix, or so many of them as ``batch_shape`` says."""
    made = np.eye(static(num_rows), static(num_columns), dtype=convert(0, dtype).dtype)
    shape = () if batch_shape is None else tuple(static(batch_shape))
    return Tensor(np.broadcast_to(made, (*shape, *made.shape)).copy())


def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: Any = None, dim: Any = None
) -> Any:
    """``x`` divided by its norm along axes; `dim` is the axes' former name."""
    axis = dim if axis is None else axis
    value = convert(x)
    axis = static(axis)
    axis = tuple(axis) if isinstance(axis, list) else axis
    least = np.asarray(epsilon, value.dtype)
    if is_jax(value):
        return Tensor(compute_as_one(_normalized, value, least, axis=axis, xp=jnp))
    return Tensor(_normalized(value, least, axis, np))


def _normalized(value: Any, least: Any, axis: Any, xp: Any) -> Any:
    total = xp.sum(xp.square(value), axis, keepdims=True)
    return value / xp.sqrt(xp.maximum(total, least))
