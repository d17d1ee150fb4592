"""Elementwise functions, reductions, segments: ``tf.math``, ``tf.bitwise``."""

from drumline.compat.symbols.table import area, same_names

_ELEMENTWISE = "drumline.compat.ops.elementwise"
_IN_BOTH = (
    "add add_n subtract multiply divide maximum minimum less less_equal greater greater_equal "
    "equal not_equal logical_and logical_or logical_not abs sign square sqrt exp sin cos tan asin "
    "acos atan atan2 sinh cosh tanh asinh acosh atanh floor round sigmoid truediv scalar_mul "
    "negative"
)
_MATH = (
    "logical_xor divide_no_nan multiply_no_nan squared_difference rsqrt expm1 log log1p ceil rint "
    "reciprocal reciprocal_no_nan log_sigmoid softplus softsign erf erfc erfinv ndtri lgamma "
    "digamma lbeta bessel_i0 bessel_i0e bessel_i1 bessel_i1e is_nan is_inf is_finite real imag "
    "conj angle polyval floordiv igamma igammac zeta xlogy xlog1py nextafter floormod"
)

_SPECIAL = "drumline.compat.ops.math.special"

AREA = (
    *same_names(
        _SPECIAL,
        "math.",
        "accumulate_n betainc cumulative_logsumexp erfcinv invert_permutation is_non_decreasing "
        "is_strictly_increasing polygamma sobol_sample xdivy approx_max_k approx_min_k",
    ),
    *same_names(
        _SPECIAL,
        "math.special.",
        "bessel_j0 bessel_j1 bessel_k0 bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1 dawsn "
        "expint fresnel_cos fresnel_sin spence",
    ),
    *same_names(_SPECIAL, "", "approx_top_k realdiv truncatediv"),
    *same_names(_ELEMENTWISE, "", _IN_BOTH),
    *same_names(_ELEMENTWISE, "math.", _IN_BOTH),
    *same_names(_ELEMENTWISE, "math.", _MATH),
    *same_names(_ELEMENTWISE, "bitwise.", "bitwise_and bitwise_or bitwise_xor invert"),
    *same_names(_ELEMENTWISE, "bitwise.", "left_shift right_shift"),
    *same_names(_ELEMENTWISE, "", "cast saturate_cast clip_by_value"),
    *area(
        _ELEMENTWISE,
        power="pow math.pow",
        floormod="math.mod",
        truncatemod="truncatemod",
        complex="complex",
        bessel_i0="math.special.bessel_i0",
        bessel_i1="math.special.bessel_i1",
    ),
)
