"""Convolutions, pooling and morphology: ``tf.nn.conv2d``, ``tf.nn.max_pool``, ``tf.nn.dilation2d``.

Images are ``(rows, ..., height, width, channels)``, or channels first where ``data_format`` begins
with "NC". Strides and dilations are a number, one for each spatial dimension, or one for each
dimension, as in TensorFlow.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from drumline.compat.values import dtypes
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, same_dtype, static, static_shape
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor

Padding = str | list[tuple[int, int]]


def _refuse(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _channels_first(data_format: Any) -> bool:
    return bool(data_format) and str(data_format).startswith("NC")


def _of_space(given: Any, count: int, first: bool, what: str) -> tuple[int, ...]:
    """A size for each spatial dimension, of a number or a list.

    Raises:
        ValueError: there are too many or too few, or one is not positive.
        InvalidArgumentError: the size of rows or channels is not 1.
    """
    sizes = static(1 if given is None else given)
    sizes = [sizes] if isinstance(sizes, int) else [int(each) for each in sizes]
    if len(sizes) == count + 2:
        others = sizes[:2] if first else [sizes[0], sizes[-1]]
        if others != [1, 1]:
            raise _refuse(f"{what} {sizes}: those of rows and channels must be 1")
        sizes = sizes[2:] if first else sizes[1:-1]
    if len(sizes) == 1:
        sizes *= count
    if len(sizes) != count:
        raise ValueError(f"{what} must have 1, {count} or {count + 2} numbers, not {len(sizes)}")
    if min(sizes) < 1:
        raise ValueError(f"{what} must be positive, not {sizes}")
    return tuple(sizes)


def _padding(given: Any, count: int, first: bool) -> Padding:
    """ "SAME", "VALID", or how much is put before and after each spatial dimension."""
    if isinstance(given, str):
        if given.upper() in ("SAME", "VALID"):
            return given.upper()
        raise ValueError(f"padding must be 'SAME', 'VALID' or a list of pairs, not {given!r}")
    pairs = [(int(before), int(after)) for before, after in static(given)]
    if len(pairs) == count + 2:
        others = pairs[:2] if first else [pairs[0], pairs[-1]]
        if others != [(0, 0), (0, 0)]:
            raise ValueError(f"padding {pairs}: rows and channels cannot be padded")
        pairs = pairs[2:] if first else pairs[1:-1]
    if len(pairs) != count:
        raise ValueError(f"padding must have {count} or {count + 2} pairs, not {len(pairs)}")
    return pairs


class _Geometry(NamedTuple):
    """How a convolution's filter moves.

    Attributes:
        strides: for each spatial dimension.
        padding: of the input.
        dilations: of the filter.
        first: whether channels come before the spatial dimensions.
    """

    strides: tuple[int, ...]
    padding: Padding
    dilations: tuple[int, ...]
    first: bool


def _geometry(
    count: int, strides: Any, padding: Any, data_format: Any, dilations: Any
) -> _Geometry:
    first = _channels_first(data_format)
    return _Geometry(
        _of_space(strides, count, first, "strides"),
        _padding(padding, count, first),
        _of_space(dilations, count, first, "dilations"),
        first,
    )


def _convolved(x: Any, w: Any, geometry: _Geometry) -> Any:
    """The convolution of ``(rows, ..., channels)`` with ``(..., channels / groups, outputs)``."""
    count = w.ndim - 2
    letters = "DHW"[-count:]
    layout = f"NC{letters}" if geometry.first else f"N{letters}C"
    channels, taken = x.shape[1 if geometry.first else -1], w.shape[-2]
    if not taken or channels % taken or w.shape[-1] % max(channels // taken, 1):
        raise _refuse(
            f"input depth {channels} must be evenly divisible by filter depth {taken} "
            f"(filters {w.shape})"
        )
    return lax.conv_general_dilated(
        x,
        w,
        geometry.strides,
        geometry.padding,
        rhs_dilation=geometry.dilations,
        dimension_numbers=(layout, f"{letters}IO", layout),
        feature_group_count=channels // taken,
    )


def _in_rows(x: Any, rank: int, function: Callable[[Any], Any]) -> Any:
    """A function of ``(rows, ...)`` for inputs with further dimensions before."""
    if x.ndim == rank:
        return function(x)
    if x.ndim < rank:
        raise ValueError(f"input must have at least {rank} dimensions, not shape {x.shape}")
    before = x.shape[: x.ndim - rank + 1]
    made = function(x.reshape(-1, *x.shape[x.ndim - rank + 1 :]))
    return made.reshape(*before, *made.shape[1:])


def _operands(x: Any, y: Any) -> tuple[Any, Any]:
    a, b = same_dtype(x, y, "Conv")
    return a, b


def convolution(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """The convolution of images of 1, 2 or 3 spatial dimensions with filters.

    Args:
        input: ``(rows, ..., channels)``.
        filters: ``(..., channels / groups, outputs)``.
        strides: of the filter; 1 by default.
        padding: "SAME", "VALID", or pairs of numbers of zeros before and after each dimension.
        data_format: "NHWC" or the like; "NC..." for channels first.
        dilations: steps within the filter; 1 by default.
        name: not used.

    Returns:
        ``(rows, ..., outputs)``.

    Raises:
        InvalidArgumentError: the channels do not fit the filters.
        ValueError: another argument is out of range.
    """
    x, w = _operands(input, filters)
    count = w.ndim - 2
    if count not in (1, 2, 3):
        raise ValueError(f"filters must have 1 to 3 spatial dimensions, not shape {w.shape}")
    geometry = _geometry(count, strides, padding, data_format, dilations)

    def of_rows(x: Any, w: Any) -> Any:
        return _in_rows(x, w.ndim, lambda rows: _convolved(rows, w, geometry))

    return Tensor(compute(of_rows, x, w))


def _of_rank(count: int) -> Callable[..., Tensor]:
    def conv(
        input: Any,
        filters: Any,
        strides: Any,
        padding: Any,
        data_format: str | None = None,
        dilations: Any = None,
        name: Any = None,
    ) -> Tensor:
        found = convert(filters)
        if found.ndim != count + 2:
            raise ValueError(f"conv{count}d takes filters of {count + 2} dimensions: {found.shape}")
        return convolution(input, found, strides, padding, data_format, dilations)

    conv.__name__ = conv.__qualname__ = f"conv{count}d"
    conv.__doc__ = f"`convolution` of {count} spatial dimensions."
    return conv


def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """`convolution` of one spatial dimension."""
    return _of_rank(1)(input, filters, stride, padding, data_format, dilations)


conv2d = _of_rank(2)
conv3d = _of_rank(3)


def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """The gradient of a convolution with respect to its input: "deconvolution".

    Args:
        input: ``(rows, ..., channels)``: the gradient of what `convolution` gives.
        filters: ``(..., outputs, channels)``: those of that convolution.
        output_shape: ``(rows, ..., outputs)``.
        strides: of that convolution, as the arguments after it.
        padding: see `convolution`.
        data_format: see `convolution`.
        dilations: see `convolution`.
        name: not used.

    Returns:
        ``output_shape``.

    Raises:
        InvalidArgumentError: a convolution of `output_shape` does not give the shape of `input`.
    """
    y, w = _operands(input, filters)
    geometry = _geometry(w.ndim - 2, strides, padding, data_format, dilations)
    shape = static_shape(output_shape)
    if len(shape) != w.ndim:
        raise ValueError(f"output_shape must have {w.ndim} numbers, not {len(shape)}")

    return Tensor(compute(lambda y, w: _gradient_of_input(shape, w, y, geometry), y, w))


def _gradient_of_input(shape: tuple[int, ...], w: Any, y: Any, geometry: _Geometry) -> Any:
    of = jax.ShapeDtypeStruct(shape, y.dtype)
    forward = functools.partial(_convolved, w=w, geometry=geometry)
    expected = jax.eval_shape(forward, of).shape
    if expected != y.shape:
        raise _refuse(
            f"Conv2DSlowBackpropInput: a convolution of shape {shape} with filters {w.shape} "
            f"gives {expected}, and not {y.shape}"
        )
    return jax.linear_transpose(forward, of)(jnp.asarray(y))[0]


def _transposed_of_rank(count: int) -> Callable[..., Tensor]:
    def transpose(
        input: Any,
        filters: Any,
        output_shape: Any,
        strides: Any,
        padding: Any = "SAME",
        data_format: str | None = None,
        dilations: Any = None,
        name: Any = None,
    ) -> Tensor:
        return conv_transpose(
            input, filters, output_shape, strides, padding, data_format, dilations
        )

    transpose.__name__ = transpose.__qualname__ = f"conv{count}d_transpose"
    transpose.__doc__ = f"`conv_transpose` of {count} spatial dimensions."
    return transpose


conv1d_transpose, conv2d_transpose, conv3d_transpose = map(_transposed_of_rank, (1, 2, 3))


def _depthwise(w: Any) -> Any:
    """Filters ``(height, width, channels, multiplier)`` as a grouped convolution takes them."""
    return w.reshape(*w.shape[:2], 1, w.shape[2] * w.shape[3])


def _check_depthwise(x: Any, w: Any, geometry: _Geometry) -> None:
    channels = x.shape[1 if geometry.first else -1]
    if w.ndim != 4 or w.shape[2] != channels:
        raise _refuse(
            f"a depthwise filter is (height, width, {channels}, multiplier) for {channels} "
            f"channels, not {w.shape}"
        )


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """A convolution of each channel by itself.

    Args:
        input: ``(rows, height, width, channels)``.
        filter: ``(height, width, channels, multiplier)``.
        strides: see `convolution`, as the arguments after it.
        padding: see `convolution`.
        data_format: see `convolution`.
        dilations: see `convolution`.
        name: not used.

    Returns:
        ``(rows, height, width, channels * multiplier)``.

    Raises:
        InvalidArgumentError: the channels do not fit the filters.
    """
    x, w = _operands(input, filter)
    geometry = _geometry(2, strides, padding, data_format, dilations)
    _check_depthwise(x, w, geometry)
    return Tensor(compute(lambda x, w: _convolved(x, _depthwise(w), geometry), x, w))


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """`depthwise_conv2d`, and a convolution of one pixel that mixes its channels.

    Args:
        input: ``(rows, height, width, channels)``.
        depthwise_filter: ``(height, width, channels, multiplier)``.
        pointwise_filter: ``(1, 1, channels * multiplier, outputs)``.
        strides: see `convolution`, as the arguments after it.
        padding: see `convolution`.
        data_format: see `convolution`.
        dilations: see `convolution`.
        name: not used.
    """
    apart = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return convolution(apart, pointwise_filter, 1, "VALID", data_format)


def atrous_conv2d(value: Any, filters: Any, rate: Any, padding: Any, name: Any = None) -> Tensor:
    """`conv2d` with ``dilations=rate``."""
    return convolution(value, filters, 1, padding, None, rate)


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: Any, padding: Any, name: Any = None
) -> Tensor:
    """`conv2d_transpose` with ``dilations=rate``."""
    return conv_transpose(value, filters, output_shape, 1, padding, None, rate)


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: Any = None,
    filters: Any = None,
) -> Tensor:
    """The gradient of `conv2d` with respect to its input, of the shape `input_sizes`."""
    chosen = filter if filters is None else filters
    return conv_transpose(
        out_backprop, chosen, input_sizes, strides, padding, data_format, dilations
    )


def _gradient_of_filter(
    x: Any, shape: tuple[int, ...], gradient: Any, convolve: Callable[[Any, Any], Any]
) -> Tensor:
    a, b = _operands(x, gradient)

    def transposed(a: Any, b: Any) -> Any:
        of = jax.ShapeDtypeStruct(shape, b.dtype)
        expected = jax.eval_shape(convolve, a, of).shape
        if expected != b.shape:
            raise _refuse(f"filters of shape {shape} give {expected} of {a.shape}, not {b.shape}")
        return jax.linear_transpose(lambda w: convolve(a, w), of)(jnp.asarray(b))[0]

    return Tensor(compute(transposed, a, b))


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: Any = None,
) -> Tensor:
    """The gradient of `conv2d` with respect to its filters, of the shape `filter_sizes`."""
    geometry = _geometry(2, strides, padding, data_format, dilations)
    convolve = functools.partial(_convolved, geometry=geometry)
    return _gradient_of_filter(input, static_shape(filter_sizes), out_backprop, convolve)


def depthwise_conv2d_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: Any = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d` with respect to its input, of the shape `input_sizes`."""
    y, w = _operands(out_backprop, filter)
    geometry = _geometry(2, strides, padding, data_format, dilations)
    shape = static_shape(input_sizes)
    return Tensor(compute(lambda y, w: _gradient_of_input(shape, _depthwise(w), y, geometry), y, w))


