"""``tf.linalg``: solutions, factors, and functions of matrices that JAX or SciPy compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from drumline.compat.ops.linalg.bands import assembled_tridiagonal, diagonals_of
from drumline.compat.ops.linalg.matrices import _adjoint, norm
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_jax, same_dtype, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor


def _square(array: Any, name: str) -> Any:
    if len(array.shape) < 2 or array.shape[-1] != array.shape[-2]:
        raise InvalidArgumentError(
            None, None, f"{name}: input must be square matrices, but has shape {array.shape}"
        )
    return array


def _aligned(matrix: Any, rhs: Any) -> tuple[Any, Any]:
    """Matrices and right-hand sides with the same leading dimensions."""
    leading = jnp.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    return (
        jnp.broadcast_to(matrix, (*leading, *matrix.shape[-2:])),
        jnp.broadcast_to(rhs, (*leading, *rhs.shape[-2:])),
    )


def triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: Any = None
) -> Tensor:
    """``x`` of ``matrix @ x = rhs``, where one triangle of ``matrix`` counts.

    Args:
        matrix: ``(..., n, n)``.
        rhs: ``(..., n, k)``.
        lower: whether the lower triangle.
        adjoint: whether of the matrices transposed and conjugated.
        name: accepted.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    a, b = same_dtype(matrix, rhs, "MatrixTriangularSolve")
    _square(a, "MatrixTriangularSolve")
    _check_rows(a, b, "MatrixTriangularSolve")
    return Tensor(compute(_triangular, a, b, lower=lower, adjoint=adjoint))


def _check_rows(a: Any, b: Any, name: str) -> None:
    if len(b.shape) < 2 or a.shape[-2] != b.shape[-2]:
        raise InvalidArgumentError(
            None, None, f"{name}: matrices {a.shape} and right-hand sides {b.shape} do not fit"
        )


def _triangular(a: Any, b: Any, lower: bool = True, adjoint: bool = False) -> Any:
    a, b = _aligned(a, b)
    complexes = np.dtype(a.dtype).kind == "c"
    return jax.lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=adjoint, conjugate_a=adjoint and complexes
    )


def cholesky_solve(chol: Any, rhs: Any, name: Any = None) -> Tensor:
    """``x`` of ``A @ x = rhs``, where ``chol`` is Cholesky's factor of ``A``."""
    a, b = same_dtype(chol, rhs, "cholesky_solve")
    _check_rows(_square(a, "cholesky_solve"), b, "cholesky_solve")
    return Tensor(compute(_of_cholesky, a, b))


def _of_cholesky(chol: Any, rhs: Any) -> Any:
    return _triangular(chol, _triangular(chol, rhs), adjoint=True)


def lstsq(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: Any = None
) -> Tensor:
    """``x`` for which ``matrix @ x`` is nearest to ``rhs``, by least squares.

    Args:
        matrix: ``(..., m, n)``.
        rhs: ``(..., m, k)``.
        l2_regularizer: how much the squares of ``x`` count, too.
        fast: whether by Cholesky's factors, which needs a full rank; otherwise by singular values,
            which gives the least ``x``, and takes no `l2_regularizer`.
        name: accepted.
    """
    a, b = same_dtype(matrix, rhs, "MatrixSolveLs")
    _check_rows(a, b, "MatrixSolveLs")
    weight = static(l2_regularizer)

    def solved(a: Any, b: Any) -> Any:
        a, b = _aligned(a, b)
        if not fast:
            return jnp.linalg.pinv(a) @ b
        tall = a.shape[-2] >= a.shape[-1]
        gram = _adjoint(a) @ a if tall else a @ _adjoint(a)
        gram = gram + jnp.asarray(weight, a.dtype) * jnp.eye(gram.shape[-1], dtype=a.dtype)
        factor = jnp.linalg.cholesky(gram)
        if tall:
            return _of_cholesky(factor, _adjoint(a) @ b)
        return _adjoint(a) @ _of_cholesky(factor, b)

    return Tensor(compute(solved, a, b))


