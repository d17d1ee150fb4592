"""Special functions of ``tf.math``: those of `jax.scipy.special`, and those of SciPy alone.

What JAX has not is computed by SciPy on the host, also within compiled functions; its derivatives
are stated here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy import special

from drumline.compat.ops.elementwise import (
    add_n,
    binary,
    divide,
    multiply,
    ndtri,
    unary,
    with_parameters,
)
from drumline.compat.values import dtypes
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_jax, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor

_Function = Callable[[Any], Any]


def of_host(name: str, of_scipy: _Function, derivative: _Function) -> Callable[..., Any]:
    """A function of one tensor that SciPy has and JAX has not.

    Args:
        name: TensorFlow's.
        of_scipy: computes it of numpy's arrays.
        derivative: computes its derivative of JAX's arrays.
    """

    def computed(x: np.ndarray) -> np.ndarray:
        wide = x if x.dtype.itemsize >= 4 else x.astype(np.float32)
        with np.errstate(all="ignore"):
            return np.asarray(of_scipy(wide)).astype(x.dtype)

    @jax.custom_jvp
    def of_jax(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(
            lambda a: computed(np.asarray(a)), shape, x, vmap_method="expand_dims"
        )

    @of_jax.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (change,) = primals, tangents
        return of_jax(x), derivative(x).astype(x.dtype) * change

    function = unary(name, computed, of_jax, floats=True)
    _ON_HOST[name] = of_jax
    return function


_ON_HOST: dict[str, _Function] = {}


def _of(name: str) -> _Function:
    return lambda x: _ON_HOST[name](x)


_j0, _j1, _y0, _y1 = map(_of, ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"))
_k0, _k1, _k0e, _k1e = map(_of, ("bessel_k0", "bessel_k1", "bessel_k0e", "bessel_k1e"))

bessel_j0 = of_host("bessel_j0", scipy.special.j0, lambda x: -_j1(x))
bessel_j1 = of_host(
    "bessel_j1", scipy.special.j1, lambda x: jnp.where(x == 0, 0.5, _j0(x) - _j1(x) / x)
)
bessel_y0 = of_host("bessel_y0", scipy.special.y0, lambda x: -_y1(x))
bessel_y1 = of_host("bessel_y1", scipy.special.y1, lambda x: _y0(x) - _y1(x) / x)
bessel_k0 = of_host("bessel_k0", scipy.special.k0, lambda x: -_k1(x))
bessel_k1 = of_host("bessel_k1", scipy.special.k1, lambda x: -_k0(x) - _k1(x) / x)
bessel_k0e = of_host("bessel_k0e", scipy.special.k0e, lambda x: _k0e(x) - _k1e(x))
bessel_k1e = of_host("bessel_k1e", scipy.special.k1e, lambda x: _k1e(x) * (1 - 1 / x) - _k0e(x))
dawsn = of_host("dawsn", scipy.special.dawsn, lambda x: 1 - 2 * x * _of("dawsn")(x))
expint = of_host("expint", scipy.special.expi, lambda x: jnp.exp(x) / x)
fresnel_cos = of_host(
    "fresnel_cos", lambda x: scipy.special.fresnel(x)[1], lambda x: jnp.cos(jnp.pi / 2 * x * x)
)
fresnel_sin = of_host(
    "fresnel_sin", lambda x: scipy.special.fresnel(x)[0], lambda x: jnp.sin(jnp.pi / 2 * x * x)
)
spence = of_host(
    "spence",
    scipy.special.spence,
    lambda x: jnp.where(x == 1, -1.0, jnp.log(x) / jnp.where(x == 1, 1, 1 - x)),
)


def erfcinv(x: Any, name: Any = None) -> Any:
    """The number whose complementary error function is ``x``, element by element."""
    value = convert(x)
    half = np.asarray(0.5, value.dtype)
    return multiply(ndtri(multiply(half, Tensor(value))), np.asarray(-(0.5**0.5), value.dtype))


def betainc(a: Any, b: Any, x: Any, name: Any = None) -> Tensor:
    """The regularized incomplete beta function, element by element.

    Raises:
        InvalidArgumentError: the dtypes differ, or are no floats.
    """
    arrays = _alike("Betainc", a, b, x)
    return Tensor(compute(lambda *given: special.betainc(*given), *arrays))


def _alike(name: str, *values: Any) -> list[Any]:
    """Arrays of one dtype: of tensors' first, which Python's numbers take."""
    arrays = [convert(each) for each in values]
    typed = [m for e, m in zip(values, arrays, strict=True) if hasattr(e, "dtype")] or arrays
    made = [
        array if hasattr(each, "dtype") else convert(each, typed[0].dtype)
        for each, array in zip(values, arrays, strict=True)
    ]
    kinds = {np.dtype(each.dtype) for each in made}
    if len(kinds) > 1 or any(kind.kind in "iubO" for kind in kinds):
        named = ", ".join(sorted(map(str, kinds)))
        raise InvalidArgumentError(None, None, f"{name} takes tensors of one float dtype: {named}")
    return made


polygamma = with_parameters(
    "a x",
    binary(
        "Polygamma",
        lambda a, x: scipy.special.polygamma(a, x).astype(x.dtype),
        lambda a, x: _polygamma(jnp.asarray(a), x),
    ),
)
xdivy = binary(
    "Xdivy",
    lambda a, b: np.where(a == 0, np.zeros((), a.dtype), _divided(np, a, b)),
    lambda a, b: jnp.where(a == 0, jnp.zeros((), a.dtype), _divided(jnp, a, b)),
)


def _polygamma(order: Any, x: Any) -> Any:
    """JAX's takes orders of integers alone."""
    others = jnp.where(order == 0, 1, order)
    sign = jnp.where(others % 2 == 0, -1, 1).astype(x.dtype)
    derived = sign * jnp.exp(special.gammaln(others + 1)) * special.zeta(others + 1, x)
    return jnp.where(order == 0, special.digamma(x), derived)


