"""``tf.experimental.numpy``: functions of elements, comparisons, and products of arrays."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from drumline.compat.ops import elementwise
from drumline.compat.ops.numpy.base import (
    apply,
    array_of,
    call,
    cast,
    default_float,
    promoted,
    result,
    weakness,
    xp_of,
)
from drumline.compat.values import dtypes
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor

_Function = Callable[..., Any]


def _named(function: _Function, name: str, doc: str) -> _Function:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name: str, floats: bool = False, of: str | None = None) -> _Function:
    """numpy's function of one array.

    Args:
        name: its name.
        floats: whether integers and bools become floats first.
        of: numpy's name, if that is another one.
    """

    def function(x: Any) -> Tensor:
        array = array_of(x)
        if floats and array.dtype.kind in "biu":
            array = cast(array, default_float())
        made = apply(of or name, array)
        if made.dtype.kind == array.dtype.kind and made.dtype != array.dtype:
            made = cast(made, array.dtype)
        return result(made, weakness(x))

    return _named(function, name, f"As ``numpy.{of or name}``, of one tensor.")


def _binary(
    name: str,
    of: str | None = None,
    prepare: _Function | None = None,
    keep: bool = True,
) -> _Function:
    """numpy's function of two arrays of one dtype, to which they are promoted.

    Args:
        name: its name.
        of: numpy's name, if that is another one.
        prepare: of the promoted arrays gives those that are computed with.
        keep: whether the result is weak if both operands are.
    """

    def function(x1: Any, x2: Any) -> Any:
        (a, b), weak = promoted(x1, x2)
        if prepare is not None:
            a, b = prepare(a, b)
        return result(apply(of or name, a, b), weak and keep)

    return _named(function, name, f"As ``numpy.{of or name}``, of two tensors.")


def _as_int8(a: Any, b: Any) -> tuple[Any, Any]:
    return (cast(a, np.int8), cast(b, np.int8)) if a.dtype == bool else (a, b)


def _divisible(a: Any, b: Any) -> tuple[Any, Any]:
    """Operands of a division of integers, whose divisors must not be zero."""
    a, b = _as_int8(a, b)
    if b.dtype.kind in "iu" and isinstance(b, np.ndarray) and not b.all():
        raise InvalidArgumentError(None, None, "Integer division by zero")
    return a, b


def _as_floats(a: Any, b: Any) -> tuple[Any, Any]:
    """Operands of ``/``: integers of 8 and 16 bits as float32, of more as float64."""
    if a.dtype.kind == "b":
        wanted = default_float()
    elif a.dtype.kind in "iu":
        wanted = np.dtype(np.float32 if a.dtype.itemsize <= 2 else np.float64)
    else:
        return a, b
    return cast(a, wanted), cast(b, wanted)


add = _binary("add")
subtract = _binary("subtract")
multiply = _binary("multiply")
true_divide = _binary("true_divide", prepare=_as_floats)
divide = _binary("divide", prepare=_as_floats)
floor_divide = _binary("floor_divide", prepare=_divisible)
mod = _binary("mod", prepare=_divisible)
remainder = _binary("remainder", prepare=_divisible)
maximum = _binary("maximum")
minimum = _binary("minimum")
power = _binary("power")
float_power = _binary("float_power", of="power")
arctan2 = _binary("arctan2")
nextafter = _binary("nextafter")
bitwise_and = _binary("bitwise_and")
bitwise_or = _binary("bitwise_or")
bitwise_xor = _binary("bitwise_xor")
equal = _binary("equal", keep=False)
not_equal = _binary("not_equal", keep=False)
greater = _binary("greater", keep=False)
greater_equal = _binary("greater_equal", keep=False)
less = _binary("less", keep=False)
less_equal = _binary("less_equal", keep=False)


def divmod(x1: Any, x2: Any) -> tuple[Any, Any]:
    """The quotients, rounded downwards, and the rests."""
    return floor_divide(x1, x2), mod(x1, x2)


def _whole(name: str) -> _Function:
    def function(x1: Any, x2: Any) -> Any:
        (a, b), weak = promoted(x1, x2)
        if a.dtype.kind not in "iu":
            raise ValueError("Arguments to gcd must be integers.")
        return result(apply(name, a, b), weak)

    return _named(function, name, f"As ``numpy.{name}``, of integers.")


gcd, lcm = _whole("gcd"), _whole("lcm")


def _logical(name: str) -> _Function:
    def function(x1: Any, x2: Any) -> Any:
        return result(apply(name, _bools(x1), _bools(x2)))

    return _named(function, name, f"As ``numpy.{name}``; what is not zero is true.")


def _bools(x: Any) -> Any:
    return cast(array_of(x), np.bool_)


logical_and, logical_or, logical_xor = map(_logical, ("logical_and", "logical_or", "logical_xor"))


def logical_not(x: Any) -> Any:
    """True of zeros."""
    return result(~_bools(x))


log = _unary("log", floats=True)
log2 = _unary("log2", floats=True)
log10 = _unary("log10", floats=True)
log1p = _unary("log1p", floats=True)
exp = _unary("exp", floats=True)
exp2 = _unary("exp2", floats=True)
expm1 = _unary("expm1", floats=True)
sqrt = _unary("sqrt", floats=True)
cbrt = _unary("cbrt", floats=True)
ceil = _unary("ceil", floats=True)
floor = _unary("floor", floats=True)
fix = _unary("fix", floats=True, of="trunc")
sin = _unary("sin", floats=True)
cos = _unary("cos", floats=True)
tan = _unary("tan", floats=True)
sinh = _unary("sinh", floats=True)
cosh = _unary("cosh", floats=True)
tanh = _unary("tanh", floats=True)
arcsin = _unary("arcsin", floats=True)
arccos = _unary("arccos", floats=True)
arctan = _unary("arctan", floats=True)
arcsinh = _unary("arcsinh", floats=True)
arccosh = _unary("arccosh", floats=True)
arctanh = _unary("arctanh", floats=True)
sinc = _unary("sinc", floats=True)
abs = _unary("abs")
absolute = _unary("absolute")
fabs = _unary("fabs", of="abs")
conj = _unary("conj")
conjugate = _unary("conjugate")
negative = _unary("negative")
reciprocal = _unary("reciprocal")
square = _unary("square")
bitwise_not = _unary("bitwise_not")


def positive(x: Any) -> Any:
    """The numbers themselves."""
    return result(array_of(x), weakness(x))


def _scaled(name: str, factor: float) -> _Function:
    def function(x: Any) -> Any:
        array = array_of(x)
        array = cast(array, default_float()) if array.dtype.kind in "biu" else array
        return result(array * np.asarray(factor, array.dtype), weakness(x))

    return _named(function, name, f"As ``numpy.{name}``.")


deg2rad, rad2deg = _scaled("deg2rad", np.pi / 180), _scaled("rad2deg", 180 / np.pi)


def _question(name: str) -> _Function:
    def function(x: Any) -> Any:
        array = array_of(x)
        if array.dtype.kind in "biu":
            array = cast(array, default_float())
        return result(apply(name, array))

    return _named(function, name, f"As ``numpy.{name}``.")


isnan, isfinite = _question("isnan"), _question("isfinite")


def _infinite(name: str) -> _Function:
    def function(x: Any) -> Any:
        array = array_of(x)
        if not dtypes.of_array(array.dtype).is_floating:
            return False
        return result(apply(name, array))

    return _named(function, name, f"As ``numpy.{name}``; False, not a tensor, of integers.")


isinf, isposinf, isneginf = map(_infinite, ("isinf", "isposinf", "isneginf"))


def signbit(x: Any) -> Any:
    """Whether numbers are below zero; -0.0 is not."""
    array = array_of(x)
    if array.dtype.kind == "c":
        raise TypeError(f"signbit does not support complex numbers. Received: {array.dtype}")
    return result(xp_of(array).zeros(array.shape, bool) if array.dtype == bool else array < 0)


def sign(x: Any, out: Any = None, where: Any = None, **kwargs: Any) -> Any:
    """-1, 0 or 1.

    Raises:
        ValueError: another argument is given: there are no arrays to write to.
    """
    given = {"out": out, "where": where, **kwargs}
    for name, value in given.items():
        if value:
            raise ValueError(f"tf.numpy doesnt support setting {name}.")
    return result(apply("sign", array_of(x)), weakness(x))


def angle(z: Any, deg: bool = False) -> Any:
    """The angles of complex numbers, in radians; in degrees with ``deg``."""
    array = array_of(z)
    if array.dtype.kind in "biu":
        array = cast(array, default_float())
    made = apply("angle", array)
    return rad2deg(Tensor(made)) if deg else result(made)


def real(val: Any) -> Any:
    """The real parts."""
    array = array_of(val)
    return result(apply("real", array), weakness(val))


def imag(val: Any) -> Any:
    """The imaginary parts; zeros of real numbers."""
    array = array_of(val)
    return result(apply("imag", array), weakness(val))


def iscomplex(x: Any) -> Any:
    """Whether numbers have imaginary parts other than zero."""
    return result(apply("imag", array_of(x)) != 0)


def isreal(x: Any) -> Any:
    """Whether numbers have no imaginary parts, or zero."""
    return result(apply("imag", array_of(x)) == 0)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return bool(array_of(x).dtype.kind == "c")


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def around(a: Any, decimals: int = 0) -> Any:
    """Rounded to digits after the point; halves to the even one."""
    array = array_of(a)
    if array.dtype.kind == "b":
        return result(array)
    whole = array.dtype.kind in "iu"
    value = cast(array, default_float()) if whole else array
    factor = np.asarray(10.0 ** builtins.abs(decimals), value.dtype)
    if decimals < 0:
        made = apply("rint", value / factor) * factor
    else:
        made = apply("rint", value * factor) / factor
    return result(cast(made, array.dtype), weakness(a))


def round(a: Any, decimals: int = 0) -> Any:
    """As `around`."""
    return around(a, decimals)


def clip(a: Any, a_min: Any, a_max: Any) -> Any:
    """Numbers below ``a_min`` or above ``a_max`` become these; None is no bound.

    Raises:
        ValueError: both are None.
    """
    if a_min is None and a_max is None:
        raise ValueError("Not more than one of `a_min` and `a_max` may be `None`.")
    if a_min is None:
        return minimum(a, a_max)
    if a_max is None:
        return maximum(a, a_min)
    arrays, weak = promoted(a, a_min, a_max)
    return result(apply("clip", *arrays), weak)


def hypot(x1: Any, x2: Any) -> Any:
    """The lengths of the longest sides of triangles with a right angle."""
    return sqrt(add(square(x1), square(x2)))


def heaviside(x1: Any, x2: Any) -> Any:
    """0 below zero, 1 above it, and ``x2`` at zero."""
    (a, b), weak = promoted(x1, x2)
    xp = xp_of(a, b)
    made = xp.where(a < 0, xp.zeros((), b.dtype), xp.where(a > 0, xp.ones((), b.dtype), b))
    return result(cast(made, default_float()) if made.dtype.kind in "biu" else made, weak)


def _log_of_sum(name: str) -> _Function:
    def function(x1: Any, x2: Any) -> Any:
        (a, b), weak = promoted(x1, x2)
        if a.dtype.kind in "biu":
            a, b = cast(a, default_float()), cast(b, default_float())
        return result(apply(name, a, b), weak)

    return _named(function, name, f"As ``numpy.{name}``.")


logaddexp, logaddexp2 = _log_of_sum("logaddexp"), _log_of_sum("logaddexp2")


def polyval(p: Any, x: Any) -> Any:
    """The polynomial with these coefficients, that of the highest power first, at ``x``."""
    (coefficients, at), weak = promoted(p, x)
    coefficients = coefficients if coefficients.ndim else coefficients[None]
    total = xp_of(coefficients, at).zeros_like(at) + coefficients[0]
    for each in coefficients[1:]:
        total = total * at + each
    return result(total, weak)


def isclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether numbers differ by ``atol + rtol * abs(b)`` at most; integers not at all."""
    (x, y), _ = promoted(a, b)
    if x.dtype.kind in "biu":
        return result(x == y)
    xp = xp_of(x, y)
    with np.errstate(all="ignore"):
        limits = xp.abs(y)
        close = xp.abs(x - y) <= np.asarray(atol, limits.dtype) + limits * np.asarray(
            rtol, limits.dtype
        )
    close = close | (x == y)
    return result(close | (xp.isnan(x) & xp.isnan(y)) if equal_nan else close)


def allclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether all numbers are close; see `isclose`."""
    return result(apply("all", isclose(a, b, rtol, atol, equal_nan)._value))


def array_equal(a1: Any, a2: Any) -> Any:
    """Whether two arrays have the same shape and elements."""
    (a, b), _ = promoted(a1, a2)
    return result(apply("all", a == b) if a.shape == b.shape else np.asarray(False))


def _product(name: str) -> _Function:
    def function(a: Any, b: Any) -> Any:
        (x, y), weak = promoted(a, b)
        return result(apply(name, x, y), weak)

    return _named(function, name, f"As ``numpy.{name}``.")


dot, inner, kron, vdot = map(_product, ("dot", "inner", "kron", "vdot"))


def outer(a: Any, b: Any) -> Any:
    """The products of all elements of ``a``, as rows, with all of ``b``."""
    (x, y), weak = promoted(a, b)
    return result(apply("outer", x, y), weak)


def matmul(x1: Any, x2: Any) -> Any:
    """The product of matrices, vectors, or batches of matrices.

    Raises:
        ValueError: their shapes do not fit.
    """
    (a, b), weak = promoted(x1, x2)
    if not a.ndim or not b.ndim:
        raise ValueError("matmul: operands need at least one dimension; multiply them with `*`.")
    try:
        return result(apply("matmul", a, b), weak)
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from None


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The sum of products over several axes; as ``numpy.tensordot``."""
    from drumline.compat.values.convert import static

    (x, y), weak = promoted(a, b)
    found = static(axes)
    return result(apply("tensordot", x, y, axes=found), weak)


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The cross products of vectors of two or three components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    (x, y), weak = promoted(a, b)
    x, y = (apply("moveaxis", v, source=s, destination=-1) for v, s in ((x, axisa), (y, axisb)))
    flat = x.shape[-1] == y.shape[-1] == 2
    x, y = map(_three, (x, y))
    if flat:
        return result(x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0], weak)
    made = apply("cross", x, y)
    return result(apply("moveaxis", made, source=-1, destination=axisc), weak)