def lu(input: Any, output_idx_type: Any = np.int32, name: Any = None) -> tuple[Tensor, Tensor]:
    """The factors of matrices, both in one, and the order of the rows.

    Raises:
        InvalidArgumentError: they are not square.
    """
    from drumline.compat.ops.elementwise import cast

    found, _, order = compute(
        lambda a: tuple(jax.lax.linalg.lu(jnp.asarray(a))), _square(convert(input), "Lu")
    )
    return Tensor(found), cast(Tensor(order), output_idx_type)


def lu_reconstruct(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: Any = None
) -> Tensor:
    """The matrices of which these are the factors."""
    return Tensor(compute(_reconstructed, convert(lower_upper), convert(perm)))


def _factors(both: Any) -> tuple[Any, Any]:
    identity = jnp.eye(both.shape[-1], dtype=both.dtype)
    return jnp.tril(both, -1) + identity, jnp.triu(both)


def _reconstructed(both: Any, order: Any) -> Any:
    lower, upper = _factors(both)
    back = jnp.argsort(order, axis=-1)
    return jnp.take_along_axis(lower @ upper, back[..., None], -2)


def lu_solve(
    lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: Any = None
) -> Tensor:
    """``x`` of ``A @ x = rhs``, where `lu` has given the factors of ``A``."""
    both, b = same_dtype(lower_upper, rhs, "lu_solve")
    return Tensor(compute(_of_lu, both, convert(perm), b))


def _of_lu(both: Any, order: Any, rhs: Any) -> Any:
    lower, upper = _factors(both)
    leading = jnp.broadcast_shapes(order.shape[:-1], rhs.shape[:-2])
    rows = jnp.broadcast_to(order, (*leading, order.shape[-1]))[..., None]
    right = jnp.take_along_axis(jnp.broadcast_to(rhs, (*leading, *rhs.shape[-2:])), rows, -2)
    return _triangular(upper, _triangular(lower, right), lower=False)


def lu_matrix_inverse(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: Any = None
) -> Tensor:
    """The inverses of the matrices of which `lu` has given the factors."""
    both = convert(lower_upper)
    identity = np.broadcast_to(np.eye(both.shape[-1], dtype=both.dtype), both.shape)
    return lu_solve(both, perm, Tensor(np.asarray(identity)))


def logdet(matrix: Any, name: Any = None) -> Tensor:
    """The logarithms of the determinants of Hermitian positive definite matrices."""

    def computed(a: Any) -> Any:
        factor = jnp.diagonal(jnp.linalg.cholesky(a), axis1=-2, axis2=-1)
        return 2 * jnp.sum(jnp.log(jnp.real(factor)), -1)

    return Tensor(compute(computed, _square(convert(matrix), "logdet")))


def expm(input: Any, name: Any = None) -> Tensor:
    """The exponentials of matrices."""
    return Tensor(compute(jax.scipy.linalg.expm, _square(convert(input), "MatrixExponential")))


def _of_scipy(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    """A function of one matrix of SciPy's, of all matrices of a JAX array, on the host."""

    def of_all(matrices: np.ndarray) -> np.ndarray:
        given = np.asarray(matrices)
        flat = [function(each) for each in given.reshape(-1, *given.shape[-2:])]
        made = np.stack(flat) if flat else np.zeros(given.shape)
        made = made if given.dtype.kind == "c" else np.real(made)
        return made.reshape(given.shape).astype(given.dtype)

    def of_jax(matrices: Any) -> Any:
        if isinstance(matrices, np.ndarray):
            return of_all(matrices)
        shape = jax.ShapeDtypeStruct(matrices.shape, matrices.dtype)
        return jax.pure_callback(of_all, shape, matrices, vmap_method="expand_dims")

    return of_jax


def _logarithm_of(matrix: np.ndarray) -> np.ndarray:
    found: np.ndarray = scipy.linalg.logm(matrix.astype(np.complex128))
    return found


_logarithm = _of_scipy(_logarithm_of)


def logm(input: Any, name: Any = None) -> Tensor:
    """The logarithms of complex matrices; no gradients are taken through it.

    Raises:
        InvalidArgumentError: the matrices are not complex, or not square.
    """
    value = _square(convert(input), "MatrixLogarithm")
    if value.dtype.kind != "c":
        raise InvalidArgumentError(
            None, None, f"Value for attr 'T' of {value.dtype} is not allowed for MatrixLogarithm"
        )
    return Tensor(compute(_logarithm, value))


_root = jax.custom_jvp(_of_scipy(lambda a: scipy.linalg.sqrtm(a)))


@_root.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (matrix,), (change,) = primals, tangents
    root = _root(matrix)
    identity = jnp.eye(matrix.shape[-1], dtype=matrix.dtype)
    kron = jnp.vectorize(jnp.kron, signature="(a,b),(c,d)->(e,f)")
    # root @ x + x @ root = change, with the rows of x in one vector.
    system = kron(root, identity) + kron(identity, jnp.swapaxes(root, -1, -2))
    flat = change.reshape(*change.shape[:-2], -1, 1)
    return root, jnp.linalg.solve(system, flat).reshape(matrix.shape)


def sqrtm(input: Any, name: Any = None) -> Tensor:
    """The matrices whose squares these are; real ones must have real roots."""
    value = _square(convert(input), "MatrixSquareRoot")
    return Tensor(compute(_root, value) if is_jax(value) else _root.fun(value))


def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: Any = None) -> Tensor:
    """How many singular values of matrices are above ``tol``, by default their rounding error."""
    value = convert(a)

    def computed(array: Any) -> Any:
        found = jnp.linalg.svd(array, compute_uv=False)
        limit = static(tol) if tol is not None else None
        if limit is None:
            error = float(np.finfo(array.dtype).eps) * max(array.shape[-2:])
            limit = error * jnp.max(found, -1, keepdims=True)
        return jnp.sum(found > limit, -1, dtype=jnp.int32)

    return Tensor(compute(computed, value))