def depthwise_conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: Any = None,
) -> Tensor:
    """The gradient of `depthwise_conv2d` with respect to its filter, of this shape."""
    geometry = _geometry(2, strides, padding, data_format, dilations)

    def convolve(x: Any, w: Any) -> Any:
        return _convolved(x, _depthwise(w), geometry)

    return _gradient_of_filter(input, static_shape(filter_sizes), out_backprop, convolve)


# Pooling.


def _everywhere(sizes: Sequence[Any], first: bool, filler: Any) -> tuple[Any, ...]:
    """Sizes of all dimensions, of those of space."""
    return (filler, filler, *sizes) if first else (filler, *sizes, filler)


def _pooled(kind: str, x: Any, window: tuple[int, ...], geometry: _Geometry) -> Any:
    first = geometry.first
    sizes = _everywhere(window, first, 1)
    strides = _everywhere(geometry.strides, first, 1)
    dilations = _everywhere(geometry.dilations, first, 1)
    padding: Any = geometry.padding
    if not isinstance(padding, str):
        padding = _everywhere(padding, first, (0, 0))

    def reduced(x: Any, initial: Any, function: Any) -> Any:
        return lax.reduce_window(
            x, initial, function, sizes, strides, padding, window_dilation=dilations
        )

    if kind == "MAX":
        low = -np.inf if x.dtype.kind not in "iu" else np.iinfo(x.dtype).min
        return reduced(x, np.asarray(low, x.dtype), lax.max)
    zero = np.zeros((), x.dtype)
    total = reduced(x, zero, lax.add)
    return total / reduced(jnp.ones(x.shape, x.dtype), zero, lax.add)


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: Any = None,
) -> Tensor:
    """Images with each window reduced to its largest value or its mean.

    Args:
        input: ``(rows, ..., channels)``.
        window_shape: the size of the window in each spatial dimension.
        pooling_type: "MAX" or "AVG"; of a mean, padding is no part.
        strides: of the window; 1 by default.
        padding: "SAME", "VALID", or pairs, which are for "MAX".
        data_format: "NC..." for channels first.
        dilations: steps within the window.
        name: not used.

    Raises:
        ValueError: an argument is out of range.
    """
    if pooling_type not in ("MAX", "AVG"):
        raise ValueError(f"pooling_type must be 'MAX' or 'AVG', not {pooling_type!r}")
    x = convert(input)
    count = x.ndim - 2
    if count < 1:
        raise ValueError(f"input must have at least 3 dimensions, not shape {x.shape}")
    window = _of_space(window_shape, count, _channels_first(data_format), "window_shape")
    geometry = _geometry(count, strides, padding, data_format, dilations)
    if pooling_type == "AVG" and not isinstance(geometry.padding, str):
        raise ValueError("average pooling takes padding 'SAME' or 'VALID'; pad with tf.pad")
    return Tensor(compute(lambda x: _pooled(pooling_type, x, window, geometry), x))


