"""``tf.compat.v1.nn``."""

from __future__ import annotations

from typing import Any

from drumline.compat.ops.linalg import matrices as linalg
from drumline.compat.ops.nn import functions as nn
from drumline.compat.symbols import table
from drumline.compat.v1.functions.former import KEPT_DIMENSIONS, former
from drumline.compat.values.convert import static

softmax = former("softmax", "nn.softmax", "logits axis name dim", {"dim": "axis"})
log_softmax = former("log_softmax", "nn.log_softmax", "logits axis name dim", {"dim": "axis"})
moments = former("moments", "nn.moments", "x axes shift name keep_dims keepdims", KEPT_DIMENSIONS)
conv2d, conv3d = (
    former(
        kind,
        f"nn.{kind}",
        f"input filter strides padding {more}data_format dilations name filters",
        {"filter": "filters"},
        "name use_cudnn_on_gpu",
    )
    for kind, more in (("conv2d", "use_cudnn_on_gpu "), ("conv3d", ""))
)
conv1d = former(
    "conv1d",
    "nn.conv1d",
    "value filters stride padding use_cudnn_on_gpu data_format name input dilations",
    {"value": "input"},
    "name use_cudnn_on_gpu",
)
max_pool, avg_pool = (
    former(
        kind,
        f"nn.{kind}2d",
        "value ksize strides padding data_format name input",
        {"value": "input"},
    )
    for kind in ("max_pool", "avg_pool")
)
softmax_cross_entropy_with_logits = former(
    "softmax_cross_entropy_with_logits",
    "nn.softmax_cross_entropy_with_logits",
    "labels logits dim name axis",
    {"dim": "axis"},
)
softmax_cross_entropy_with_logits_v2 = former(
    "softmax_cross_entropy_with_logits_v2",
    "nn.softmax_cross_entropy_with_logits",
    "labels logits axis name dim",
    {"dim": "axis"},
)
sparse_softmax_cross_entropy_with_logits, sigmoid_cross_entropy_with_logits = (
    former(kind, f"nn.{kind}", "labels logits name", {})
    for kind in ("sparse_softmax_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits")
)
in_top_k = former("in_top_k", "math.in_top_k", "predictions targets k name", {})


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


batch_norm_with_global_normalization = former(
    "batch_norm_with_global_normalization",
    "nn.batch_norm_with_global_normalization",
    "t m v beta gamma variance_epsilon scale_after_normalization name input mean variance",
    {"t": "input", "m": "mean", "v": "variance"},
)
conv2d_transpose, conv3d_transpose = (
    former(
        kind,
        f"nn.{kind}",
        "value filter output_shape strides padding data_format name input filters dilations",
        {"value": "input", "filter": "filters"},
    )
    for kind in ("conv2d_transpose", "conv3d_transpose")
)
convolution = former(
    "convolution",
    "nn.convolution",
    "input filter padding strides dilation_rate name data_format filters dilations",
    {"filter": "filters", "dilation_rate": "dilations"},
)
crelu = former("crelu", "nn.crelu", "features name axis", {})
depth_to_space, space_to_depth = (
    former(kind, f"nn.{kind}", "input block_size name data_format", {})
    for kind in ("depth_to_space", "space_to_depth")
)
depthwise_conv2d = former(
    "depthwise_conv2d",
    "nn.depthwise_conv2d",
    "input filter strides padding rate name data_format dilations",
    {"rate": "dilations"},
)
separable_conv2d = former(
    "separable_conv2d",
    "nn.separable_conv2d",
    "input depthwise_filter pointwise_filter strides padding rate name data_format dilations",
    {"rate": "dilations"},
)
embedding_lookup_sparse = former(
    "embedding_lookup_sparse",
    "nn.embedding_lookup_sparse",
    "params sp_ids sp_weights partition_strategy name combiner max_norm allow_fast_lookup",
    {},
    "partition_strategy name",
)
safe_embedding_lookup_sparse = former(
    "safe_embedding_lookup_sparse",
    "nn.safe_embedding_lookup_sparse",
    "embedding_weights sparse_ids sparse_weights combiner default_id name partition_strategy "
    "max_norm allow_fast_lookup",
    {},
    "partition_strategy name",
)
max_pool_with_argmax = former(
    "max_pool_with_argmax",
    "nn.max_pool_with_argmax",
    "input ksize strides padding data_format Targmax name output_dtype include_batch_in_index",
    {"Targmax": "output_dtype"},
)
nce_loss = former(
    "nce_loss",
    "nn.nce_loss",
    "weights biases labels inputs num_sampled num_classes num_true sampled_values "
    "remove_accidental_hits partition_strategy name",
    {},
    "partition_strategy name",
)
sampled_softmax_loss = former(
    "sampled_softmax_loss",
    "nn.sampled_softmax_loss",
    "weights biases labels inputs num_sampled num_classes num_true sampled_values "
    "remove_accidental_hits partition_strategy name seed",
    {},
    "partition_strategy name",
)
pool = former(
    "pool",
    "nn.pool",
    "input window_shape pooling_type padding dilation_rate strides name data_format dilations",
    {"dilation_rate": "dilations"},
)
sufficient_statistics = former(
    "sufficient_statistics",
    "nn.sufficient_statistics",
    "x axes shift keep_dims name keepdims",
    KEPT_DIMENSIONS,
)
weighted_moments = former(
    "weighted_moments",
    "nn.weighted_moments",
    "x axes frequency_weights name keep_dims keepdims",
    KEPT_DIMENSIONS,
)
weighted_cross_entropy_with_logits = former(
    "weighted_cross_entropy_with_logits",
    "nn.weighted_cross_entropy_with_logits",
    "labels logits pos_weight name targets",
    {"targets": "labels"},
)


def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Grayscale dilation of images, ``"NHWC"``."""
    target: Any = table.find("nn.dilation2d")
    return target.load()(
        input,
        filter if filters is None else filters,
        strides,
        padding,
        "NHWC",
        rates if dilations is None else dilations,
    )


def erosion2d(
    value: Any, kernel: Any, strides: Any, rates: Any, padding: Any, name: Any = None
) -> Any:
    """Grayscale erosion of images, ``"NHWC"``."""
    target: Any = table.find("nn.erosion2d")
    return target.load()(value, kernel, strides, padding, "NHWC", rates)
