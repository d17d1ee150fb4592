"""``tf.experimental.numpy``."""

from drumline.compat.symbols.table import area, same_names

_NUMPY = "drumline.compat.ops.numpy"
_PREFIX = "experimental.numpy."
_BITS = "other random bits than TensorFlow's"
_SPACED = "dtype= is honoured, which TensorFlow passes over with numpy 2"
_DRAWS = "poisson rand randint randn random standard_normal uniform"

AREA = (
    *same_names(
        "numpy",
        _PREFIX,
        "bool_ complex128 complex64 float16 float32 float64 inexact int16 int32 int64 int8 int_ "
        "object_ uint16 uint32 uint64 uint8 iinfo issubdtype e inf newaxis pi",
    ),
    *area(
        "numpy",
        complex128="experimental.numpy.complex_",
        float64="experimental.numpy.float_",
        bytes_="experimental.numpy.string_",
        str_="experimental.numpy.unicode_",
    ),
    *area("drumline.compat.values.tensor", Tensor="experimental.numpy.ndarray"),
    *same_names(
        f"{_NUMPY}.make",
        _PREFIX,
        "arange array asanyarray asarray ascontiguousarray broadcast_arrays broadcast_to copy "
        "empty empty_like eye finfo full full_like geomspace identity isscalar linspace logspace "
        "meshgrid ndim ones ones_like promote_types result_type shape size tri zeros zeros_like",
        differences=dict.fromkeys(("linspace", "logspace"), _SPACED),
    ),
    *same_names(
        f"{_NUMPY}.math",
        _PREFIX,
        "abs absolute add allclose angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
        "around array_equal bitwise_and bitwise_not bitwise_or bitwise_xor cbrt ceil clip conj "
        "conjugate cos cosh cross deg2rad diff divide divmod dot einsum equal exp exp2 expm1 fabs "
        "fix float_power floor floor_divide gcd greater greater_equal heaviside hypot imag inner "
        "isclose iscomplex iscomplexobj isfinite isinf isnan isneginf isposinf isreal isrealobj "
        "kron lcm less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and "
        "logical_not logical_or logical_xor matmul maximum minimum mod multiply negative nextafter "
        "not_equal outer polyval positive power rad2deg real reciprocal remainder round select "
        "sign signbit sin sinc sinh sqrt square subtract tan tanh tensordot true_divide vdot where",
        differences={
            "angle": "float64 numbers have float64 angles; TensorFlow's are float32",
            **dict.fromkeys(
                ("log2", "log10", "logaddexp2", "rad2deg"),
                "float32 numbers have float32 results, as numpy's; TensorFlow's are float64",
            ),
            **dict.fromkeys(
                ("around", "round"),
                "with negative decimals integers are rounded as numpy does; TensorFlow cuts digits "
                "off that its floats miss",
            ),
        },
    ),
    *same_names(
        f"{_NUMPY}.reductions",
        _PREFIX,
        "all amax amin any argmax argmin argsort average count_nonzero cumprod cumsum max mean min "
        "nanmean nanprod nansum prod ptp sort std sum trace var",
    ),
    *same_names(
        f"{_NUMPY}.arrays",
        _PREFIX,
        "append atleast_1d atleast_2d atleast_3d compress concatenate diag diag_indices diagflat "
        "diagonal dsplit dstack expand_dims flatten flip fliplr flipud hsplit hstack ix_ moveaxis "
        "nonzero pad ravel repeat reshape roll rot90 split squeeze stack swapaxes take "
        "take_along_axis tile transpose tril triu vander vsplit vstack",
    ),
    *same_names(
        f"{_NUMPY}.random",
        "experimental.numpy.random.",
        f"{_DRAWS} seed",
        differences=dict.fromkeys(_DRAWS.split(), _BITS),
    ),
    *same_names(
        f"{_NUMPY}.behavior",
        _PREFIX,
        "experimental_enable_numpy_behavior",
        differences={
            "experimental_enable_numpy_behavior": "by all and safe, comparisons and the functions "
            "of tf.experimental.numpy promote as the operators do, where TensorFlow refuses, or "
            "follows numpy; elementwise functions, operators, constants and this module make weak "
            "tensors, others do not"
        },
    ),
)
