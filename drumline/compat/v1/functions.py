"""Functions of ``tf.compat.v1`` whose arguments TensorFlow 2 named or ordered otherwise.

Each is TensorFlow 2's function, called with the arguments that TensorFlow 1 had for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline.compat.ops import arrays, elementwise
from drumline.compat.ops.linalg import matrices as linalg
from drumline.compat.ops.nn import functions as nn
from drumline.compat.symbols import table
from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert, static
from drumline.compat.values.tensor import Tensor


def _former(
    name: str, target: str, parameters: str, renamed: dict[str, str], hints: str = "name"
) -> Callable[..., Any]:
    """A function of TensorFlow 1.

    Args:
        name: its own.
        target: the name of TensorFlow 2's.
        parameters: the names of its parameters, in their order.
        renamed: what TensorFlow 2 calls some of them.
        hints: those that have no effect.
    """
    names, ignored = parameters.split(), hints.split()

    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names):
            raise TypeError(f"{name}() takes {len(names)} arguments, but {len(args)} were given")
        for key, value in kwargs.items():
            if key not in names or key in given:
                problem = "got an unexpected" if key not in names else "got twice the"
                raise TypeError(f"{name}() {problem} argument {key!r}")
            given[key] = value
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            new = renamed.get(key, key)
            if key in ignored or (value is None and key != new):
                continue
            if chosen.get(new) is not None and value is not None:
                raise ValueError(f"Cannot specify both {new!r} and {key!r} of {name}()")
            if value is not None or new not in chosen:
                chosen[new] = value
        found = table.find(target)
        if found is None:
            raise NotImplementedError(table.missing(target))
        return found.load()(**chosen)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As ``tf.{target}``, with TensorFlow 1's arguments: {', '.join(names)}."
    return call


_AXIS = {"reduction_indices": "axis", "keep_dims": "keepdims"}
_REDUCTION = "input_tensor axis keepdims name reduction_indices keep_dims"


def _reduction(kind: str) -> Callable[..., Any]:
    return _former(f"reduce_{kind}", f"reduce_{kind}", _REDUCTION, _AXIS)


reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_mean, reduce_all, reduce_any = (
    _reduction(kind) for kind in ("sum", "prod", "max", "min", "mean", "all", "any")
)
reduce_logsumexp = _reduction("logsumexp")
count_nonzero = _former(
    "count_nonzero",
    "math.count_nonzero",
    "input_tensor axis keepdims dtype name reduction_indices keep_dims input",
    {**_AXIS, "input_tensor": "input"},
)
argmax, argmin = (
    _former(kind, kind, "input axis name dimension output_type", {"dimension": "axis"})
    for kind in ("argmax", "argmin")
)
arg_max, arg_min = (
    _former(f"arg_{kind}", f"arg{kind}", "input dimension output_type name", {"dimension": "axis"})
    for kind in ("max", "min")
)
expand_dims = _former("expand_dims", "expand_dims", "input axis name dim", {"dim": "axis"})
squeeze = _former("squeeze", "squeeze", "input axis name squeeze_dims", {"squeeze_dims": "axis"})
size = _former("size", "size", "input name out_type", {"out_type": "out_type"})
shape = _former("shape", "shape", "input name out_type", {"out_type": "out_type"})
zeros_like, ones_like = (
    _former(kind, kind, "tensor dtype name optimize", {"tensor": "input"}, "name optimize")
    for kind in ("zeros_like", "ones_like")
)
gather = _former(
    "gather",
    "gather",
    "params indices validate_indices name axis batch_dims",
    {},
    "name validate_indices",
)
gather_nd = _former("gather_nd", "gather_nd", "params indices name batch_dims", {})
batch_gather = _former("batch_gather", "gather", "params indices name", {})
boolean_mask = _former("boolean_mask", "boolean_mask", "tensor mask name axis", {})
pad = _former("pad", "pad", "tensor paddings mode name constant_values", {})
transpose = _former("transpose", "transpose", "a perm name conjugate", {})
norm = _former("norm", "norm", "tensor ord axis keepdims name keep_dims", _AXIS)
floor_div = _former("floor_div", "math.floordiv", "x y name", {})
scalar_mul = _former("scalar_mul", "scalar_mul", "scalar x name", {})
convert_to_tensor = _former(
    "convert_to_tensor",
    "convert_to_tensor",
    "value dtype name preferred_dtype dtype_hint",
    {"preferred_dtype": "dtype_hint"},
)
string_to_number = _former(
    "string_to_number",
    "strings.to_number",
    "string_tensor out_type name input",
    {"string_tensor": "input"},
)
substr = _former("substr", "strings.substr", "input pos len name unit", {})
length = _former("length", "strings.length", "input name unit", {})
softmax = _former("softmax", "nn.softmax", "logits axis name dim", {"dim": "axis"})
log_softmax = _former("log_softmax", "nn.log_softmax", "logits axis name dim", {"dim": "axis"})
moments = _former("moments", "nn.moments", "x axes shift name keep_dims keepdims", _AXIS)
conv2d, conv3d = (
    _former(
        kind,
        f"nn.{kind}",
        f"input filter strides padding {more}data_format dilations name filters",
        {"filter": "filters"},
        "name use_cudnn_on_gpu",
    )
    for kind, more in (("conv2d", "use_cudnn_on_gpu "), ("conv3d", ""))
)
conv1d = _former(
    "conv1d",
    "nn.conv1d",
    "value filters stride padding use_cudnn_on_gpu data_format name input dilations",
    {"value": "input"},
    "name use_cudnn_on_gpu",
)
max_pool, avg_pool = (
    _former(
        kind,
        f"nn.{kind}2d",
        "value ksize strides padding data_format name input",
        {"value": "input"},
    )
    for kind in ("max_pool", "avg_pool")
)
softmax_cross_entropy_with_logits = _former(
    "softmax_cross_entropy_with_logits",
    "nn.softmax_cross_entropy_with_logits",
    "labels logits dim name axis",
    {"dim": "axis"},
)
softmax_cross_entropy_with_logits_v2 = _former(
    "softmax_cross_entropy_with_logits_v2",
    "nn.softmax_cross_entropy_with_logits",
    "labels logits axis name dim",
    {"dim": "axis"},
)
sparse_softmax_cross_entropy_with_logits, sigmoid_cross_entropy_with_logits = (
    _former(kind, f"nn.{kind}", "labels logits name", {})
    for kind in ("sparse_softmax_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits")
)
in_top_k = _former("in_top_k", "math.in_top_k", "predictions targets k name", {})
cond = _former(
    "cond",
    "cond",
    "pred true_fn false_fn strict name fn1 fn2",
    {"fn1": "true_fn", "fn2": "false_fn"},
    "strict name",
)
while_loop = _former(
    "while_loop",
    "while_loop",
    "cond body loop_vars shape_invariants parallel_iterations back_prop swap_memory name "
    "maximum_iterations return_same_structure",
    {},
    "parallel_iterations back_prop swap_memory name return_same_structure",
)
map_fn = _former(
    "map_fn",
    "map_fn",
    "fn elems dtype parallel_iterations back_prop swap_memory infer_shape name fn_output_signature",
    {"dtype": "fn_output_signature"},
    "parallel_iterations back_prop swap_memory infer_shape name",
)
foldl, foldr = (
    _former(
        kind,
        kind,
        "fn elems initializer parallel_iterations back_prop swap_memory name",
        {},
        "parallel_iterations back_prop swap_memory name",
    )
    for kind in ("foldl", "foldr")
)
scan = _former(
    "scan",
    "scan",
    "fn elems initializer parallel_iterations back_prop swap_memory infer_shape reverse name",
    {},
    "parallel_iterations back_prop swap_memory infer_shape name",
)
py_func = _former("py_func", "numpy_function", "func inp Tout stateful name", {})
set_random_seed = _former("set_random_seed", "random.set_seed", "seed", {})
_PATHS = {
    "Exists": ("exists", "filename", {"filename": "path"}),
    "Glob": ("glob", "filename", {"filename": "pattern"}),
    "IsDirectory": ("isdir", "dirname", {"dirname": "path"}),
    "ListDirectory": ("listdir", "dirname", {"dirname": "path"}),
    "MakeDirs": ("makedirs", "dirname", {"dirname": "path"}),
    "MkDir": ("mkdir", "dirname", {"dirname": "path"}),
    "Remove": ("remove", "filename", {"filename": "path"}),
    "DeleteRecursively": ("rmtree", "dirname", {"dirname": "path"}),
    "Rename": ("rename", "oldname newname overwrite", {"oldname": "src", "newname": "dst"}),
    "Copy": ("copy", "oldpath newpath overwrite", {"oldpath": "src", "newpath": "dst"}),
}
(
    Exists,
    Glob,
    IsDirectory,
    ListDirectory,
    MakeDirs,
    MkDir,
    Remove,
    DeleteRecursively,
    Rename,
    Copy,
) = (
    _former(name, f"io.gfile.{target}", parameters, renamed)
    for name, (target, parameters, renamed) in _PATHS.items()
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


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: Any = None,
    name: Any = None,
    rate: Any = None,
) -> Any:
    """Elements set to zero at random, the others scaled up.

    Raises:
        ValueError: with both ``keep_prob`` and ``rate``, or none of them.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError("dropout takes one of keep_prob and rate = 1 - keep_prob")
    return nn.dropout(x, rate if keep_prob is None else 1 - static(keep_prob), noise_shape, seed)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: Any = None) -> Any:
    """``matmul(x, weights) + biases``."""
    return nn.bias_add(linalg.matmul(x, weights), biases)


def relu_layer(x: Any, weights: Any, biases: Any, name: Any = None) -> Any:
    """``relu(matmul(x, weights) + biases)``."""
    return nn.relu(xw_plus_b(x, weights, biases))


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: Any = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Any:
    """The rows with these numbers.

    Raises:
        NotImplementedError: of several tensors that are parts of one.
    """
    if isinstance(params, (list, tuple)):
        if len(params) != 1:
            raise NotImplementedError(
                "embedding_lookup of several parts: concatenate them, or use a variable with a "
                "partitioner of a ParameterServerStrategy"
            )
        (params,) = params
    return nn.embedding_lookup(params, ids, max_norm)


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
