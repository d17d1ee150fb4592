"""``tf.math``'s elementwise functions, and Python's operators on tensors.

`binary` and `unary` make a function of tensors of a pair of functions, numpy's and JAX's. With
symbolic tensors of Keras among the operands, `keras.ops` has the function of the same name.
"""

from __future__ import annotations

import collections
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.scipy import special

from drumline.compat.values import derivatives, dtypes, promotion
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.computing import compute_as_one
from drumline.compat.values.convert import (
    WIDE,
    cast_array,
    convert,
    is_jax,
    is_traced,
    raw,
    same_dtype,
)
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor, TensorType
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython
from drumline.distribute.values import PerReplica

_rules = promotion.rules

_NUMBERS: dict[str, tuple[type, ...]] = collections.defaultdict(
    tuple, f=(float, int), i=(int,), c=(float, int)
)
"""The Python numbers that arrays of a kind take as they are."""


def keras_ops(*values: Any) -> Any:
    """`keras.ops` if one of the values is a symbolic tensor of Keras; else None."""
    keras = sys.modules.get("keras")
    if keras is None or not hasattr(keras, "KerasTensor"):
        return None
    symbolic = keras.KerasTensor
    return keras.ops if any(isinstance(value, symbolic) for value in values) else None


def binary(
    name: str,
    of_numpy: Callable[..., Any],
    of_jax: Callable[..., Any],
    of_symbols: Callable[[Any, Any], Any] | None = None,
    keras_name: str | None = None,
) -> Callable[..., Any]:
    """A function of two tensors of one dtype.

    Args:
        name: TensorFlow's name of the operation, for messages.
        of_numpy: computes it of numpy's arrays.
        of_jax: computes it of JAX's.
        of_symbols: computes it of strings in a traced map, if that is possible.
        keras_name: of the function in `keras.ops`; None for `name` in lower case.
    """
    in_keras, label = keras_name or name.lower(), name

    def operation(x: Any, y: Any, name: Any = None) -> Any:
        if _rules.auto and keras_ops(x, y) is None:
            return _of_two(general, x, y)
        if type(x) is Tensor and type(y) is Tensor:
            a, b = x._value, y._value
            if type(a) is np.ndarray and type(b) is np.ndarray and a.dtype == b.dtype:
                try:
                    return Tensor(of_numpy(a, b))
                except ValueError as error:
                    raise InvalidArgumentError(None, None, f"{label}: {error}") from None
        elif type(x) is Tensor and type(y) in _NUMBERS[getattr(x._value.dtype, "kind", "")]:
            a = x._value
            if type(a) is np.ndarray:
                return Tensor(of_numpy(a, a.dtype.type(y)))
        return general(x, y)

    def general(x: Any, y: Any) -> Any:
        in_model = keras_ops(x, y)
        if in_model is not None:
            return getattr(in_model, in_keras)(x, y)
        a, b = same_dtype(x, y, label)
        if isinstance(a, Symbol) or isinstance(b, Symbol):
            if of_symbols is None:
                raise ValueNeedsPython("the function computes with a string")
            return Tensor(of_symbols(a, b))
        if is_jax(a) or is_jax(b):
            return Tensor(compute_as_one(of_jax, a, b))
        try:
            return Tensor(of_numpy(a, b))
        except ValueError as error:
            raise InvalidArgumentError(None, None, f"{label}: {error}") from None

    operation.__name__ = operation.__qualname__ = name.lower()
    operation.elementwise = 2  # type: ignore[attr-defined]
    operation.__doc__ = f"``{name}`` of two tensors, element by element, with broadcasting."
    return operation


