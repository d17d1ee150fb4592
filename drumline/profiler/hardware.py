"""What a step computes, in FLOPs, what the hardware can, and how much memory is taken.

FLOPs are those of the products (matrix products and convolutions) in the traced program of a step:
the model's, forward and backward, whatever kernels compute them. The hardware's peak is measured
once in a process, by a matrix product.
"""

from __future__ import annotations

import functools
import math
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def model_flops(program: Any, arguments: Any) -> Counter[str]:
    """The FLOPs of a compiled function's products, by the type of their operands.

    Args:
        program: what `jax.jit` returned, which was called with such arguments: its trace is there.
        arguments: types of the arguments.
    """
    traced = program.trace(*arguments)
    return flops_of(traced.jaxpr.jaxpr)


def flops_of(jaxpr: Any) -> Counter[str]:
    """The FLOPs of the products in a program, over all devices, by the type of their operands.

    A multiplication and an addition are two. Loops with a known number of rounds count as often; of
    the branches of a condition the one with most; a loop of unknown length counts once.
    """
    total: Counter[str] = Counter()
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            total[str(eqn.invars[0].aval.dtype)] += _of_product(eqn)
        elif eqn.primitive.name == "conv_general_dilated":
            total[str(eqn.invars[0].aval.dtype)] += _of_convolution(eqn)
        elif eqn.primitive.name == "cond":
            most: Counter[str] = Counter()
            for branch in eqn.params["branches"]:
                most = max(most, flops_of(branch.jaxpr), key=Counter.total)
            total += most
        else:
            times = _rounds(eqn)
            for inner in _inner(eqn):
                for dtype, flops in flops_of(inner).items():
                    total[dtype] += times * flops
    return total


def _of_product(eqn: Any) -> int:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    shape = eqn.invars[0].aval.shape
    size: int = math.prod(shape[dim] for dim in contracted)
    return 2 * size * math.prod(eqn.outvars[0].aval.shape)


def _of_convolution(eqn: Any) -> int:
    """Each number of the output is a sum over a window of the kernel, without its output channels.

    Where the input is dilated, as in the gradient of a strided convolution, most of what a window
    covers are zeros between its numbers, which are not counted.
    """
    kernel = eqn.invars[1].aval.shape
    numbers = eqn.params["dimension_numbers"]
    channels = kernel[numbers.rhs_spec[0]]
    dilated: int = math.prod(eqn.params["lhs_dilation"])
    window: int = math.prod(kernel) // max(1, channels)
    return 2 * window * math.prod(eqn.outvars[0].aval.shape) // max(1, dilated)


def _rounds(eqn: Any) -> int:
    name, params = eqn.primitive.name, eqn.params
    if name == "scan":
        return int(params["length"])
    if name == "shard_map":
        return math.prod(dict(params["mesh"].shape).values())
    return 1


def _inner(eqn: Any) -> Iterator[Any]:
    """The programs that an equation runs; of a custom derivative the function itself."""
    if eqn.primitive.name == "while":
        yield eqn.params["body_jaxpr"].jaxpr
        return
    for value in eqn.params.values():
        for each in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(each, "eqns"):
                yield each
            elif hasattr(getattr(each, "jaxpr", None), "eqns"):
                yield each.jaxpr


_LEAST_SECONDS = 0.03
_MOST_SECONDS = 0.1
_MOST_TIMES = 10
_MOST_SIDE = 16384
_SIDE_OF_ACCELERATORS = 8192
"""The one size that is compiled there, which fills the largest of them."""
_PRODUCTS_AT_ONCE = 8
"""On an accelerator, which would else stand still until the next one is started."""
_ROOM = 128
"""A square takes this part of an accelerator's free memory at most: the training needs the rest."""

_raised: dict[jax.Device, int] = {}
"""The most memory taken on devices, where measuring made it so."""


@functools.cache
def peak_flops(device: jax.Device, dtype: str) -> float:
    """FLOPs per second of the largest matrix product that takes a few hundredths of a second.

    Measured on the device when it is first asked for, while nothing else is to run there: the
    quickest of some products counts. On CPUs all devices of the process share the processors, and
    one of them is measured with all. Of an accelerator's memory a part is used that is free.
    """
    if device.platform != "cpu":
        side = _side_with_room(device, dtype)
        before = device_peak_bytes([device])
        seconds = _product_seconds(device, dtype, side, _PRODUCTS_AT_ONCE)
        after = (device.memory_stats() or {}).get("peak_bytes_in_use")
        if after is not None and after != before:
            _raised[device] = after
        return 2.0 * side**3 / seconds
    side = 512
    while True:
        seconds = _product_seconds(device, dtype, side, 1)
        if seconds >= _LEAST_SECONDS / 2 or side >= _MOST_SIDE:
            return 2.0 * side**3 / seconds
        # As large as takes long enough, by the time of the last: few sizes are compiled.
        factor = (_LEAST_SECONDS / seconds) ** (1 / 3)
        side = min(_MOST_SIDE, max(2 * side, 256 * math.ceil(side * factor / 256)))


def _side_with_room(device: jax.Device, dtype: str) -> int:
    """The side of squares that an accelerator has memory for, whatever lies in it already."""
    stats = device.memory_stats() or {}
    limit = stats.get("bytes_limit")
    if not limit:
        return _SIDE_OF_ACCELERATORS
    free = max(0, int(limit) - int(stats.get("bytes_in_use", 0)))
    side = math.isqrt(free // _ROOM // jnp.dtype(dtype).itemsize) // 256 * 256
    return min(_SIDE_OF_ACCELERATORS, max(256, side))


def _product_seconds(device: jax.Device, dtype: str, side: int, at_once: int) -> float:
    """Seconds of a product of two squares, of which some are started before one is waited for."""
    with jax.default_device(device):
        square = jax.device_put(jnp.full((side, side), 0.5, dtype), device)
        product = jax.jit(lambda a, b: a @ b)
        product(square, square).block_until_ready()
        times: list[float] = []
        while len(times) < 3 or (sum(times) < _MOST_SECONDS and len(times) < _MOST_TIMES):
            began = time.perf_counter()
            for _ in range(at_once):
                last = product(square, square)
            last.block_until_ready()
            times.append(time.perf_counter() - began)
    return max(min(times) / at_once, 1e-9)


def peak_of(devices: Sequence[jax.Device], dtype: str) -> float:
    """What devices can compute together, FLOPs per second; see `peak_flops`."""
    if not devices:
        return 0.0
    one = peak_flops(devices[0], dtype)
    return one if devices[0].platform == "cpu" else one * len(devices)


def host_peak_bytes() -> int:
    """The most memory that this process has had in RAM since it started."""
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes if sys.platform == "darwin" else kibibytes * 1024


def device_peak_bytes(devices: Sequence[jax.Device]) -> int | None:
    """The most memory taken on one of the devices; None where they do not say, as CPUs.

    None as well where the training took less than `peak_flops` did, whose memory is not its own.
    """
    found = [(d, (d.memory_stats() or {}).get("peak_bytes_in_use")) for d in devices]
    known = [int(n) for d, n in found if n is not None and n != _raised.get(d)]
    return max(known) if known else None