def _three(array: Any) -> Any:
    if array.shape[-1] != 2:
        return array
    return apply("pad", array, pad_width=[(0, 0)] * (array.ndim - 1) + [(0, 1)])


def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Any:
    """Sums of products by Einstein's convention.

    Args:
        subscripts: as ``"ij,jk->ik"``.
        operands: the arrays.
        kwargs: ``casting``: ``"safe"``, the default, to promote the operands, ``"no"`` to take
            their dtypes as they are; ``optimize``: True, False, ``"greedy"`` or ``"optimal"``.

    Raises:
        ValueError: an option has another value.
    """
    casting, optimize = kwargs.pop("casting", "safe"), kwargs.pop("optimize", False)
    if kwargs:
        raise TypeError(f"einsum has no arguments {', '.join(kwargs)}")
    if casting not in ("safe", "no"):
        raise ValueError(
            "Invalid value for argument `casting`. Expected casting="
            f'"safe" or casting="no". Received: casting={casting}'
        )
    if optimize not in (True, False, "greedy", "optimal"):
        raise ValueError(
            'Invalid value for argument `optimize`. Expected one of {True, "greedy", "optimal"}. '
            f"Received: optimize={optimize}"
        )
    if casting == "safe":
        arrays, weak = promoted(*operands)
    else:
        arrays, weak = [array_of(each) for each in operands], False
        if len({each.dtype for each in arrays}) > 1:
            raise InvalidArgumentError(None, None, "einsum: operands of several dtypes")
    path = "optimal" if optimize == "optimal" else "greedy"

    def of(function: _Function) -> _Function:
        return lambda *given, **_: function(subscripts, *given, optimize=path)

    return result(call(of(np.einsum), of(jnp.einsum), *arrays), weak)