def unary(
    name: str, of_numpy: Callable[..., Any] | None, of_jax: Callable[..., Any], floats: bool = False
) -> Callable[..., Any]:
    """A function of one tensor, element by element.

    Args:
        name: the name, also of the function in `keras.ops`.
        of_numpy: computes it of numpy's arrays; None if JAX alone has it.
        of_jax: computes it of JAX's.
        floats: whether integers are refused, as TensorFlow does.
    """

    def operation(x: Any, name: Any = None) -> Any:
        if _rules.auto and keras_ops(x) is None:
            return _of_one(general, x)
        return general(x)

    def general(x: Any) -> Any:
        in_model = keras_ops(x)
        if in_model is not None:
            return getattr(in_model, label)(x)
        value = convert(x)
        if isinstance(value, Symbol):
            raise ValueNeedsPython("the function computes with a string")
        if floats and value.dtype.kind in "iub":
            raise InvalidArgumentError(
                None, None, f"Value for attr 'T' of {value.dtype} is not allowed for {label}"
            )
        if of_numpy is None or is_jax(value):
            return Tensor(compute_as_one(of_jax, value))
        with np.errstate(all="ignore"):
            made = of_numpy(value)
        return Tensor(made if not floats or made.dtype == value.dtype else made.astype(value.dtype))

    label = name
    operation.__name__ = operation.__qualname__ = name
    operation.elementwise = 1  # type: ignore[attr-defined]
    operation.__doc__ = f"``{name}`` of a tensor, element by element."
    return operation


def _of_two(operation: Callable[..., Any], x: Any, y: Any) -> Any:
    """A function of two operands, promoted by the rules ``all`` and ``safe``; weak if both are."""
    dtype, weak = promotion.combined(promotion.leaves((_operand(x), _operand(y))))
    made = operation(*(_in_dtype(each, dtype) for each in (x, y)))
    if weak and type(made) is Tensor and made.dtype.is_numeric:
        made._weak = True
    return made


def _operand(value: Any) -> Any:
    """What says the dtype of an operand: a tensor or number itself, the value of a variable."""
    if type(value) is Tensor or isinstance(value, (*promotion.NUMBERS, list, tuple)):
        return value
    return raw(value)


def _in_dtype(value: Any, dtype: dtypes.DType) -> Tensor:
    """A tensor in another dtype; of Python's numbers with all their digits."""
    numbers = all(isinstance(e, promotion.NUMBERS) for e in promotion.leaves(value))
    array = np.asarray(value) if numbers else convert(value)
    return Tensor(array if array.dtype == dtype.dtype else cast_array(array, dtype.dtype))


def _of_one(operation: Callable[..., Any], x: Any) -> Any:
    """A function of one operand by the rules ``all`` and ``safe``: weak if this is."""
    weak = promotion.combined(promotion.leaves(_operand(x)))[1]
    value = convert(x)
    made = operation(Tensor(value))
    if weak and type(made) is Tensor and made._value.dtype == value.dtype:
        made._weak = True
    return made