def _pooling(kind: str, count: int | None) -> Callable[..., Tensor]:
    def function(
        input: Any,
        ksize: Any,
        strides: Any,
        padding: Any,
        data_format: str | None = None,
        name: Any = None,
    ) -> Tensor:
        x = convert(input)
        if count is not None and x.ndim != count + 2:
            raise ValueError(f"input must have {count + 2} dimensions, not shape {x.shape}")
        return pool(x, ksize, kind, strides, padding, data_format)

    label = f"{kind.lower()}_pool{'' if count is None else f'{count}d'}"
    function.__name__ = function.__qualname__ = label
    function.__doc__ = (
        f"""`pool` of windows of a size for each dimension, ``pooling_type="{kind}"``."""
    )
    return function


max_pool, max_pool1d, max_pool2d, max_pool3d = (_pooling("MAX", n) for n in (None, 1, 2, 3))
avg_pool, avg_pool1d, avg_pool2d, avg_pool3d = (_pooling("AVG", n) for n in (None, 1, 2, 3))


def _padded(x: Any, window: Sequence[int], geometry: _Geometry, filler: Any) -> Any:
    """Images with ``filler`` around them."""
    padding: Any = geometry.padding
    spread = [(size - 1) * step + 1 for size, step in zip(window, geometry.dilations, strict=True)]
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(x.shape[1:3], spread, geometry.strides, padding)
    return jnp.pad(x, [(0, 0), *padding, (0, 0)], constant_values=filler)


