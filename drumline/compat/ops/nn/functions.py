"""``tf.nn``: activations, losses, convolutions, pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline import nn as of_drumline
from drumline.compat.ops.arrays import broadcast_to, concat, gather
from drumline.compat.ops.elementwise import (
    add,
    cast,
    divide,
    keras_ops,
    minimum,
    negative,
    rsqrt,
    square,
)
from drumline.compat.ops.math.reductions import reduce_mean, reduce_sum, reduce_variance
from drumline.compat.ops.random.sampling import log_uniform_candidate_sampler
from drumline.compat.values import derivatives
from drumline.compat.values.boundary import unwrap
from drumline.compat.values.computing import compute, compute_as_one
from drumline.compat.values.convert import convert, raw, same_dtype, static
from drumline.compat.values.tensor import Tensor


def _activation(
    name: str,
    function: Callable[..., Any],
    of_numpy: Callable[..., Any] | None = None,
    positions: tuple[str, ...] = (),
    first: str = "features",
) -> Callable[..., Any]:
    """An activation.

    Args:
        name: the name, also of the function in `keras.ops`.
        function: computes it of JAX's arrays.
        of_numpy: the same of numpy's, where that is as exact and faster for small arrays.
        positions: its options, in TensorFlow's order.
        first: the name of what it is computed of.
    """

    def activation(features: Any = None, *args: Any, name: Any = None, **options: Any) -> Any:
        features = options.pop(first) if features is None and first in options else features
        chosen = {**dict(zip(positions, args, strict=False)), **options}
        if keras_ops(features) is not None:
            return getattr(keras_ops(features), label)(features, **chosen)
        chosen = {key: raw(value) for key, value in chosen.items()}
        value = convert(features)
        if of_numpy is not None and isinstance(value, np.ndarray):
            return Tensor(of_numpy(value, **chosen))
        return Tensor(compute_as_one(function, value, **chosen))

    label = name
    activation.__name__ = activation.__qualname__ = name
    activation.__doc__ = f"The activation ``{name}``."
    return activation


def _softmax_numpy(x: np.ndarray, axis: Any = -1) -> np.ndarray:
    shifted = np.exp(x - x.max(-1 if axis is None else axis, keepdims=True))
    return shifted / shifted.sum(-1 if axis is None else axis, keepdims=True)


relu = _activation("relu", jax.nn.relu, lambda x: np.maximum(x, x.dtype.type(0)))
relu6 = _activation("relu6", jax.nn.relu6, lambda x: np.clip(x, x.dtype.type(0), x.dtype.type(6)))
elu = _activation("elu", jax.nn.elu)
selu = _activation("selu", derivatives.selu)
silu = _activation("silu", lambda x, beta=1.0: x * jax.nn.sigmoid(beta * x), None, ("beta",))
gelu = _activation(
    "gelu", lambda x, approximate=False: jax.nn.gelu(x, approximate), None, ("approximate",)
)
leaky_relu = _activation(
    "leaky_relu",
    lambda x, alpha=0.2: jnp.where(x > 0, x, x * jnp.asarray(alpha, x.dtype)),
    lambda x, alpha=0.2: np.where(x > 0, x, x * x.dtype.type(alpha)),
    ("alpha",),
)
softmax = _activation(
    "softmax",
    lambda x, axis=-1: jax.nn.softmax(x, -1 if axis is None else axis),
    _softmax_numpy,
    ("axis",),
    "logits",
)
log_softmax = _activation(
    "log_softmax",
    lambda x, axis=-1: jax.nn.log_softmax(x, -1 if axis is None else axis),
    None,
    ("axis",),
    "logits",
)


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: Any = None) -> Tensor:
    """The cross entropy of class numbers ``(...)`` and logits ``(..., classes)``."""
    return Tensor(compute_as_one(_entropy_of_classes, convert(labels), convert(logits)))


def _entropy_of_classes(rows: Any, scores: Any) -> Any:
    found = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(found, rows[..., None], -1)[..., 0]


def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: Any = None
) -> Tensor:
    """The cross entropy of distributions and logits over an axis."""
    shares, scores = same_dtype(labels, logits, "SoftmaxCrossEntropyWithLogits")
    return Tensor(compute_as_one(_entropy_of_shares, shares, scores, axis=static(axis)))


def _entropy_of_shares(shares: Any, scores: Any, axis: int) -> Any:
    return -jnp.sum(shares * jax.nn.log_softmax(scores, axis), axis)


def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: Any = None
) -> Tensor:
    """The cross entropy of probabilities and logits, element by element."""
    z, x = same_dtype(labels, logits, "logistic_loss")
    return Tensor(compute_as_one(derivatives.entropy_of_logits, z, x))


def dropout(
    x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> Tensor:
    """Elements set to zero at random, the others scaled up."""
    value = jnp.asarray(convert(x))
    shape = None if noise_shape is None else static(noise_shape)
    return Tensor(keras.random.dropout(value, raw(rate), shape, static(seed)))


def bias_add(value: Any, bias: Any, data_format: Any = None, name: Any = None) -> Any:
    """The bias of each channel added."""
    a, b = same_dtype(value, bias, "BiasAdd")
    if data_format is not None and data_format.startswith("NC"):
        b = b.reshape(-1, *(1,) * (len(a.shape) - 2))
    return add(a, b)


def l2_loss(t: Any, name: Any = None) -> Tensor:
    """Half the sum of squares."""
    value = convert(t)
    return Tensor((value * value).sum() / np.asarray(2, value.dtype))


# Normalization.


def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None
) -> tuple[Any, Any]:
    """Mean and variance over axes."""
    return reduce_mean(x, axes, keepdims), reduce_variance(x, axes, keepdims)


def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, keepdims: bool = False, name: Any = None
) -> tuple[Any, Any]:
    """Mean and variance over axes, in which each element counts by its weight."""
    values, given = same_dtype(x, frequency_weights, "weighted_moments")
    weights: Any = broadcast_to(given, values.shape)
    values = Tensor(values)
    total = reduce_sum(weights, axes, True)
    mean = divide(reduce_sum(values * weights, axes, True), total)
    variance = divide(reduce_sum(weights * square(values - mean), axes, True), total)
    if keepdims:
        return mean, variance
    return reduce_sum(mean, axes), reduce_sum(variance, axes)


class SufficientStatistics(NamedTuple):
    """What `sufficient_statistics` gives.

    Attributes:
        count: how many elements are summed.
        mean_ss: the sum of the elements, less the shift.
        var_ss: the sum of their squares.
        shift: as it was given.
    """

    count: Any
    mean_ss: Any
    var_ss: Any
    shift: Any


def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None
) -> SufficientStatistics:
    """Sums over axes, of which `normalize_moments` computes mean and variance."""
    values = Tensor(convert(x))
    over = static(axes)
    over = [over] if isinstance(over, int) else over
    count = Tensor(np.asarray(np.prod([values.shape[axis] for axis in over]), values.dtype.dtype))
    moved = values if shift is None else values - shift
    sums = reduce_sum(moved, axes, keepdims), reduce_sum(square(moved), axes, keepdims)
    return SufficientStatistics(count, *sums, shift)


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: Any = None
) -> tuple[Any, Any]:
    """Mean and variance, of what `sufficient_statistics` gives."""
    moved = divide(mean_ss, counts)
    mean = moved if shift is None else moved + shift
    return mean, divide(variance_ss, counts) - square(moved)


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: Any,
    name: Any = None,
) -> Any:
    """``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset``.

    Args:
        x: any shape.
        mean: of a shape that broadcasts, as the arguments after it.
        variance: see `mean`.
        offset: to add, or None.
        scale: to multiply by, or None.
        variance_epsilon: a small number.
        name: not used.
    """
    factor = rsqrt(Tensor(convert(variance)) + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    shift = -(mean * factor) if offset is None else offset - mean * factor
    return x * cast(factor, x.dtype) + cast(shift, x.dtype)


def batch_norm_with_global_normalization(
    input: Any,
    mean: Any,
    variance: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: Any,
    scale_after_normalization: bool,
    name: Any = None,
) -> Any:
    """`batch_normalization`, with `gamma` as the scale if `scale_after_normalization`."""
    scale = gamma if scale_after_normalization else None
    return batch_normalization(input, mean, variance, beta, scale, variance_epsilon)


class BatchNorm(NamedTuple):
    """What `fused_batch_norm` gives.

    Attributes:
        y: the normalized images.
        running_mean: of each channel.
        running_variance: of each channel.
    """

    y: Any
    running_mean: Any
    running_variance: Any


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: Any = None,
    exponential_avg_factor: float = 1.0,
) -> BatchNorm:
    """Images normalized by each channel's mean and variance.

    Args:
        x: ``(rows, height, width, channels)``, or channels first.
        scale: ``(channels,)``, as the three arguments after it.
        offset: see `scale`.
        mean: to normalize by where it is no training; else the one to move from.
        variance: see `mean`.
        epsilon: added to the variance.
        data_format: "NHWC" or "NCHW".
        is_training: whether to normalize by the moments of `x`.
        name: not used.
        exponential_avg_factor: the share of the new moments in those that are given back.

    Returns:
        The images, and each channel's mean and variance (that of a sample, in training).
    """
    first = data_format.startswith("NC")
    rank = len(x.shape)
    axes = [axis for axis in range(rank) if axis != (1 if first else rank - 1)]

    def shown(each: Any) -> Any:
        return Tensor(convert(each).reshape(-1, *(1,) * (rank - 2))) if first else each

    def normalized(images: Any, mean: Any, variance: Any) -> Any:
        moved, spread = shown(offset), shown(scale)
        return batch_normalization(images, shown(mean), shown(variance), moved, spread, epsilon)

    if not is_training:
        return BatchNorm(normalized(x, mean, variance), mean, variance)
    images = cast(x, "float32")
    of_batch, spread = moments(images, axes)
    made = cast(normalized(images, of_batch, spread), x.dtype)
    count = np.prod([x.shape[axis] for axis in axes])
    sample = spread * float(count / max(count - 1, 1))
    if exponential_avg_factor != 1.0:
        share = exponential_avg_factor
        of_batch = mean * (1 - share) + of_batch * share
        sample = variance * (1 - share) + sample * share
    return BatchNorm(made, of_batch, sample)


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: Any = None,
) -> Tensor:
    """Images divided by a power of the sum of the squares of channels nearby.

    Args:
        input: ``(rows, height, width, channels)``.
        depth_radius: how many channels on each side.
        bias: added to the sum.
        alpha: the factor of the sum.
        beta: the power.
        name: not used.
    """
    x = convert(input)

    def normalized(x: Any) -> Any:
        window = (*(1,) * (x.ndim - 1), 2 * depth_radius + 1)
        zero = np.zeros((), x.dtype)
        total = jax.lax.reduce_window(x * x, zero, jax.lax.add, window, (1,) * x.ndim, "SAME")
        return x / (bias + alpha * total) ** beta

    return Tensor(compute(normalized, x))


def crelu(features: Any, axis: int = -1, name: Any = None) -> Any:
    """`relu` of the features, and that of their negatives after them."""
    return concat([relu(features), relu(negative(features))], axis)


# Losses.


def weighted_cross_entropy_with_logits(
    labels: Any, logits: Any, pos_weight: Any, name: Any = None
) -> Tensor:
    """`sigmoid_cross_entropy_with_logits`, in which positive labels count `pos_weight` times."""
    z, x = same_dtype(labels, logits, "logistic_loss")
    return Tensor(compute_as_one(_weighted_entropy, z, x, convert(pos_weight, x.dtype)))


def _weighted_entropy(z: Any, x: Any, of_positive: Any) -> Any:
    weight = 1 + (of_positive - 1) * z
    small = jnp.exp(-derivatives.absolute(x))
    return (1 - z) * x + weight * (jnp.log1p(small) + jax.nn.relu(-x))


def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: Any = None
) -> Tensor:
    """``exp(log_input) - log_input * targets``; with Stirling's approximation if it is full."""
    z, c = same_dtype(targets, log_input, "log_poisson_loss")
    return Tensor(compute_as_one(_poisson_loss, z, c, full=bool(compute_full_loss)))