def with_parameters(names: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose parameters, but ``name``, have other names, separated by spaces."""
    own = names.split()

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for each in own[len(arguments) :]:
            if each not in keywords:
                break
            arguments = (*arguments, keywords.pop(each))
        return function(*arguments, **keywords)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(each, kind) for each in own]
        + [inspect.Parameter("name", kind, default=None)]
    )
    return call


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, b: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(a, b)

    return call


def _integers_divide(function: Callable[..., Any]) -> Callable[..., Any]:
    """numpy's function, which raises for integers divided by zero."""

    def call(a: Any, b: Any) -> Any:
        if a.dtype.kind in "iu":
            if np.size(b) and not np.all(b):
                raise InvalidArgumentError(None, None, "Integer division by zero")
            return function(a, b)
        with np.errstate(all="ignore"):
            return function(a, b)

    return call


def _add_numpy(a: np.ndarray, b: np.ndarray) -> Any:
    return np.add(a, b)


def _join(a: Any, b: Any) -> Any:
    from drumline import strings

    return strings.join([a, b])


def _compared(function: Callable[..., Any]) -> Callable[..., Any]:
    """A comparison of numpy's, which of objects gives objects, as bools."""

    def call(a: Any, b: Any) -> Any:
        made = function(a, b)
        return made.astype(bool) if getattr(made, "dtype", None) == np.dtype(object) else made

    return call


def _truncated_mod(xp: Any) -> Callable[..., Any]:
    def call(a: Any, b: Any) -> Any:
        return xp.fmod(a, b)

    return call


def _to_float(array: Any) -> Any:
    """An array of integers as floats, as TensorFlow's ``/``; float32 where JAX has no more."""
    small = array.dtype.itemsize <= 2
    if array.dtype.kind not in "iub":
        return array
    if array.dtype.kind == "b":
        raise TypeError("bool has no division")
    if is_jax(array) and not small and is_traced(array):
        return array.astype(jax.dtypes.canonicalize_dtype(np.float64))
    return cast_array(array, np.dtype(np.float32 if small else np.float64))


_divide = binary("RealDiv", _quiet(np.true_divide), jnp.true_divide, None, "true_divide")


def truediv(x: Any, y: Any, name: Any = None) -> Any:
    """``x / y``: of integers float64, of those of 16 bits and fewer float32, as TensorFlow."""
    if keras_ops(x, y) is not None:
        return _divide(x, y)
    if _rules.auto:
        return _of_two(_quotient, x, y)
    return _quotient(x, y)


def _quotient(x: Any, y: Any) -> Any:
    a, b = same_dtype(x, y, "RealDiv")
    if isinstance(a, Symbol) or isinstance(b, Symbol):
        raise ValueNeedsPython("the function computes with a string")
    return _divide(Tensor(_to_float(a)), Tensor(_to_float(b)))


divide = truediv

add = binary("AddV2", _add_numpy, jnp.add, _join, "add")
subtract = binary("Sub", np.subtract, jnp.subtract, None, "subtract")
multiply = binary("Mul", _quiet(np.multiply), jnp.multiply, None, "multiply")
floordiv = binary(
    "FloorDiv", _integers_divide(np.floor_divide), jnp.floor_divide, None, "floor_divide"
)
floormod = binary("FloorMod", _integers_divide(np.mod), jnp.mod, None, "mod")
truncatemod = binary(
    "TruncateMod", _integers_divide(_truncated_mod(np)), _truncated_mod(jnp), None, "mod"
)
power = binary("Pow", _quiet(np.power), jnp.power, None, "power")
maximum = binary("Maximum", np.maximum, derivatives.maximum)
minimum = binary("Minimum", np.minimum, derivatives.minimum)
atan2 = with_parameters("y x", binary("Atan2", np.arctan2, jnp.arctan2, None, "arctan2"))
nextafter = with_parameters("x1 x2", binary("NextAfter", np.nextafter, jnp.nextafter))
less = binary("Less", _compared(np.less), jnp.less)
less_equal = binary("LessEqual", _compared(np.less_equal), jnp.less_equal, None, "less_equal")
greater = binary("Greater", _compared(np.greater), jnp.greater)
greater_equal = binary(
    "GreaterEqual", _compared(np.greater_equal), jnp.greater_equal, None, "greater_equal"
)
equal = binary("Equal", _compared(np.equal), jnp.equal, lambda a, b: a == b)
not_equal = binary(
    "NotEqual", _compared(np.not_equal), jnp.not_equal, lambda a, b: a != b, "not_equal"
)
logical_and = binary("LogicalAnd", np.logical_and, jnp.logical_and, None, "logical_and")
logical_or = binary("LogicalOr", np.logical_or, jnp.logical_or, None, "logical_or")
logical_xor = binary("LogicalXor", np.logical_xor, jnp.logical_xor, None, "logical_xor")
bitwise_and = binary("BitwiseAnd", np.bitwise_and, jnp.bitwise_and, None, "bitwise_and")
bitwise_or = binary("BitwiseOr", np.bitwise_or, jnp.bitwise_or, None, "bitwise_or")
bitwise_xor = binary("BitwiseXor", np.bitwise_xor, jnp.bitwise_xor, None, "bitwise_xor")
left_shift = binary("LeftShift", np.left_shift, jnp.left_shift, None, "left_shift")
right_shift = binary("RightShift", np.right_shift, jnp.right_shift, None, "right_shift")
igamma = with_parameters("a x", binary("Igamma", special.gammainc, special.gammainc))
igammac = with_parameters("a x", binary("Igammac", special.gammaincc, special.gammaincc))
zeta = with_parameters("x q", binary("Zeta", special.zeta, special.zeta))
xlogy = binary("Xlogy", special.xlogy, derivatives.xlogy)
xlog1py = binary("Xlog1py", special.xlog1py, special.xlog1py)


def _no_nan(f: Callable[..., Any], xp: Any) -> Callable[..., Any]:
    def call(a: Any, b: Any) -> Any:
        zero = b == 0
        return xp.where(zero, xp.zeros((), a.dtype), f(a, xp.where(zero, xp.ones((), b.dtype), b)))

    return call


divide_no_nan = binary("DivNoNan", _no_nan(np.true_divide, np), _no_nan(jnp.true_divide, jnp))
multiply_no_nan = binary(
    "MulNoNan",
    lambda a, b: np.where(b == 0, np.zeros((), a.dtype), _quiet(np.multiply)(a, b)),
    lambda a, b: jnp.where(b == 0, jnp.zeros((), a.dtype), a * b),
)


def _squared_difference(a: Any, b: Any) -> Any:
    return (a - b) * (a - b)


squared_difference = binary("SquaredDifference", _squared_difference, _squared_difference)

negative = unary("negative", np.negative, jnp.negative)
sign = unary("sign", np.sign, jnp.sign)
square = unary("square", np.square, jnp.square)
logical_not = unary("logical_not", np.logical_not, jnp.logical_not)
invert = unary("bitwise_not", np.invert, jnp.invert)
floor = unary("floor", np.floor, jnp.floor)
ceil = unary("ceil", np.ceil, jnp.ceil)
rint = unary("round", np.rint, jnp.rint)
round = unary("round", np.round, jnp.round)
sqrt = unary("sqrt", np.sqrt, jnp.sqrt, floats=True)
rsqrt = unary("rsqrt", lambda x: 1 / np.sqrt(x), jax.lax.rsqrt, floats=True)
exp = unary("exp", np.exp, jnp.exp, floats=True)
expm1 = unary("expm1", np.expm1, jnp.expm1, floats=True)
log = unary("log", np.log, jnp.log, floats=True)
log1p = unary("log1p", np.log1p, jnp.log1p, floats=True)
sin = unary("sin", np.sin, jnp.sin, floats=True)
cos = unary("cos", np.cos, jnp.cos, floats=True)
tan = unary("tan", np.tan, jnp.tan, floats=True)
asin = unary("arcsin", np.arcsin, jnp.arcsin, floats=True)
acos = unary("arccos", np.arccos, jnp.arccos, floats=True)
atan = unary("arctan", np.arctan, jnp.arctan, floats=True)
sinh = unary("sinh", np.sinh, jnp.sinh, floats=True)
cosh = unary("cosh", np.cosh, jnp.cosh, floats=True)
tanh = unary("tanh", np.tanh, jnp.tanh, floats=True)
asinh = unary("arcsinh", np.arcsinh, jnp.arcsinh, floats=True)
acosh = unary("arccosh", np.arccosh, jnp.arccosh, floats=True)
atanh = unary("arctanh", np.arctanh, jnp.arctanh, floats=True)
reciprocal = unary("reciprocal", lambda x: (1 / x).astype(x.dtype), jnp.reciprocal, floats=True)
reciprocal_no_nan = unary(
    "reciprocal_no_nan",
    lambda x: _no_nan(np.true_divide, np)(np.ones_like(x), x),
    lambda x: _no_nan(jnp.true_divide, jnp)(jnp.ones_like(x), x),
    floats=True,
)
sigmoid = unary("sigmoid", None, jax.nn.sigmoid, floats=True)
log_sigmoid = unary("log_sigmoid", None, jax.nn.log_sigmoid, floats=True)
softplus = with_parameters("features", unary("softplus", None, jax.nn.softplus, floats=True))
softsign = with_parameters("features", unary("softsign", None, jax.nn.soft_sign, floats=True))
erf = unary("erf", None, special.erf, floats=True)
erfc = unary("erfc", None, special.erfc, floats=True)
erfinv = unary("erfinv", None, special.erfinv, floats=True)
ndtri = unary("ndtri", None, special.ndtri, floats=True)
lgamma = unary("lgamma", None, special.gammaln, floats=True)
digamma = unary("digamma", None, special.digamma, floats=True)
lbeta = unary(
    "lbeta",
    None,
    lambda x: special.gammaln(x).sum(-1) - special.gammaln(x.sum(-1)),
    floats=True,
)
bessel_i0 = unary("i0", None, special.i0, floats=True)
bessel_i0e = unary("i0e", None, special.i0e, floats=True)
bessel_i1 = unary("i1", None, special.i1, floats=True)
bessel_i1e = unary("i1e", None, special.i1e, floats=True)
is_nan = unary("isnan", np.isnan, jnp.isnan)
is_inf = unary("isinf", np.isinf, jnp.isinf)
is_finite = unary("isfinite", np.isfinite, jnp.isfinite)
real = with_parameters("input", unary("real", np.real, jnp.real))
imag = with_parameters("input", unary("imag", np.imag, jnp.imag))
conj = unary("conjugate", np.conjugate, jnp.conjugate)
angle = with_parameters("input", unary("angle", np.angle, jnp.angle))
_absolute = unary("absolute", np.abs, derivatives.absolute)


def abs(x: Any, name: Any = None) -> Any:
    """The absolute value; of complex numbers the magnitude."""
    return _absolute(x)


def complex(real: Any, imag: Any, name: Any = None) -> Any:
    """Complex numbers of their parts."""
    return _complex(real, imag)


_complex = binary("Complex", lambda a, b: a + 1j * b, lambda a, b: jax.lax.complex(a, b))


def polyval(coeffs: Any, x: Any, name: Any = None) -> Any:
    """The polynomial with these coefficients, that of the highest power first, at ``x``."""
    made = convert(0.0, convert(x).dtype)
    total: Any = Tensor(made)
    for coefficient in coeffs:
        total = add(multiply(total, x), coefficient)
    return total


def cast(x: Any, dtype: Any, name: Any = None) -> Any:
    """``x`` in another dtype: fractions are cut off, numbers out of range wrap around.

    Raises:
        UnimplementedError: strings are cast, or made.
    """
    wanted = dtypes.as_dtype(dtype)
    if keras_ops(x) is not None:
        return keras_ops(x).cast(x, wanted.name)
    given = raw(x)
    if isinstance(given, Symbol):
        if given.spec.is_string and wanted == dtypes.string:
            return Tensor(given)
        raise ValueNeedsPython("the function casts an array of varying shape")
    value = convert(given)
    if (value.dtype == object) != (wanted == dtypes.string):
        raise InvalidArgumentError(
            None,
            None,
            f"Cast {dtypes.of_array(value.dtype).name} to {wanted.name} is not supported",
        )
    if value.dtype == wanted.dtype:
        return x if type(x) is Tensor else Tensor(value)
    if value.dtype.kind == "c" and wanted.dtype.kind != "c":
        value = value.real
    if is_jax(value) and wanted.dtype not in WIDE:
        return Tensor(compute_as_one(_in_another, value, dtype=wanted.dtype))
    with np.errstate(all="ignore"):
        return Tensor(cast_array(value, wanted.dtype))


def _in_another(value: Any, dtype: Any) -> Any:
    return value.astype(dtype)


def saturate_cast(value: Any, dtype: Any, name: Any = None) -> Any:
    """``value`` in another dtype; numbers out of range become the nearest one in it."""
    wanted = dtypes.as_dtype(dtype)
    given = convert(value)
    if wanted.is_complex or wanted.is_bool:
        return cast(Tensor(given), wanted)
    low, high = max(wanted.min, _limits(given).min), min(wanted.max, _limits(given).max)
    xp = jnp if is_jax(given) else np
    return cast(Tensor(xp.clip(given, low, high)), wanted)


def _limits(array: Any) -> Any:
    integers = array.dtype.kind in "iu"
    return np.iinfo(array.dtype) if integers else ml_dtypes.finfo(array.dtype)


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: Any = None) -> Any:
    """Values below the smaller bound or above the greater one become these."""
    return maximum(minimum(t, clip_value_max), clip_value_min)


