"""``tf.experimental.numpy`` gives what TensorFlow's gives, where it is installed."""

import itertools

import numpy as np
import pytest

from drumline.compat import tf as ours
from drumline.compat.symbols import table
from drumline.compat.values import dtypes, promotion

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)
ITS, OURS = theirs.experimental.numpy, ours.experimental.numpy

FLOATS = np.array([[0.5, -1.25, 2.0], [3.5, 0.0, -0.75]], np.float32)
WIDE = FLOATS.astype(np.float64) / 3
INTS = np.array([[7, -3, 2], [5, 4, -9]], np.int32)
SMALL = np.array([[1, 2, 3], [4, 5, 6]], np.int8)
BOOLS = np.array([[True, False, True], [False, False, True]])
NANS = np.array([[1.0, np.nan, 3.0], [np.inf, 2.0, -np.inf]], np.float32)
COMPLEX = (FLOATS + 1j * FLOATS[::-1]).astype(np.complex64)


def same(got, wanted, close=1e-5):
    """Compare results: nested lists and tuples of tensors, or plain values."""
    if isinstance(wanted, (list, tuple)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            same(one, other, close)
    elif isinstance(wanted, theirs.Tensor):
        assert got.dtype.name == wanted.dtype.name
        assert tuple(got.shape) == tuple(wanted.shape)
        if wanted.dtype == theirs.string:
            np.testing.assert_array_equal(np.asarray(got), wanted.numpy())
            return
        np.testing.assert_allclose(np.asarray(got), wanted.numpy(), rtol=close, atol=close)
    elif isinstance(wanted, theirs.TensorShape):
        assert got.as_list() == wanted.as_list()
    elif isinstance(wanted, theirs.DType):
        assert got.name == wanted.name
    else:
        assert type(got) is type(wanted)
        assert got == wanted


@pytest.fixture(autouse=True, scope="module")
def numpy_behavior():
    """TensorFlow's own functions use the methods of tensors that this gives; it is taken back."""
    from tensorflow.python.framework import ops

    classes = {cls: dict(vars(cls)) for cls in (theirs.Tensor, ours.Tensor)}
    ITS.experimental_enable_numpy_behavior()
    OURS.experimental_enable_numpy_behavior()
    yield
    ITS.experimental_enable_numpy_behavior(dtype_conversion_mode="off")
    OURS.experimental_enable_numpy_behavior(dtype_conversion_mode="off")
    ops._numpy_style_slicing = False
    for cls, before in classes.items():
        for name in set(vars(cls)) - set(before):
            delattr(cls, name)


def compare(name, *args, strict=False, **kwargs):
    """Call a function of both, and compare results, or the classes of errors.

    Without ``strict``, what TensorFlow has no kernel for may be what numpy gives.
    """
    it, our = ITS, OURS
    for part in name.split("."):
        it, our = getattr(it, part), getattr(our, part)
    try:
        wanted = it(*args, **kwargs)
    except Exception as error:
        kind = error
    else:
        same(our(*args, **kwargs), wanted)
        return
    expected = getattr(ours.errors, type(kind).__name__, type(kind))
    try:
        got = our(*args, **kwargs)
    except (expected, ours.errors.InvalidArgumentError, TypeError, ValueError):
        if strict:
            with pytest.raises(expected):
                our(*args, **kwargs)
        return
    assert not strict, f"TensorFlow raises {kind!r}"
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(np.asarray(got), getattr(np, name)(*args, **kwargs), rtol=1e-3)


def test_all_public_names_are_there():
    names = [
        name
        for name in table.tensorflow().names
        if name.startswith("experimental.numpy.") and not table.is_namespace(name)
    ]
    absent = [name for name in names if table.find(name) is None]
    assert len(names) > 230
    assert absent == []
    public = [n for n in dir(ITS) if not n.startswith("_")]
    assert [n for n in public if not hasattr(OURS, n)] == []
    assert [n for n in dir(ITS.random) if n[0] != "_" and not hasattr(OURS.random, n)] == []


@pytest.mark.parametrize(
    "name", ["bool_", "float_", "int_", "complex_", "string_", "unicode_", "iinfo", "pi", "newaxis"]
)
def test_dtypes_and_constants_are_numpys(name):
    assert getattr(OURS, name) is getattr(ITS, name) or getattr(OURS, name) == getattr(ITS, name)


ONE = (
    "abs absolute ceil cos cosh deg2rad exp exp2 expm1 fabs fix floor negative positive sin sinc "
    "sinh square tan tanh arctan arcsinh cbrt isnan isfinite signbit sign real imag conj conjugate "
    "iscomplex isreal iscomplexobj isrealobj around round angle logical_not ravel flatten copy "
    "asarray array zeros_like ones_like empty_like sum prod mean amax amin max min std var ptp all "
    "any cumsum cumprod nansum nanprod nanmean count_nonzero argmax argmin argsort sort transpose "
    "flip flipud fliplr rot90 diff diag trace tril triu diagonal squeeze atleast_1d atleast_2d "
    "atleast_3d nonzero ndim shape size isscalar average expand_dims_0 vander_1 diagflat meshgrid "
    "broadcast_arrays identity_like bitwise_not reciprocal"
)


@pytest.mark.parametrize("name", ONE.split())
@pytest.mark.parametrize(
    "value", [FLOATS, WIDE, INTS, SMALL, BOOLS, COMPLEX, [[1, 2], [3, 4]], 2.5, 3], ids=str
)
def test_functions_of_one_array(name, value):
    kind = np.asarray(value).dtype.name
    if name == "angle" and kind != "complex64":
        pytest.skip("TensorFlow gives float32 of all real numbers; numpy's dtype is kept")
    if name == "nonzero" and kind == "complex64":
        pytest.skip("TensorFlow takes numbers without a real part for zero")
    if name in ("flipud", "fliplr") and not np.ndim(value):
        pytest.skip("TensorFlow passes numbers through; numpy refuses them")
    if name == "expand_dims_0":
        return compare("expand_dims", value, 0)
    if name == "vander_1":
        return compare("vander", np.ravel(value))
    if name == "identity_like":
        return compare("identity", 3, dtype=np.asarray(value).dtype)
    return compare(name, value)


RANGES = "log log1p sqrt arcsin arccos arccosh arctanh"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RANGES.split())
def test_functions_of_a_range(name, dtype):
    low = 1.5 if name == "arccosh" else 0.25
    compare(name, np.array([low, low + 0.25, low + 0.5], dtype))