def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """The differences of neighbours along an axis, ``n`` times.

    Raises:
        ValueError: the axis is out of range, or ``n`` below zero.
    """
    array = array_of(a)
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"Argument `axis` (received axis={axis}) is out of bounds for {a}.")
    if n < 0:
        raise ValueError(f"Argument `order` must be a non-negative integer. Received: axis={n}")
    return result(apply("diff", array, n=n, axis=axis), weakness(a))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of ``x`` where a condition is true, else of ``y``; `nonzero` without these.

    Raises:
        ValueError: one of ``x`` and ``y`` is given alone.
    """
    from drumline.compat.ops.numpy.arrays import nonzero

    chosen = _bools(condition)
    if x is None and y is None:
        return nonzero(Tensor(chosen))
    if x is None or y is None:
        raise ValueError("Both x and y must be ndarrays, or both must be None.")
    (a, b), weak = promoted(x, y)
    return result(apply("where", chosen, a, b), weak)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Elements of the first choice whose condition is true, else ``default``.

    Raises:
        ValueError: there are none, or not as many conditions as choices.
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})"
        )
    if not len(condlist):
        raise ValueError("condlist must be non-empty")
    (found, *choices), weak = promoted(default, *choicelist)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        found = apply("where", _bools(condition), choice, found)
    return result(found, weak)


def astype(x: Any, dtype: Any, name: Any = None) -> Any:
    """``x`` in another dtype, as ``tf.cast``; the method of tensors."""
    return elementwise.cast(x, dtype)