def add_n(inputs: Any, name: Any = None) -> Any:
    """The sum of tensors of one shape."""
    total, *others = inputs
    total = Tensor(convert(total))
    for each in others:
        total = add(total, each)
    return total


def scalar_mul(scalar: Any, x: Any, name: Any = None) -> Any:
    """A number times a tensor."""
    return multiply(scalar, x)


def _power_of(x: Any, y: Any) -> Any:
    return power(x, y)


def _operators() -> None:
    from drumline.compat.ops.linalg.matrices import matmul

    def and_(x: Any, y: Any) -> Any:
        return bitwise_and(x, y)

    pairs: dict[str, Callable[..., Any]] = {
        "add": add,
        "sub": subtract,
        "mul": multiply,
        "truediv": truediv,
        "floordiv": floordiv,
        "mod": floormod,
        "pow": _power_of,
        "matmul": matmul,
        "and": and_,
        "or": bitwise_or,
        "xor": bitwise_xor,
    }
    compared: dict[str, Callable[..., Any]] = {
        "lt": less,
        "le": less_equal,
        "gt": greater,
        "ge": greater_equal,
    }
    tensor: Any = Tensor
    _set_operators({**pairs, **compared}, pairs)
    _functions.update({**pairs, **compared})
    _reflected.update(pairs)
    tensor.__eq__ = _equality(equal, False)
    tensor.__ne__ = _equality(not_equal, True)
    tensor.__neg__ = negative
    tensor.__abs__ = abs
    tensor.__invert__ = invert
    tensor.__pos__ = lambda self: self
    tensor.OVERLOADABLE_OPERATORS = frozenset(f"__{name}__" for name in {**pairs, **compared})