def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: Any = None
) -> tuple[Any, Any]:
    """The tensor divided by its norm, and the norm."""
    from drumline.compat.ops.elementwise import divide

    found = norm(tensor, ord, axis, keepdims=True)
    return divide(tensor, found), found


def _eigen(vectors: bool) -> Callable[[Any], Any]:
    def of_all(matrices: Any) -> Any:
        found = np.linalg.eig(matrices) if vectors else (np.linalg.eigvals(matrices),)
        kind = np.result_type(matrices.dtype, np.complex64)
        return tuple(each.astype(kind) for each in found)

    def of_jax(matrices: Any) -> Any:
        if isinstance(matrices, np.ndarray):
            return of_all(matrices)
        kind = np.result_type(matrices.dtype, np.complex64)
        shapes = [jax.ShapeDtypeStruct(matrices.shape[:-1], kind)]
        shapes += [jax.ShapeDtypeStruct(matrices.shape, kind)] if vectors else []
        return jax.pure_callback(
            lambda a: of_all(np.asarray(a)), tuple(shapes), matrices, vmap_method="expand_dims"
        )

    return of_jax


_eig, _eigvals = _eigen(True), _eigen(False)


def eig(tensor: Any, name: Any = None) -> tuple[Tensor, Tensor]:
    """The eigenvalues ``(..., n)`` and vectors ``(..., n, n)`` of matrices, complex numbers."""
    found = compute(_eig, _square(convert(tensor), "Eig"))
    return Tensor(found[0]), Tensor(found[1])


def eigvals(tensor: Any, name: Any = None) -> Tensor:
    """The eigenvalues ``(..., n)`` of matrices, complex numbers."""
    return Tensor(compute(_eigvals, _square(convert(tensor), "Eig"))[0])


def eigh_tridiagonal(
    alpha: Any,
    beta: Any,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Any = None,
    tol: Any = None,
    name: Any = None,
) -> Any:
    """The eigenvalues, rising, of Hermitian tridiagonal matrices, and their vectors.

    Args:
        alpha: the diagonals, ``(..., n)``, real.
        beta: what is above them, ``(..., n - 1)``.
        eigvals_only: whether vectors are left out.
        select: ``"a"``: all; ``"i"``: those of numbers, ``"v"``: those within a range of values.
        select_range: the first and the last, for ``"i"`` and ``"v"``.
        tol: accepted: the values are as exact as the dtype.
        name: accepted.

    Raises:
        ValueError: ``select`` is unknown, or has no range.
    """
    if select not in ("a", "i", "v"):
        raise ValueError(f"'select' must have a value in {{'a', 'i', 'v'}}, got {select!r}.")
    if select != "a" and select_range is None:
        raise ValueError(f"For select='{select}', select_range must be provided.")
    diagonal, above = convert(alpha), convert(beta)

    def computed(diagonal: Any, above: Any) -> Any:
        return jnp.linalg.eigh(
            assembled_tridiagonal(above, diagonal.astype(above.dtype), jnp.conj(above))
        )

    values, vectors = compute(computed, diagonal, above)
    if select != "a":
        first, last = (static(each) for each in select_range)
        if select == "i":
            chosen = slice(int(first), int(last) + 1)
        else:
            if values.ndim > 1:
                raise ValueError("select='v' takes one matrix: numbers of values would differ.")
            kept = np.asarray(values)
            chosen = slice(*np.searchsorted(kept, (first, last), "right").tolist())
        values, vectors = values[..., chosen], vectors[..., chosen]
    return Tensor(values) if eigvals_only else (Tensor(values), Tensor(vectors))