@pytest.mark.parametrize("name", ["log2", "log10", "rad2deg"])
def test_functions_that_keep_numpys_dtype(name):
    for dtype in ("float32", "float64"):
        value = np.array([0.25, 0.75], dtype)
        same(getattr(OURS, name)(value), theirs.constant(getattr(np, name)(value)))
    if name != "rad2deg":  # of arrays that are no tensors TensorFlow gives numpy's
        compare(name, WIDE + 2)


@pytest.mark.parametrize("name", ["isinf", "isposinf", "isneginf"])
def test_infinities_of_tensors(name):
    for value in (NANS, INTS):
        same(getattr(OURS, name)(ours.constant(value)), getattr(ITS, name)(theirs.constant(value)))


TWO = (
    "add subtract multiply true_divide divide floor_divide mod remainder maximum minimum power "
    "float_power arctan2 heaviside hypot logaddexp logaddexp2 isclose allclose array_equal equal "
    "not_equal greater greater_equal less less_equal logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor gcd lcm inner outer kron dot vdot matmul tensordot divmod "
    "nextafter append cross polyval"
)
PAIRS = {
    "f4": (FLOATS, FLOATS.T[::-1][:, :].T + 3),
    "f4 f8": (FLOATS + 4, WIDE + 2),
    "i4 i1": (np.abs(INTS), SMALL),
    "i4 f4": (np.abs(INTS), np.abs(FLOATS) + 1),
    "i4 python": (np.abs(INTS), 2),
    "i4 python float": (np.abs(INTS), 2.5),
    "f4 python float": (FLOATS + 4, 2.5),
    "bool": (BOOLS, ~BOOLS),
    "bool i4": (BOOLS, np.abs(INTS)),
    "python": ([1, 2, 3], [4.0, 5.0, 6.0]),
    "shapes": (FLOATS, np.ones((4, 2), np.float32)),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", TWO.split())
def test_functions_of_two_arrays(name, pair):
    if name == "logaddexp2" and pair in ("f4", "f4 python float"):
        pytest.skip("TensorFlow gives float64 of float32; numpy's dtype is kept")
    compare(name, *PAIRS[pair])


CALLS = [
    ("arange", (5,), {}),
    ("arange", (2, 7, 2), {}),
    ("arange", (0.0, 1.0, 0.25), {}),
    ("arange", (5, 0), {}),
    ("arange", (3,), {"dtype": np.float32}),
    ("arange", (1, 2, 0), {}),
    ("zeros", ((2, 3),), {}),
    ("ones", ([2],), {"dtype": np.int32}),
    ("empty", (3,), {}),
    ("full", ((2, 2), 7), {}),
    ("full", (2, [1.0, 2.0]), {"dtype": np.float32}),
    ("full_like", (INTS, 2.5), {}),
    ("full_like", (INTS, 2.5), {"dtype": np.float32}),
    ("full_like", (INTS, 1), {"order": "C"}),
    ("eye", (3,), {}),
    ("eye", (3, 4, 1), {"dtype": np.int32}),
    ("identity", (2,), {}),
    ("tri", (3,), {}),
    ("tri", (3, 4, 1), {"dtype": np.int64}),
    ("linspace", (0, 10, 5), {}),
    ("linspace", (0.0, 1.0), {"num": 4, "endpoint": False}),
    ("linspace", (0, 10, 5), {"retstep": True}),
    ("linspace", (0, 1, -1), {}),
    ("logspace", (0.0, 3.0, 4), {}),
    ("geomspace", (1.0, 1000.0, 4), {}),
    ("array", ([1, 2.5],), {}),
    ("array", ([1, 2],), {"dtype": np.float32, "ndmin": 3}),
    ("array", ([],), {}),
    ("array", ([True, 2],), {}),
    ("array", ("text",), {}),
    ("array", ([[1], [2, 3]],), {}),
    ("array", (5.7,), {"dtype": np.int32}),
    ("array", (1,), {"ndmin": 33}),
    ("array", ([2**63, 1],), {}),
    ("array", ([2**63, -1],), {}),
    ("array", (range(3),), {}),
    ("array", (None,), {}),
    ("ascontiguousarray", (5,), {}),
    ("asanyarray", (INTS,), {"dtype": np.float32}),
    ("sum", (INTS,), {"axis": 1, "keepdims": True}),
    ("sum", (BOOLS,), {"dtype": np.bool_}),
    ("sum", (INTS,), {"axis": 2}),
    ("sum", (INTS,), {"axis": (0, 1), "dtype": np.float32}),
    ("mean", (INTS,), {"axis": 0, "dtype": np.float32}),
    ("mean", (INTS,), {"out": 1}),
    ("mean", ([[-1, -2], [5, 8]],), {"axis": 1, "dtype": np.int64}),
    ("var", (INTS,), {"ddof": 1, "axis": 1, "dtype": np.float64}),
    ("var", (COMPLEX,), {}),
    ("std", (COMPLEX,), {"axis": 0}),
    ("amax", (FLOATS,), {"axis": (0, 1), "keepdims": True}),
    ("ptp", (FLOATS,), {"axis": 1}),
    ("argmin", (np.float32(3),), {}),
    ("any", (FLOATS,), {"axis": 1, "keepdims": True}),
    ("expand_dims", (INTS,), {"axis": -1}),
    ("expand_dims", (INTS,), {"axis": 5}),
    ("atleast_1d", (1, [2]), {}),
    ("zeros", ((2,),), {"dtype": None}),
    ("result_type", (np.uint8, np.int8), {}),
    ("var", (FLOATS,), {"axis": 0, "dtype": np.float64}),
    ("std", (INTS,), {"axis": 0}),
    ("average", (INTS,), {"axis": 1, "weights": [1.0, 2.0, 3.0], "returned": True}),
    ("average", (FLOATS,), {"axis": 0, "returned": True}),
    ("average", (INTS,), {"weights": np.abs(INTS)}),
    ("nansum", (NANS[:1],), {"axis": 1}),
    ("nanmean", (NANS[:1],), {}),
    ("nanprod", (NANS[:1],), {}),
    ("cumsum", (SMALL,), {"axis": -1}),
    ("cumprod", (INTS,), {"axis": 0, "dtype": np.float64}),
    ("count_nonzero", (INTS,), {"axis": 0}),
    ("argmax", (FLOATS,), {"axis": 1}),
    ("argsort", (INTS,), {"axis": None}),
    ("argsort", (INTS,), {"kind": "heapsort"}),
    ("sort", (INTS,), {"axis": 0}),
    ("sort", (INTS,), {"kind": "stable"}),
    ("reshape", (INTS, -1), {}),
    ("reshape", (INTS, (3, 2)), {"order": "F"}),
    ("reshape", (INTS, (4, 2)), {}),
    ("reshape", (INTS, (3, 2)), {"order": "A"}),
    ("flatten", (INTS,), {"order": "F"}),
    ("transpose", (np.zeros((2, 3, 4)),), {"axes": (1, 2, 0)}),
    ("swapaxes", (np.zeros((2, 3, 4)), 0, -1), {}),
    ("moveaxis", (np.zeros((2, 3, 4)), 0, -1), {}),
    ("moveaxis", (np.zeros((2, 3, 4)), (0, 1), (2, 0)), {}),
    ("squeeze", (np.zeros((1, 3, 1)),), {"axis": 0}),
    ("squeeze", (np.zeros((1, 3, 1)),), {"axis": 1}),
    ("concatenate", ([INTS, FLOATS],), {"axis": 1}),
    ("concatenate", ([],), {}),
    ("append", (INTS, [1.5]), {}),
    ("append", (INTS, INTS), {"axis": 0}),
    ("stack", ([INTS, FLOATS],), {"axis": -1}),
    ("hstack", (([1, 2], [3.5]),), {}),
    ("vstack", (([1, 2], [3, 4]),), {}),
    ("dstack", (([1, 2], [3, 4]),), {}),
    ("split", (np.arange(6), 3), {}),
    ("split", (np.arange(6), [2, 5]), {}),
    ("split", (np.arange(6), 4), {}),
    ("vsplit", (np.zeros((4, 2)), 2), {}),
    ("hsplit", (np.arange(4), 2), {}),
    ("hsplit", (np.arange(5), 2), {}),
    ("dsplit", (np.zeros((1, 2, 4)), [1, 3]), {}),
    ("tile", (INTS, (2, 1, 2)), {}),
    ("tile", ([1, 2], 2), {}),
    ("repeat", (INTS, 2), {"axis": 1}),
    ("repeat", ([1, 2], [2, 3]), {}),
    ("roll", (INTS, 1), {}),
    ("roll", (INTS, (1, 1)), {"axis": (0, 1)}),
    ("flip", (INTS,), {"axis": 1}),
    ("rot90", (INTS,), {"k": 3}),
    ("pad", (INTS, [(1, 1), (0, 2)], "constant"), {"constant_values": 9}),
    ("pad", (INTS, [(1, 1), (0, 2)], "reflect"), {}),
    ("pad", (INTS, [(1, 1), (0, 2)], "edge"), {}),
    ("take", (INTS, [0, 9, -4]), {}),
    ("take", (INTS, [0, 4]), {"axis": 1, "mode": "wrap"}),
    ("take", (INTS, [0]), {"mode": "raise"}),
    ("take_along_axis", (INTS, [[0, -1], [2, 1]], 1), {}),
    ("take_along_axis", (INTS, [5, 0], None), {}),
    ("compress", ([True, False], INTS), {"axis": 0}),
    ("compress", ([0, 1], INTS), {}),
    ("compress", ([[True]], INTS), {}),
    ("where", (BOOLS, INTS, 1.5), {}),
    ("where", (BOOLS,), {}),
    ("where", (BOOLS, 1), {}),
    ("select", ([INTS > 3, INTS < 0], [INTS, FLOATS]), {"default": -1}),
    ("select", ([], []), {}),
    ("clip", (INTS, 0, 4.5), {}),
    ("clip", (INTS, None, 4), {}),
    ("clip", (INTS, None, None), {}),
    ("around", (FLOATS * 1.234,), {"decimals": 2}),
    ("round", (FLOATS * 1.06,), {"decimals": 1}),
    ("angle", (COMPLEX,), {"deg": True}),
    ("sign", (INTS,), {"out": 1}),
    ("diff", (INTS,), {"n": 2}),
    ("diff", (INTS,), {"axis": 2}),
    ("diff", (BOOLS,), {"axis": 0}),
    ("diag", ([1, 2],), {"k": 1}),
    ("diag", (INTS,), {"k": -1}),
    ("diag_indices", (3,), {}),
    ("diag_indices", (-1,), {}),
    ("diagonal", (np.arange(24).reshape(2, 3, 4),), {"offset": 1, "axis1": 1, "axis2": 2}),
    ("trace", (INTS,), {"offset": 1}),
    ("tril", (INTS,), {"k": 1}),
    ("triu", (INTS,), {"k": -1}),
    ("tril", ([1, 2],), {}),
    ("vander", (np.array([1, 2, 3], np.int32), 2), {"increasing": True}),
    ("vander", (INTS,), {}),
    ("ix_", ([0, 1], [True, False, True]), {}),
    ("ix_", ([0.5],), {}),
    ("broadcast_to", (INTS, (2, 2, 3)), {}),
    ("broadcast_to", (INTS, (2, 2)), {}),
    ("broadcast_arrays", (INTS, [[1], [2]]), {}),
    ("broadcast_arrays", (INTS,), {"subok": True}),
    ("meshgrid", ([1, 2, 3], [4.0, 5.0]), {}),
    ("meshgrid", ([1, 2, 3], [4, 5]), {"indexing": "ij"}),
    ("meshgrid", ([1], [2]), {"sparse": True}),
    ("einsum", ("ij,kj->ik", INTS, FLOATS), {}),
    ("einsum", ("ij,kj->ik", FLOATS, FLOATS), {"optimize": "optimal"}),
    ("einsum", ("ij->i", FLOATS), {"casting": "unsafe"}),
    ("tensordot", (FLOATS, FLOATS), {"axes": [[1], [1]]}),
    ("matmul", (np.zeros((5, 2, 3)), np.zeros(3)), {}),
    ("cross", ([1, 2, 3], [4, 5, 6.0]), {}),
    ("cross", ([1, 2], [3, 4]), {}),
    ("cross", (np.arange(6).reshape(3, 2), np.ones((3, 2))), {"axis": 0}),
    ("isclose", ([1.0, np.nan], [1.0 + 1e-9, np.nan]), {"equal_nan": True}),
    ("array_equal", ([1, 2], [1, 2, 3]), {}),
    ("result_type", (np.int32, 1.5), {}),
    ("result_type", (INTS, np.float16), {}),
    ("result_type", (), {}),
    ("promote_types", (np.int32, np.float32), {}),
    ("size", (INTS, 0), {}),
    ("issubdtype", (np.int32, np.integer), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_calls(name, args, kwargs):
    compare(name, *args, strict=True, **kwargs)


@pytest.fixture(params=["all", "safe"])
def mode(request):
    for numpy in (ITS, OURS):
        numpy.experimental_enable_numpy_behavior(dtype_conversion_mode=request.param)
    yield request.param
    for numpy in (ITS, OURS):
        numpy.experimental_enable_numpy_behavior()


def test_the_whole_table_of_promotion():
    from tensorflow.python.framework import flexible_dtypes
    from tensorflow.python.framework.ops import PromoMode

    wanted = flexible_dtypes._BINARY_DTYPE_RES_FULL
    kinds = [kind for kind in wanted if kind[0] != theirs.string]
    assert len(kinds) == 20
    for a, b in itertools.product(kinds, kinds):
        (dtype, weak), mode = wanted[a][b]
        mine = [(dtypes.as_dtype(kind[0].name), kind[1]) for kind in (a, b)]
        found, exact = promotion._pair(*mine) if mine[0] != mine[1] else (mine[0], True)
        assert (found[0].name, found[1]) == (dtype.name, weak), (a, b)
        assert exact == (mode == PromoMode.SAFE), (a, b)


def is_weak(tensor):
    return "weak=True" in repr(tensor)


OPERANDS = [
    lambda tf: tf.constant(5),
    lambda tf: tf.constant(2.5),
    lambda tf: tf.constant(5, tf.int8),
    lambda tf: tf.constant(5, tf.uint32),
    lambda tf: tf.constant(5, tf.int64),
    lambda tf: tf.constant(2.5, tf.float16),
    lambda tf: tf.constant([2.5, 1.0], tf.float32),
    lambda tf: tf.constant(2.5, tf.float64),
    lambda tf: np.array(3, np.int16),
    lambda tf: np.array([1.5, 2.5], np.float64),
    lambda tf: tf.Variable(2.0),
    lambda tf: 7,
    lambda tf: 1.5,
]


@pytest.mark.parametrize("of", ["+", "-", "*", "/", "add", "multiply"])
def test_operands_by_the_rules(mode, of):
    def compute(tf, a, b):
        if of.isalpha():
            return getattr(tf, of)(a, b)
        return eval(f"a {of} b")

    for one, other in itertools.product(OPERANDS, OPERANDS):
        given = [make(theirs) for make in (one, other)]
        if not any(isinstance(each, theirs.Tensor) for each in given):
            continue
        try:
            wanted = compute(theirs, *given)
        except TypeError:
            with pytest.raises(TypeError):
                compute(ours, one(ours), other(ours))
            continue
        if not isinstance(wanted, theirs.Tensor):
            continue  # TensorFlow refused, and Python asked numpy
        got = compute(ours, one(ours), other(ours))
        assert got.dtype.name == wanted.dtype.name, given
        assert is_weak(got) == is_weak(wanted), given
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-3)


def test_weak_tensors(mode):
    for make in (
        lambda tf: tf.constant(5),
        lambda tf: tf.constant([5.0, 10.0, 3]),
        lambda tf: tf.constant(5, tf.int32),
        lambda tf: tf.constant(True),
        lambda tf: tf.constant("text"),
        lambda tf: tf.convert_to_tensor([1, 2]),
        lambda tf: -tf.constant(5),
        lambda tf: tf.abs([100.0, 4.0]),
        lambda tf: tf.exp(2.0),
        lambda tf: tf.constant(tf.constant(10, tf.int16), tf.float32),
        lambda tf: tf.experimental.numpy.array(1),
        lambda tf: tf.experimental.numpy.array(1.0),
        lambda tf: tf.experimental.numpy.array([1, 2.5]),
        lambda tf: tf.experimental.numpy.ones([2]),
        lambda tf: tf.experimental.numpy.sum([1, 2]),
        lambda tf: tf.experimental.numpy.sqrt(2),
        lambda tf: tf.experimental.numpy.asarray(np.int8(1)),
    ):
        got, wanted = make(ours), make(theirs)
        assert got.dtype.name == wanted.dtype.name
        assert is_weak(got) == is_weak(wanted), wanted


def test_assignments_promote(mode):
    for tf in (ours, theirs):
        variable = tf.Variable(10, dtype=tf.int32)
        variable.assign_add(tf.constant(5, tf.int16))
        assert variable.numpy() == 15
        with pytest.raises(TypeError):
            variable.assign_add(tf.constant(2.5, tf.float64))


def test_operators_promote_as_numpys():
    values = [1, 2.5, np.int8(3), np.float16(3.2), [1.5, 2.5]]
    kinds = ["int8", "int32", "int64", "float16", "float32", "float64"]
    for kind, other in itertools.product(kinds, [*values, *kinds]):

        def made(tf, kind=kind, other=other):
            beside = tf.constant(2, other) if isinstance(other, str) else other
            tensor = tf.constant([2, 3], kind)
            return [tensor + beside, beside * tensor, tensor / beside, tensor < beside]

        same(made(ours), made(theirs), 1e-3)


def test_methods_of_tensors():
    for value in (FLOATS, INTS):
        it, our = theirs.constant(value), ours.constant(value)
        for of in (
            lambda t: t.T,
            lambda t: t.ndim,
            lambda t: int(t.size),
            lambda t: t.tolist(),
            lambda t: t.reshape(3, 2),
            lambda t: t.reshape((3, 2), order="F"),
            lambda t: t.reshape(-1),
            lambda t: t.ravel(),
            lambda t: t.flatten("F"),
            lambda t: t.transpose((1, 0)),
            lambda t: t.clip(0, 2),
            lambda t: t.astype(np.float64),
            lambda t: t.max(1),
            lambda t: t.min(),
            lambda t: t.mean(axis=0),
            lambda t: round(t, 1),
            lambda t: +t,
            lambda t: t.data,
            lambda t: t[:, (True, False, True)],
            lambda t: t[(0, 1), [2, 0]],
            lambda t: t[..., None, 1],
            lambda t: t @ [1, 2, 3],
        ):
            same(of(our), of(it))


def test_python_floats_are_float32_if_preferred():
    for numpy in (ITS, OURS):
        numpy.experimental_enable_numpy_behavior(prefer_float32=True)
    try:
        for call in (
            lambda n: n.asarray(1.0),
            lambda n: n.add(1.0, 2.0),
            lambda n: n.array([1, 2.5]),
            lambda n: n.ones([2]),
            lambda n: n.sqrt(2),
            lambda n: n.mean([1, 2]),
            lambda n: n.result_type(np.int32, 1.5),
            lambda n: n.array(1j),
        ):
            same(call(OURS), call(ITS))
    finally:
        for numpy in (ITS, OURS):
            numpy.experimental_enable_numpy_behavior()


def test_another_mode_is_refused():
    for numpy in (ITS, OURS):
        with pytest.raises(ValueError, match="promotion mode best does not exist"):
            numpy.experimental_enable_numpy_behavior(dtype_conversion_mode="best")


def test_draws_have_the_same_shapes_and_dtypes():
    for call in (
        lambda n: n.random.randn(2, 3),
        lambda n: n.random.rand(2),
        lambda n: n.random.random(),
        lambda n: n.random.uniform(np.zeros(3), 2.0),
        lambda n: n.random.standard_normal(4),
        lambda n: n.random.randint(5, size=(2, 2)),
        lambda n: n.random.randint(2, 5, 3, np.int32),
        lambda n: n.random.poisson(3.0, 4),
    ):
        got, wanted = call(OURS), call(ITS)
        assert got.dtype.name == wanted.dtype.name
        assert tuple(got.shape) == tuple(wanted.shape)
