"""``tf.quantization``: numbers rounded as integers would, with gradients past the rounding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_traced
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor


def _levels(num_bits: int, narrow_range: bool) -> tuple[int, int]:
    if not 2 <= num_bits <= 16:
        raise InvalidArgumentError(
            None, None, f"num_bits must be between 2 and 16, inclusive, not {num_bits}"
        )
    return (1 if narrow_range else 0), 2**num_bits - 1


def _rounded(x: Any, least: Any, most: Any, first: int, last: int) -> Any:
    """Numbers in steps between two limits, which move so that zero is one of the steps."""
    step = (most - least) / (last - first)
    step = jnp.where(step == 0, 1, step)
    zero = first - least / step
    zero = jnp.clip(jnp.floor(zero + 0.5), first, last)
    low, high = (first - zero) * step, (last - zero) * step
    inside = jnp.clip(x, low, high)
    made = jnp.floor((inside - low) / step + 0.5) * step + low
    # The gradient goes to the number, or to the limit that has cut it off.
    through = jnp.where(x < low, least, jnp.where(x > high, most, x))
    made = through + jax.lax.stop_gradient(made - through)
    return jnp.where((least == 0) & (most == 0), jnp.zeros((), x.dtype), made)


def _quantized(inputs: Any, least: Any, most: Any, num_bits: int, narrow_range: bool) -> Tensor:
    first, last = _levels(num_bits, narrow_range)
    x, low, high = (convert(each, np.float32) for each in (inputs, least, most))
    return Tensor(compute(lambda x, low, high: _rounded(x, low, high, first, last), x, low, high))


def fake_quant_with_min_max_args(
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: Any = None,
) -> Tensor:
    """Numbers in as many steps as an integer type has, within limits.

    Args:
        inputs: float32.
        min: the lower limit; both are moved a little so that zero is a step.
        max: the upper limit.
        num_bits: of the integers, 2 to 16.
        narrow_range: whether the lowest integer is not used.
        name: accepted.

    Returns:
        float32, whose gradient is that of the numbers within the limits.

    Raises:
        InvalidArgumentError: the limits are in the wrong order, or ``num_bits`` out of range.
    """
    if not min < max:
        raise InvalidArgumentError(
            None, None, f"min has to be smaller than max, was: {min} >= {max}"
        )
    return _quantized(inputs, min, max, num_bits, narrow_range)


def fake_quant_with_min_max_vars(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: Any = None,
) -> Tensor:
    """As `fake_quant_with_min_max_args`, with limits that are tensors and have gradients.

    Raises:
        InvalidArgumentError: a limit is no single number, or ``num_bits`` out of range.
    """
    for limit in (min, max):
        if convert(limit).shape:
            raise InvalidArgumentError(
                None, None, f"min and max must be single numbers, not {convert(limit).shape}"
            )
    return _quantized(inputs, min, max, num_bits, narrow_range)


def fake_quant_with_min_max_vars_per_channel(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: Any = None,
) -> Tensor:
    """As `fake_quant_with_min_max_vars`, with limits ``(channels,)`` of the last dimension.

    Raises:
        InvalidArgumentError: there is not a limit for each channel, or ``num_bits`` out of range.
    """
    channels = convert(inputs).shape[-1:]
    for limit in (min, max):
        if convert(limit).shape != channels:
            raise InvalidArgumentError(
                None, None, f"min and max must have shape {channels}, not {convert(limit).shape}"
            )
    return _quantized(inputs, min, max, num_bits, narrow_range)


def quantize_and_dequantize_v2(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: Any = None,
    narrow_range: bool = False,
    axis: Any = None,
) -> Tensor:
    """Numbers in as many steps as an integer type has, by one scale, and back.

    Args:
        input: floats.
        input_min: the lower limit if it is given, one for each place of `axis`.
        input_max: the upper one.
        signed_input: whether the integers are.
        num_bits: of the integers.
        range_given: whether the limits are; otherwise the numbers' own are taken.
        round_mode: ``"HALF_TO_EVEN"`` or ``"HALF_UP"``.
        name: accepted.
        narrow_range: whether the lowest integer is not used.
        axis: the dimension whose places have limits of their own.

    Returns:
        Floats, with the gradient of what lies within the limits.

    Raises:
        InvalidArgumentError: the limits are in the wrong order, or an option is unknown.
    """
    if round_mode not in ("HALF_TO_EVEN", "HALF_UP"):
        raise InvalidArgumentError(
            None, None, f"round_mode {round_mode!r}: HALF_TO_EVEN or HALF_UP"
        )
    if not 1 <= num_bits <= 62:
        raise InvalidArgumentError(None, None, f"num_bits is out of range: {num_bits}")
    value = convert(input)
    kind = value.dtype
    along = None if axis is None or axis == -1 else int(axis) % len(value.shape)
    low, high = (convert(each, kind) for each in (input_min, input_max))
    if range_given and not any(map(is_traced, (low, high))) and (low > high).any():
        raise InvalidArgumentError(None, None, "Invalid range: input_min > input_max")

    def computed(x: Any, low: Any, high: Any) -> Any:
        others = tuple(place for place in range(x.ndim) if place != along)
        if not range_given:
            low, high = jnp.min(x, others), jnp.max(x, others)
        if along is not None:
            shape = [1] * x.ndim
            shape[along] = -1
            low, high = low.reshape(shape), high.reshape(shape)
        least = (-(2 ** (num_bits - 1)) + narrow_range) if signed_input else 0
        most = 2 ** (num_bits - 1) - 1 if signed_input else 2**num_bits - 1
        below = jnp.where(least * low > 0, least / jnp.where(low == 0, 1, low), jnp.inf)
        above = jnp.where(most * high > 0, most / jnp.where(high == 0, 1, high), jnp.inf)
        scale = jnp.minimum(below, above)
        scale = jnp.where(jnp.isinf(scale), 1, scale)
        low = jnp.where(below <= above, low, least / scale)
        high = jnp.where(below <= above, most / scale, high)
        # Only limits that are given cut numbers off: unsigned integers take negative ones, too.
        scaled = (jnp.clip(x, low, high) if range_given else x) * scale
        steps = jnp.round(scaled) if round_mode == "HALF_TO_EVEN" else jnp.floor(scaled + 0.5)
        kept = jnp.where((x >= low) & (x <= high), x, jax.lax.stop_gradient(x))
        return kept + jax.lax.stop_gradient(steps / scale - kept)

    return Tensor(compute(computed, value, low, high))
