"""What must hold for every algorithm and number of replicas; also run with eight of them.

Not a test module: `test_algorithms.py` calls it in this process and in one with eight devices.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from drumline.distribute.collectives import CrossDeviceOps
from tests.distribute.collectives.replicas import (
    ALGORITHMS,
    assert_same_bits,
    axis_of,
    program,
    run,
    stack_of,
)
from tests.distribute.collectives.traffic import bytes_between

FLOATS = (np.float32, np.float16, ml_dtypes.bfloat16)
SIZES_TO_COUNT = (1, 7, 960)


def values(replica: int) -> dict[str, Any]:
    """Arrays whose sums depend on the order, of many shapes and types."""
    random = np.random.default_rng(replica)
    floats = {
        np.dtype(kind).name: (random.normal(size=(5, 7)) * 10.0 ** random.integers(-2, 3)).astype(
            kind
        )
        for kind in FLOATS
    }
    return floats | {
        "scalar": np.float32(random.normal()),
        "empty": np.zeros((0, 4), np.float32),
        "int32": random.integers(-1000, 1000, (3,)).astype(np.int32),
        "int8": random.integers(-10, 10, (2, 2)).astype(np.int8),
        "uint8": random.integers(0, 20, (9,)).astype(np.uint8),
        "bool": random.integers(0, 2, (6,)).astype(bool),
        "complex64": random.normal(size=(3, 2)).astype(np.complex64) * (1 + 2j),
    }


def check_sums(ops: CrossDeviceOps, replicas: int) -> None:
    """The sums are right to rounding, keep types, and are the same to the bit on all replicas."""
    stacked = stack_of(values, replicas)
    results = run(lambda v: ops.all_reduce("SUM", v, axis_of(replicas)), replicas, stacked)
    for name, given in stacked.items():
        result = results[name]
        assert result.dtype == (np.int32 if given.dtype == bool else given.dtype), name
        assert_same_bits(result, np.broadcast_to(result[0], result.shape).copy())
        _assert_close(result[0], given, 1)


def check_means(ops: CrossDeviceOps, replicas: int) -> None:
    """Means as `lax.pmean`: types of floats are kept, those of integers become float32."""
    types = {"scalar": np.float32, "bfloat16": ml_dtypes.bfloat16, "int32": np.float32}
    stacked = stack_of(lambda replica: {name: values(replica)[name] for name in types}, replicas)
    results = run(lambda v: ops.all_reduce("MEAN", v, axis_of(replicas)), replicas, stacked)
    for name, given in stacked.items():
        assert results[name].dtype == types[name], name
        _assert_close(results[name][0], given, replicas)


def check_bytes(ops: CrossDeviceOps, replicas: int) -> None:
    """What the compiled program sends from each device is what the formula says."""
    axis = axis_of(replicas)
    for size in SIZES_TO_COUNT:
        array = jax.ShapeDtypeStruct((size,), jnp.float32)
        sent = count(ops, replicas, array).sum(axis=1)
        assert sent.tolist() == [ops.bytes_sent(array, axis, i) for i in range(replicas)], size


def check_packs(name: str, replicas: int) -> None:
    """Packing changes no bit."""
    chosen = ("float32", "bfloat16", "scalar", "empty", "int32")
    given = stack_of(lambda r: [[values(r + i)[key] for key in chosen] for i in (0, 100)], replicas)
    options = [{"num_packs": 0}, {"num_packs": 1}, {"num_packs": 2}, {"bytes_per_pack": 150}]
    variants = [ALGORITHMS[name](**option) for option in options]

    def body(v: Any) -> Any:
        return [ops.all_reduce("SUM", v, axis_of(replicas)) for ops in variants]

    alone, *packed = run(body, replicas, given)
    for results in packed:
        assert_same_bits(results, alone)


def count(ops: CrossDeviceOps, replicas: int, array: jax.ShapeDtypeStruct) -> np.ndarray:
    """The bytes sent between devices to sum an array of this shape and type."""
    reduce = program(lambda a: ops.all_reduce("SUM", a, axis_of(replicas)), replicas)
    stacked = jax.ShapeDtypeStruct((replicas, *array.shape), array.dtype)
    return bytes_between(reduce.lower(stacked).compile().as_text())


def check_everything(replicas: int) -> None:
    for name, make in ALGORITHMS.items():
        check_sums(make(), replicas)
        check_means(make(), replicas)
        check_bytes(make(), replicas)
        check_packs(name, replicas)
        print("checked", name, flush=True)


def _assert_close(result: np.ndarray, given: np.ndarray, divisor: int) -> None:
    if not jnp.issubdtype(given.dtype, jnp.inexact):
        expected = given.astype(np.int64).sum(axis=0)
        np.testing.assert_allclose(result, expected / divisor, rtol=1e-6 * (divisor > 1))
        return
    wide = given.astype(np.complex128 if given.dtype.kind == "c" else np.float64)
    rounding = (
        float(jnp.finfo(given.dtype).eps) * len(given) * np.abs(wide).sum(axis=0).max(initial=0)
    )
    np.testing.assert_allclose(
        result.astype(wide.dtype), wide.sum(axis=0) / divisor, rtol=0, atol=rounding / divisor
    )
