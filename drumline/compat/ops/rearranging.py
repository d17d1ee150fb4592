"""Blocks, partitions, sequences and histograms: rarer functions that rearrange tensors."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.ops.arrays import identity, shape, stack, static_array, xp_of
from drumline.compat.values import dtypes
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_jax, is_traced, same_dtype, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.training.jax_internals import is_staging


def _blocks(block_shape: Any, edges: Any) -> tuple[list[int], np.ndarray]:
    sizes = np.ravel(static_array(block_shape)).astype(int).tolist()
    pairs = static_array(edges).reshape(-1, 2).astype(int)
    if len(sizes) == 1:
        sizes = sizes * len(pairs)
    if len(sizes) != len(pairs):
        raise InvalidArgumentError(
            None,
            None,
            f"{len(sizes)} block sizes do not fit {len(pairs)} pairs of paddings or crops",
        )
    if any(size < 1 for size in sizes) or (pairs < 0).any():
        raise InvalidArgumentError(
            None, None, "block sizes must be positive, paddings not negative"
        )
    return sizes, pairs


def space_to_batch(input: Any, block_shape: Any, paddings: Any, name: Any = None) -> Tensor:
    """The places within blocks of space as more batches.

    Args:
        input: ``(batch, *space, *rest)``.
        block_shape: the size of a block in each dimension of space.
        paddings: ``(space dimensions, 2)``: zeros before and behind each.
        name: accepted.

    Returns:
        ``(batch * blocks' sizes, *space / block_shape, *rest)``.

    Raises:
        InvalidArgumentError: a padded size is no multiple of the block's.
    """
    value = convert(input)
    sizes, pairs = _blocks(block_shape, paddings)
    count, xp = len(sizes), xp_of(value)
    if len(value.shape) < count + 1:
        raise InvalidArgumentError(
            None, None, f"input rank should be >= {count + 1} instead of {len(value.shape)}"
        )
    none = [(0, 0)] * (len(value.shape) - count - 1)
    padded = xp.pad(value, [(0, 0), *pairs.tolist(), *none])
    split: list[int] = []
    for size, block in zip(padded.shape[1 : count + 1], sizes, strict=True):
        if size % block:
            raise InvalidArgumentError(
                None, None, f"padded_shape = {size} is not divisible by block_shape = {block}"
            )
        split += [size // block, block]
    rest = padded.shape[count + 1 :]
    grid = padded.reshape((padded.shape[0], *split, *rest))
    inner, outer = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    grid = grid.transpose((*inner, 0, *outer, *range(2 * count + 1, grid.ndim)))
    batches = int(np.prod(sizes)) * padded.shape[0]
    return Tensor(grid.reshape((batches, *split[::2], *rest)))


def batch_to_space(input: Any, block_shape: Any, crops: Any, name: Any = None) -> Tensor:
    """What `space_to_batch` has made, back as it was; `crops` are cut off.

    Raises:
        InvalidArgumentError: the batch is no multiple of the blocks, or less is left than cut off.
    """
    value = convert(input)
    sizes, pairs = _blocks(block_shape, crops)
    count, blocks = len(sizes), int(np.prod(sizes))
    if value.shape[0] % blocks:
        raise InvalidArgumentError(
            None, None, f"Input batch dimension ({value.shape[0]}) is not divisible by {blocks}"
        )
    batch, space, rest = (
        value.shape[0] // blocks,
        value.shape[1 : count + 1],
        value.shape[count + 1 :],
    )
    grid = value.reshape((*sizes, batch, *space, *rest))
    order = [count]
    for place in range(count):
        order += [count + 1 + place, place]
    grid = grid.transpose((*order, *range(2 * count + 1, grid.ndim)))
    made = grid.reshape((batch, *(s * b for s, b in zip(space, sizes, strict=True)), *rest))
    ends = [(lo, size - hi) for (lo, hi), size in zip(pairs.tolist(), made.shape[1:], strict=False)]
    if any(lo > hi for lo, hi in ends):
        raise InvalidArgumentError(None, None, f"crops {pairs.tolist()} leave less than nothing")
    return Tensor(made[(slice(None), *(slice(lo, hi) for lo, hi in ends))])


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: Any = None
) -> tuple[Tensor, Tensor]:
    """The least paddings with which `space_to_batch` divides a shape, and the crops undoing it."""
    sizes = static_array(input_shape).astype(int)
    blocks = static_array(block_shape).astype(int)
    base = np.zeros((len(blocks), 2), int) if base_paddings is None else static_array(base_paddings)
    total = sizes + base[:, 0] + base[:, 1]
    more = (-total) % blocks
    paddings = np.stack([base[:, 0], base[:, 1] + more], 1).astype(np.int32)
    crops = np.stack([np.zeros_like(more), more], 1).astype(np.int32)
    return Tensor(paddings), Tensor(crops)


def space_to_depth(
    input: Any, block_size: Any, data_format: str = "NHWC", name: Any = None
) -> Tensor:
    """The places within blocks of space as more channels.

    Raises:
        InvalidArgumentError: a size is no multiple of the block's.
    """
    return _depth(input, int(static(block_size)), data_format, True)


def depth_to_space(
    input: Any, block_size: Any, data_format: str = "NHWC", name: Any = None
) -> Tensor:
    """Channels as the places within blocks of space: undoes `space_to_depth`.

    Raises:
        InvalidArgumentError: the channels are no multiple of the blocks' places.
    """
    return _depth(input, int(static(block_size)), data_format, False)


def _depth(input: Any, block: int, data_format: str, to_depth: bool) -> Tensor:
    if data_format not in ("NHWC", "NCHW"):
        raise InvalidArgumentError(
            None, None, f"data_format {data_format!r}: NHWC and NCHW are there"
        )
    value = convert(input)
    first = data_format == "NCHW"
    value = value.transpose((0, 2, 3, 1)) if first else value
    batch, rows, columns, channels = value.shape
    if to_depth:
        if block < 2 or rows % block or columns % block:
            raise InvalidArgumentError(
                None, None, f"{rows} x {columns} is no multiple of block_size = {block}"
            )
        grid = value.reshape((batch, rows // block, block, columns // block, block, channels))
        grid = grid.transpose((0, 1, 3, 2, 4, 5))
        made = grid.reshape((batch, rows // block, columns // block, -1))
    else:
        if block < 2 or channels % (block * block):
            raise InvalidArgumentError(
                None, None, f"{channels} channels are no multiple of block_size ** 2 = {block**2}"
            )
        grid = value.reshape((batch, rows, columns, block, block, channels // (block * block)))
        grid = grid.transpose((0, 1, 3, 2, 4, 5))
        made = grid.reshape((batch, rows * block, columns * block, -1))
    return Tensor(made.transpose((0, 3, 1, 2)) if first else made)


def bitcast(input: Any, type: Any, name: Any = None) -> Tensor:
    """The same bits as numbers of another dtype; a last dimension is the ratio of their sizes.

    Raises:
        InvalidArgumentError: the last dimension does not fit.
    """
    value, wanted = convert(input), dtypes.as_dtype(type).dtype
    old, new = np.dtype(value.dtype).itemsize, np.dtype(wanted).itemsize
    if new > old and (not value.shape or value.shape[-1] != new // old):
        raise InvalidArgumentError(
            None, None, f"Cannot bitcast from {value.dtype} to {wanted}: shape {value.shape}"
        )
    if is_jax(value):
        return Tensor(compute(lambda x: jax.lax.bitcast_convert_type(x, wanted), value))
    if new == old:
        return Tensor(np.ascontiguousarray(value).view(wanted).reshape(value.shape))
    if new < old:
        spread = np.ascontiguousarray(value)[..., None].view(wanted)
        return Tensor(spread.reshape((*value.shape, old // new)))
    return Tensor(np.ascontiguousarray(value).view(wanted)[..., 0])


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape that two tensors broadcast to, of tensors that state theirs.

    Raises:
        InvalidArgumentError: they do not.
    """
    x, y = same_dtype(shape_x, shape_y, "BroadcastArgs")
    try:
        found = np.broadcast_shapes(*(tuple(static_array(each).tolist()) for each in (x, y)))
    except ValueError:
        raise InvalidArgumentError(
            None, None, f"Incompatible shapes: {static(x)} and {static(y)}"
        ) from None
    return Tensor(np.asarray(found, x.dtype))


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """The `TensorShape` that tensors of two shapes broadcast to.

    Raises:
        ValueError: they do not.
    """
    x, y = TensorShape(shape_x), TensorShape(shape_y)
    if x.rank is None or y.rank is None:
        return TensorShape(None)
    sizes: list[Any] = []
    longest = max(x.rank, y.rank)
    a, b = ([*[1] * (longest - len(each.as_list())), *each.as_list()] for each in (x, y))
    for one, other in zip(a, b, strict=True):
        if one == 1 or other == 1:
            sizes.append(other if one == 1 else one)
        elif one is None or other is None:
            # The one that is known is greater than 1, so the other must be as it is.
            sizes.append(one if other is None else other)
        elif one != other:
            raise ValueError(f"Incompatible shapes for broadcasting: {x} and {y}.")
        else:
            sizes.append(one)
    return TensorShape(sizes)


def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: Any = None
) -> list[Tensor]:
    """The elements of each part, in their order.

    Args:
        data: ``partitions.shape + rest``.
        partitions: int32, the part of each element.
        num_partitions: how many parts there are.
        name: accepted.

    Raises:
        InvalidArgumentError: there is no part of a number, or the shapes do not fit.
    """
    value, parts = convert(data), static_array(partitions)
    if value.shape[: parts.ndim] != parts.shape:
        raise InvalidArgumentError(
            None, None, f"data.shape must start with partitions.shape: {value.shape}, {parts.shape}"
        )
    if parts.size and not (parts.min() >= 0 and parts.max() < num_partitions):
        raise InvalidArgumentError(
            None, None, f"partitions: a number is not in [0, {num_partitions})"
        )
    return [Tensor(value[parts == part]) for part in range(num_partitions)]