def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: Any = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """``x`` of ``A @ x = rhs`` for tridiagonal matrices.

    Args:
        diagonals: ``(..., 3, n)``: what is above the diagonal, this, and what is below it.
        rhs: ``(..., n)`` or ``(..., n, k)``.
        diagonals_format: ``"compact"``; ``"sequence"``: three tensors; ``"matrix"``.
        transpose_rhs: whether ``rhs`` is ``(..., k, n)``.
        conjugate_rhs: whether its conjugates are taken.
        name: accepted.
        partial_pivoting: whether rows are exchanged for precision; not doing so is faster.
        perturb_singular: refused.

    Raises:
        NotImplementedError: for ``perturb_singular``.
        ValueError: the format is unknown.
    """
    if perturb_singular:
        raise NotImplementedError(
            "tf.linalg.tridiagonal_solve with perturb_singular=True: add a small multiple of the "
            "identity to the diagonal instead"
        )
    above, middle, below = diagonals_of(diagonals, diagonals_format)
    right = convert(rhs)
    vectors = right.ndim == middle.ndim
    right = right[..., None] if vectors else right
    right = right.conj() if conjugate_rhs else right
    right = right.swapaxes(-1, -2) if transpose_rhs and not vectors else right

    def computed(above: Any, middle: Any, below: Any, right: Any) -> Any:
        if not partial_pivoting:
            first, last = jnp.arange(middle.shape[-1]) == 0, None
            last = first[::-1]
            return jax.lax.linalg.tridiagonal_solve(
                jnp.where(first, 0, below), middle, jnp.where(last, 0, above), right
            )
        matrix = assembled_tridiagonal(above[..., :-1], middle, below[..., 1:])
        return jnp.linalg.solve(*_aligned(matrix, right))

    made = compute(computed, above, middle, below, right)
    return Tensor(made[..., 0] if vectors else made)


def tridiagonal_matmul(
    diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: Any = None
) -> Tensor:
    """Tridiagonal matrices times ``(..., n, k)``; `diagonals` as in `tridiagonal_solve`."""
    above, middle, below = diagonals_of(diagonals, diagonals_format)

    def computed(above: Any, middle: Any, below: Any, right: Any) -> Any:
        made = jnp.asarray(middle[..., None] * right)
        made = made.at[..., :-1, :].add(above[..., :-1, None] * right[..., 1:, :])
        return made.at[..., 1:, :].add(below[..., 1:, None] * right[..., :-1, :])

    return Tensor(compute(computed, above, middle, below, convert(rhs)))


def banded_triangular_solve(
    bands: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: Any = None
) -> Tensor:
    """``x`` of ``A @ x = rhs`` for triangular matrices whose diagonals are ``bands``.

    Args:
        bands: ``(..., bands, n)``: of lower matrices the diagonal first; of upper ones last. They
            are aligned as the columns' places in a row say: to the right in lower matrices.
        rhs: ``(..., n, k)``.
        lower: whether the matrices are lower triangular.
        adjoint: whether they are transposed and conjugated.
        name: accepted.
    """
    from drumline.compat.ops.linalg.bands import diag

    given = convert(bands)
    count = given.shape[-2]
    band = (1 - count, 0) if lower else (0, count - 1)
    matrix = diag(given, k=band, align="LEFT_RIGHT")
    return triangular_solve(matrix, rhs, lower=lower, adjoint=adjoint)