def _divided(xp: Any, a: Any, b: Any) -> Any:
    """``a / b``, where ``a`` is zero 0 and without an infinite derivative."""
    safe = xp.where(a == 0, xp.ones((), b.dtype), b)
    with np.errstate(all="ignore"):
        return xp.true_divide(a, safe)


def _truncated(a: Any, b: Any) -> Any:
    """The quotient of integers, rounded towards zero."""
    if a.dtype.kind not in "iu":
        return np.trunc(a / b) if isinstance(a, np.ndarray) else jnp.trunc(a / b)
    if is_jax(a) or is_jax(b):
        return jax.lax.div(*jnp.broadcast_arrays(a, b))
    if np.size(b) and not np.all(b):
        raise InvalidArgumentError(None, None, "Integer division by zero")
    quotient = np.floor_divide(a, b)
    return (quotient + ((quotient < 0) & (quotient * b != a))).astype(a.dtype)


truncatediv = binary("TruncateDiv", _truncated, _truncated)


def realdiv(x: Any, y: Any, name: Any = None) -> Any:
    """``x / y`` of floats or complex numbers.

    Raises:
        InvalidArgumentError: they are integers.
    """
    made = convert(x)
    if made.dtype.kind in "iub" and hasattr(x, "dtype"):
        raise InvalidArgumentError(None, None, f"RealDiv takes no {made.dtype}: use tf.divide")
    return divide(x, y)


def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: Any = None
) -> Tensor:
    """The logarithms of the sums of ``exp`` up to each element.

    Args:
        x: floats.
        axis: along which.
        exclusive: whether an element's own is left out: the first is minus infinity.
        reverse: whether from the end.
    """
    value, axis = convert(x), int(static(axis))

    def computed(array: Any) -> Any:
        made = jax.lax.cumlogsumexp(jnp.asarray(array), axis % array.ndim, reverse)
        if not exclusive:
            return made
        first = jnp.full_like(jax.lax.slice_in_dim(made, 0, 1, axis=axis), -jnp.inf)
        size = array.shape[axis]
        if reverse:
            return jnp.concatenate([jax.lax.slice_in_dim(made, 1, size, axis=axis), first], axis)
        return jnp.concatenate([first, jax.lax.slice_in_dim(made, 0, size - 1, axis=axis)], axis)

    return Tensor(compute(computed, value))