def dynamic_stitch(indices: Any, data: Any, name: Any = None) -> Tensor:
    """The tensor whose rows with the numbers ``indices[i]`` are ``data[i]``: the last one counts.

    Raises:
        InvalidArgumentError: the shapes do not fit, or a number is negative.
    """
    places = [static_array(each) for each in indices]
    values = [convert(each) for each in data]
    if len(places) != len(values):
        raise InvalidArgumentError(None, None, "indices and data must have as many elements")
    rest = values[0].shape[places[0].ndim :]
    for place, value in zip(places, values, strict=True):
        if value.shape != (*place.shape, *rest):
            raise InvalidArgumentError(
                None, None, f"data of shape {value.shape} do not fit indices of {place.shape}"
            )
    flat = np.concatenate([place.reshape(-1) for place in places])
    if flat.size and flat.min() < 0:
        raise InvalidArgumentError(None, None, f"indices: {flat.min()} is negative")
    size = int(flat.max()) + 1 if flat.size else 0
    xp = xp_of(*values)
    rows = xp.concatenate([v.reshape((-1, *rest)) for v in values]) if flat.size else values[0]
    last = np.zeros(size, int)
    last[flat] = np.arange(flat.size)
    made = rows.reshape((-1, *rest))[last]
    missing = ~np.isin(np.arange(size), flat)
    if missing.any():
        kept = missing.reshape(-1, *(1,) * len(rest))
        made = xp.where(kept, np.zeros((), made.dtype), made)
    return Tensor(made)


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = np.int32, name: Any = None
) -> Tensor:
    """The number of each value's bin, of bins of one width; the outer ones take what is outside.

    Returns:
        int32 numbers, whatever `dtype` is, as in TensorFlow.

    Raises:
        InvalidArgumentError: the range is empty, or there are no bins.
    """
    given, limits = same_dtype(values, value_range, "histogram_fixed_width_bins")
    count = int(static(nbins))
    if count <= 0:
        raise InvalidArgumentError(
            None, None, f"nbins should be a positive number, but got {count}"
        )
    if not is_traced(limits) and not np.asarray(limits)[0] < np.asarray(limits)[1]:
        raise InvalidArgumentError(None, None, f"value_range {np.asarray(limits)} is empty")
    xp = xp_of(given, limits)
    scaled = (given - limits[0]) / (limits[1] - limits[0])
    bins = xp.floor(count * scaled)
    return Tensor(xp.clip(bins, 0, count - 1).astype(np.int32))


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = np.int32, name: Any = None
) -> Tensor:
    """How many values are in each bin, of bins of one width; the outer ones take the rest."""
    found = histogram_fixed_width_bins(values, value_range, nbins)._value.reshape(-1)
    kind, count = dtypes.as_dtype(dtype).dtype, int(static(nbins))
    if is_jax(found):
        return Tensor(jnp.zeros(count, kind).at[found].add(jnp.ones((), kind)))
    return Tensor(np.bincount(found, minlength=count).astype(kind))