def _windows(x: Any, window: Sequence[int], geometry: _Geometry) -> list[Any]:
    """For each place of the window, what lies there: ``(rows, height, width, channels)``."""
    spread = [(size - 1) * step + 1 for size, step in zip(window, geometry.dilations, strict=True)]
    counts = [
        (length - size) // stride + 1
        for length, size, stride in zip(x.shape[1:3], spread, geometry.strides, strict=True)
    ]
    taken = []
    for place in itertools.product(*map(range, window)):
        rows, columns = (
            slice(at * step, at * step + (count - 1) * stride + 1, stride)
            for at, step, count, stride in zip(
                place, geometry.dilations, counts, geometry.strides, strict=True
            )
        )
        taken.append(x[:, rows, columns])
    return taken


class MaxPoolWithArgmax(NamedTuple):
    """What `max_pool_with_argmax` gives.

    Attributes:
        output: the largest values.
        argmax: where each was.
    """

    output: Tensor
    argmax: Tensor


def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    output_dtype: Any = dtypes.int64,
    include_batch_in_index: bool = False,
    name: Any = None,
) -> MaxPoolWithArgmax:
    """The largest value of each window, and where it is in its flattened image.

    Args:
        input: ``(rows, height, width, channels)``.
        ksize: the size of the window.
        strides: of the window.
        padding: "SAME" or "VALID".
        data_format: "NHWC".
        output_dtype: of the places: int64 or int32.
        include_batch_in_index: whether places are those in the flattened batch.
        name: not used.
    """
    if data_format != "NHWC":
        raise ValueError(f"data_format must be 'NHWC', not {data_format!r}")
    x = convert(input)
    window = _of_space(ksize, 2, False, "ksize")
    geometry = _geometry(2, strides, padding, data_format, None)
    kind: Any = dtypes.as_dtype(output_dtype).dtype

    def found(x: Any) -> Any:
        rows, height, width, channels = x.shape
        low = -np.inf if x.dtype.kind not in "iu" else np.iinfo(x.dtype).min
        places = np.arange(height * width * channels).reshape(1, height, width, channels)
        if include_batch_in_index:
            places = places + np.arange(rows).reshape(-1, 1, 1, 1) * places.size
        values = _padded(x, window, geometry, low)
        where = _padded(jnp.asarray(places, kind), window, geometry, -1)
        values = jnp.stack(_windows(values, window, geometry))
        where = jnp.broadcast_to(jnp.stack(_windows(where, window, geometry)), values.shape)
        best = jnp.max(values, 0)
        # Padding has no place, and so cannot be chosen where all is -inf.
        first = jnp.argmax((values == best) & (where >= 0), 0)
        return best, jnp.take_along_axis(where, first[None], 0)[0]

    if kind.itemsize == 8:
        with jax.enable_x64(True):
            output, argmax = found(jnp.asarray(x))
    else:
        output, argmax = found(jnp.asarray(x))
    return MaxPoolWithArgmax(Tensor(output), Tensor(argmax))