def invert_permutation(x: Any, name: Any = None) -> Tensor:
    """For each number from 0 on its place in ``x``.

    Raises:
        InvalidArgumentError: ``x`` has not each number once (in compiled functions: not seen).
    """
    value = convert(x)
    if is_jax(value):
        return Tensor(
            jnp.zeros_like(value).at[value].set(jnp.arange(len(value), dtype=value.dtype))
        )
    if value.ndim != 1 or value.dtype.kind not in "iu":
        raise InvalidArgumentError(None, None, "invert_permutation expects a vector of integers")
    if not np.array_equal(np.sort(value), np.arange(len(value))):
        raise InvalidArgumentError(None, None, f"{value.tolist()!s:.60} is not a permutation")
    return Tensor(np.argsort(value).astype(value.dtype))


def _ordered(compare: Callable[[Any, Any], Any], what: str) -> Callable[..., Any]:
    def function(x: Any, name: Any = None) -> Tensor:
        flat = convert(x).reshape(-1)
        xp = jnp if is_jax(flat) else np
        return Tensor(xp.asarray(xp.all(compare(flat[1:], flat[:-1]))))

    function.__doc__ = f"Whether {what}, all dimensions taken as one."
    return function


is_non_decreasing = _ordered(
    lambda later, former: later >= former, "no element is less than before"
)
is_strictly_increasing = _ordered(lambda later, former: later > former, "each element rises")


def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: Any = None) -> Any:
    """The sum of tensors of one shape.

    Raises:
        ValueError: there are none, or one has another shape or dtype.
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError("inputs must be a list of at least one Tensor/IndexedSlices")
    arrays = [convert(each) for each in inputs]
    wanted = None if tensor_dtype is None else dtypes.as_dtype(tensor_dtype).dtype
    if any(a.shape != arrays[0].shape or a.dtype != (wanted or arrays[0].dtype) for a in arrays):
        raise ValueError("inputs must have the same dtype and shape")
    return add_n(inputs)


def sobol_sample(
    dim: Any, num_results: Any, skip: Any = 0, dtype: Any = np.float32, name: Any = None
) -> Tensor:
    """Points of the Sobol sequence, ``(num_results, dim)``, without its first, which is zero.

    Args:
        dim: of the points.
        num_results: how many.
        skip: how many are passed over.
        dtype: float32 or float64.
    """
    from scipy.stats import qmc

    points = qmc.Sobol(int(static(dim)), scramble=False).fast_forward(int(static(skip)) + 1)
    made = points.random(int(static(num_results)))
    return Tensor(made.astype(dtypes.as_dtype(dtype).dtype))


def _approximate(largest: bool) -> Callable[..., Any]:
    find = jax.lax.approx_max_k if largest else jax.lax.approx_min_k

    def function(
        operand: Any,
        k: Any,
        reduction_dimension: int = -1,
        recall_target: float = 0.95,
        reduction_input_size_override: int = -1,
        aggregate_to_topk: bool = True,
        name: Any = None,
    ) -> tuple[Tensor, Tensor]:
        values, indices = compute(
            find,
            jnp.asarray(convert(operand)),
            k=int(static(k)),
            reduction_dimension=reduction_dimension,
            recall_target=recall_target,
            reduction_input_size_override=reduction_input_size_override,
            aggregate_to_topk=aggregate_to_topk,
        )
        return Tensor(values), Tensor(indices)

    kind = "greatest" if largest else "least"
    function.__doc__ = f"The ``k`` {kind} elements and their places; on TPUs a few may be missed."
    return function


approx_max_k = _approximate(True)
approx_min_k = _approximate(False)


def approx_top_k(
    input: Any,
    k: Any,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    is_max_k: bool = True,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: Any = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` greatest elements, or least ones, and their places; on TPUs a few may be missed."""
    return (approx_max_k if is_max_k else approx_min_k)(
        input,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
    )