def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: Any = None, batch_axis: Any = None, name: Any = None
) -> Tensor:
    """The first elements of each sequence in the opposite order.

    Args:
        input: a tensor.
        seq_lengths: for each example how many elements are reversed.
        seq_axis: the dimension of the sequences.
        batch_axis: that of the examples, the first by default.
        name: accepted.

    Raises:
        InvalidArgumentError: a length is greater than the dimension.
    """
    value, lengths = convert(input), convert(seq_lengths)
    along = int(static(seq_axis)) % len(value.shape)
    batch = int(static(batch_axis or 0)) % len(value.shape)
    if not is_traced(lengths) and lengths.size and np.asarray(lengths).max() > value.shape[along]:
        raise InvalidArgumentError(
            None, None, f"seq_lengths must be at most {value.shape[along]}: {np.asarray(lengths)}"
        )
    xp = xp_of(value, lengths)
    front = xp.moveaxis(value, (batch, along), (0, 1))
    steps, ends = np.arange(value.shape[along], dtype=lengths.dtype)[None], lengths[:, None]
    places = xp.where(steps < ends, ends - 1 - steps, steps)
    places = places.reshape((*places.shape, *(1,) * (front.ndim - 2)))
    made = compute(lambda x, i: xp.take_along_axis(x, i, 1), front, places)
    return Tensor(xp.moveaxis(made, (0, 1), (batch, along)))