def _poisson_loss(z: Any, c: Any, full: bool) -> Any:
    loss = jnp.exp(c) - c * z
    if full:
        stirling = z * jnp.log(jnp.where(z > 0, z, 1)) - z + 0.5 * jnp.log(2 * np.pi * z)
        loss = loss + jnp.where((z >= 0) & (z <= 1), jnp.zeros_like(z), stirling)
    return loss


def _sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    remove_accidental_hits: bool,
    seed: Any,
) -> tuple[Any, Any]:
    """Logits of the true classes and of sampled ones, and their targets.

    Follows ``tensorflow/python/ops/nn_impl.py``: logits less the log of how often a class is
    expected in the sample.
    """
    if isinstance(weights, (list, tuple)):
        weights = concat(weights, 0)
    w, b, x = (jnp.asarray(convert(each)) for each in (weights, biases, inputs))
    true = jnp.asarray(convert(labels)).reshape(-1, num_true)
    if sampled_values is None:
        kept = cast(Tensor(true), "int64")
        sampled_values = log_uniform_candidate_sampler(
            kept, num_true, num_sampled, True, num_classes, seed
        )
    chosen, of_true, of_sampled = (jnp.asarray(convert(each)) for each in sampled_values)
    true_logits = jnp.einsum("ri,rti->rt", x, w[true]) + b[true] - jnp.log(of_true)
    logits = x @ w[chosen].T + b[chosen]
    if remove_accidental_hits:
        hits = (true[:, :, None] == chosen).any(1)
        logits = jnp.where(hits, jnp.finfo(logits.dtype).min, logits)
    logits = jnp.concatenate([true_logits, logits - jnp.log(of_sampled)], 1)
    targets = jnp.zeros_like(logits).at[:, :num_true].set(1 / num_true)
    return logits, targets


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    name: Any = "nce_loss",
) -> Tensor:
    """Noise-contrastive estimation: each row's cross entropy of true classes and sampled ones.

    Args:
        weights: ``(num_classes, width)``, or a list of its parts.
        biases: ``(num_classes,)``.
        labels: ``(rows, num_true)`` integers.
        inputs: ``(rows, width)``.
        num_sampled: how many classes to sample.
        num_classes: how many there are.
        num_true: how many true classes a row has.
        sampled_values: of a candidate sampler; by default `log_uniform_candidate_sampler`'s.
        remove_accidental_hits: whether sampled classes that are true ones do not count.
        name: not used.

    Returns:
        ``(rows,)``.
    """
    logits, targets = _sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
        None,
    )
    found = sigmoid_cross_entropy_with_logits(labels=Tensor(targets), logits=Tensor(logits))
    return reduce_sum(found, -1)


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    seed: Any = None,
    name: Any = "sampled_softmax_loss",
) -> Tensor:
    """The softmax loss over true classes and sampled ones.

    Arguments are those of `nce_loss`; `seed` is that of the sampler.

    Returns:
        ``(rows,)``.
    """
    logits, targets = _sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
        seed,
    )
    kept = jax.lax.stop_gradient(targets)
    return softmax_cross_entropy_with_logits(labels=Tensor(kept), logits=Tensor(logits))


def embedding_lookup(params: Any, ids: Any, max_norm: Any = None, name: Any = None) -> Any:
    """The rows with these numbers, scaled down to a norm if they have a larger one.

    Args:
        params: ``(rows, ...)``, or a list of its parts.
        ids: integers.
        max_norm: the largest norm of a row.
        name: not used.

    Returns:
        ``ids.shape + params.shape[1:]``.
    """
    if isinstance(params, (list, tuple)):
        params = concat(params, 0)
    found = gather(params, ids)
    if max_norm is None:
        return found
    axes = list(range(len(convert(ids).shape), len(found.shape)))
    norm = square(found)
    norm = reduce_sum(norm, axes, True) ** 0.5
    return found * minimum(divide(convert(max_norm, norm.dtype), norm), 1.0)


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Tensor:
    """The sum of the examples' losses, divided by the size of the global batch."""
    given = map(unwrap, (per_example_loss, sample_weight, global_batch_size))
    return Tensor(jnp.asarray(of_drumline.compute_average_loss(*given)))


def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """The loss, divided by the number of replicas."""
    return Tensor(jnp.asarray(of_drumline.scale_regularization_loss(unwrap(regularization_loss))))