def _set_operators(
    functions: dict[str, Callable[..., Any]], swapped: dict[str, Callable[..., Any]]
) -> None:
    for name, function in functions.items():
        setattr(Tensor, f"__{name}__", _operator(function))
    for name, function in swapped.items():
        setattr(Tensor, f"__r{name}__", _operator(function, swapped=True))


def promote_operands(
    promote: Callable[[Any, Any], tuple[Any, Any]] | None, matmul: Callable[..., Any]
) -> None:
    """Have the operators of tensors take operands of two dtypes.

    Args:
        promote: makes of two operands tensors of one dtype; None for operands as they are.
        matmul: the function of ``@``, which takes vectors, too.
    """
    tensor: Any = Tensor

    def promoting(function: Callable[..., Any]) -> Callable[..., Any]:
        def operate(x: Any, y: Any) -> Any:
            if keras_ops(x, y) is not None:
                return function(x, y)
            return function(*promote(x, y)) if promote is not None else function(x, y)

        return operate

    _set_operators(
        {name: promoting(each) for name, each in {**_functions, "matmul": matmul}.items()},
        {name: promoting(each) for name, each in {**_reflected, "matmul": matmul}.items()},
    )
    tensor.__eq__ = _equality(promoting(equal), False)
    tensor.__ne__ = _equality(promoting(not_equal), True)


_functions: dict[str, Callable[..., Any]] = {}
_reflected: dict[str, Callable[..., Any]] = {}
"""The functions of the operators, by their names."""

_NOT_OPERANDS = (PerReplica, dict, type(None), CompositeTensor)
"""Whose own operators compute with a tensor, or nothing does."""


def _operator(function: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    def operate(self: Tensor, other: Any) -> Any:
        if type(other) is not Tensor and isinstance(other, _NOT_OPERANDS):
            return NotImplemented
        return function(other, self) if swapped else function(self, other)

    return operate


def _equality(function: Callable[..., Any], unequal: bool) -> Callable[..., Any]:
    """``==`` and ``!=``: False or True of what cannot be compared, as TensorFlow."""

    def operate(self: Tensor, other: Any) -> Any:
        if TensorType.compares_identity:
            return (self is other) is not unequal
        if other is None or isinstance(other, (dict, PerReplica)):
            return unequal
        if isinstance(other, CompositeTensor):
            return NotImplemented
        try:
            return function(self, other)
        except (InvalidArgumentError, TypeError, ValueError) as error:
            if isinstance(error, ValueNeedsPython):
                raise
            return unequal

    return operate


_operators()