def extract_volume_patches(
    input: Any, ksizes: Any, strides: Any, padding: str, name: Any = None
) -> Tensor:
    """Blocks ``(batch, planes, rows, columns, block's elements)`` of volumes, as channels.

    Args:
        input: ``(batch, planes, rows, columns, channels)``.
        ksizes: the block's size, five numbers of which the first and last are 1.
        strides: the steps between blocks, in the same way.
        padding: ``"VALID"`` or ``"SAME"``.
        name: accepted.
    """
    return patches_of(convert(input), static(ksizes)[1:-1], static(strides)[1:-1], padding)


def patches_of(
    value: Any, sizes: list[int], steps: list[int], padding: str, rates: list[int] | None = None
) -> Tensor:
    """Blocks of ``(batch, *space, channels)``, with their elements as channels, channels last."""
    count = len(sizes)
    rates = rates or [1] * count
    if padding not in ("SAME", "VALID"):
        raise InvalidArgumentError(None, None, f"padding {padding!r}: SAME and VALID are there")
    starts: list[np.ndarray] = []
    widths: list[tuple[int, int]] = []
    for size, block, step, rate in zip(value.shape[1:-1], sizes, steps, rates, strict=True):
        reach = (block - 1) * rate + 1
        if padding == "SAME":
            blocks = -(-size // step)
            total = max((blocks - 1) * step + reach - size, 0)
            widths.append((total // 2, total - total // 2))
        else:
            blocks = max((size - reach) // step + 1, 0)
            widths.append((0, 0))
        starts.append((np.arange(blocks) * step)[:, None] + np.arange(block)[None] * rate)
    xp = xp_of(value)
    made = xp.pad(value, [(0, 0), *widths, (0, 0)])
    for place, found in enumerate(starts):
        axis = 1 + 2 * place
        made = xp.take(made, found.reshape(-1), axis=axis)
        made = made.reshape((*made.shape[:axis], *found.shape, *made.shape[axis + 1 :]))
    outer = [1 + 2 * place for place in range(count)]
    inner = [2 + 2 * place for place in range(count)]
    made = made.transpose((0, *outer, *inner, 2 * count + 1))
    return Tensor(made.reshape((*made.shape[: count + 1], -1)))


def parallel_stack(values: Any, name: Any = "parallel_stack") -> Any:
    """Tensors of one shape, stacked along a new first dimension."""
    return stack(values)


def shape_n(input: Any, out_type: Any = np.int32, name: Any = None) -> list[Tensor]:
    """The shapes of tensors."""
    return [shape(each, out_type) for each in input]


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: Any = None,
) -> Any:
    """What Python's indices ``begin:end:strides`` select.

    Args:
        input_: a tensor.
        begin: for each index where it begins.
        end: where it ends.
        strides: the steps, 1 by default.
        begin_mask: bits of indices whose `begin` is left out.
        end_mask: bits of those whose `end` is.
        ellipsis_mask: the bit of the index that is ``...``.
        new_axis_mask: bits of those that add a dimension.
        shrink_axis_mask: bits of those that select one element, whose dimension goes.
        var: accepted: variables are assigned by their own indices.
        name: accepted.
    """
    first, last = static(begin), static(end)
    steps = [1] * len(first) if strides is None else static(strides)
    index: list[Any] = []
    for place in range(len(first)):
        bit = 1 << place
        if ellipsis_mask & bit:
            index.append(Ellipsis)
        elif new_axis_mask & bit:
            index.append(None)
        elif shrink_axis_mask & bit:
            index.append(first[place])
        else:
            start = None if begin_mask & bit else first[place]
            stop = None if end_mask & bit else last[place]
            index.append(slice(start, stop, steps[place]))
    try:
        return Tensor(convert(input_))[tuple(index)]
    except IndexError as error:
        raise InvalidArgumentError(None, None, f"strided_slice: {error}") from None


def unravel_index(indices: Any, dims: Any, name: Any = None) -> Tensor:
    """The places, one column each, of elements whose numbers in a flat tensor are given.

    Raises:
        InvalidArgumentError: there is no element with a number.
    """
    flat, sizes = same_dtype(indices, dims, "UnravelIndex")
    shape_ = tuple(static_array(sizes).tolist())
    known = None if is_traced(flat) else np.asarray(flat)
    if (
        known is not None
        and known.size
        and not (known.min() >= 0 and known.max() < np.prod(shape_))
    ):
        raise InvalidArgumentError(None, None, f"index is out of bound as with dims {shape_}")
    xp = xp_of(flat)
    return Tensor(xp.stack(xp.unravel_index(flat, shape_)).astype(flat.dtype))


def guarantee_const(input: Any, name: Any = None) -> Any:
    """A tensor with the same value."""
    return identity(input)


def timestamp(name: Any = None) -> Tensor:
    """The seconds since 1970, float64.

    Raises:
        ValueNeedsPython: a function is traced, which would have one time for all its calls.
    """
    if is_staging():
        raise ValueNeedsPython("the function asks for the time, which a compiled one does not know")
    return Tensor(np.asarray(time.time(), np.float64))


def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of a function that is being traced, without a value.

    Raises:
        TypeError: it is no tensor.
    """
    import keras

    if isinstance(tensor, keras.KerasTensor):
        return True
    if isinstance(tensor, (Tensor, jax.Array)):
        return is_traced(convert(tensor))
    raise TypeError(f"{type(tensor).__name__} is no tensor")


def inside_function() -> bool:
    """Whether a ``tf.function`` is being traced."""
    return bool(is_staging())