def dilation2d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str,
    dilations: Any,
    name: Any = None,
) -> Tensor:
    """Grayscale dilation: the largest sum of a pixel and its place in the filter.

    Args:
        input: ``(rows, height, width, channels)``.
        filters: ``(height, width, channels)``.
        strides: of the filter.
        padding: "SAME" or "VALID".
        data_format: "NHWC".
        dilations: steps within the filter.
        name: not used.
    """
    if data_format != "NHWC":
        raise ValueError(f"data_format must be 'NHWC', not {data_format!r}")
    x, w = _operands(input, filters)
    geometry = _geometry(2, strides, padding, data_format, dilations)

    def dilated(x: Any, w: Any) -> Any:
        low = -np.inf if x.dtype.kind not in "iu" else np.iinfo(x.dtype).min
        values = _padded(x, w.shape[:2], geometry, low)
        taken = _windows(values, w.shape[:2], geometry)
        sums = [each + part for each, part in zip(taken, w.reshape(-1, w.shape[2]), strict=True)]
        return functools.reduce(jnp.maximum, sums)

    return Tensor(compute(dilated, x, w))


def erosion2d(
    value: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str,
    dilations: Any,
    name: Any = None,
) -> Tensor:
    """Grayscale erosion: the smallest difference of a pixel and its place in the filter.

    Arguments are those of `dilation2d`, whose dual it is.
    """
    x, w = _operands(value, filters)
    turned = Tensor(w[::-1, ::-1])
    made = dilation2d(Tensor(-x), turned, strides, padding, data_format, dilations)
    return Tensor(-convert(made))
