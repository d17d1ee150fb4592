"""FLOPs of programs, against XLA's own count and numbers worked out by hand; and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from jax import lax

from drumline.profiler import hardware

F32 = np.float32


def shape(*dims: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def flops(function: Callable[..., Any], *arguments: Any) -> int:
    return hardware.model_flops(jax.jit(function), arguments).total()


def test_products_count_a_multiplication_and_an_addition() -> None:
    assert flops(lambda a, b: a @ b, shape(3, 5), shape(5, 7)) == 2 * 3 * 5 * 7
    batched = flops(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), shape(2, 3, 5), shape(2, 5, 7))
    assert batched == 2 * 2 * 3 * 5 * 7


def test_of_a_loop_each_round_counts_and_of_branches_the_largest() -> None:
    def loop(x: Any) -> Any:
        return lax.scan(lambda carry, _: (carry @ carry, None), x, None, length=6)[0]

    assert flops(loop, shape(4, 4)) == 6 * 2 * 4**3

    def choice(x: Any) -> Any:
        return lax.cond(x[0, 0] > 0, lambda y: y @ y @ y, lambda y: y @ y, x)

    assert flops(choice, shape(4, 4)) == 2 * 2 * 4**3


def test_the_devices_of_a_program_are_counted_together() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    each = jax.shard_map(lambda a: a @ a.T, mesh=mesh, in_specs=spec, out_specs=spec)
    rows = 4 * len(jax.devices())
    assert flops(each, shape(rows, 5)) == len(jax.devices()) * 2 * 4 * 4 * 5


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_and_their_gradients_are_as_xla_counts_them(strides: int, groups: int) -> None:
    def loss(x: Any, kernel: Any) -> Any:
        out = keras.ops.conv(x, kernel, strides=strides, padding="valid")
        return (out * out).sum()

    x, kernel = shape(2, 9, 9, 4), shape(3, 3, 4 // groups, 6)
    gradient = jax.grad(loss, (0, 1))
    side = (9 - 3) // strides + 1
    one = 2 * (2 * side * side * 6) * (3 * 3 * 4 // groups)
    assert flops(loss, x, kernel) == one
    # Forward, and a product of each gradient; XLA counts a strided one's zeros as little as this.
    found = flops(gradient, x, kernel)
    assert found == pytest.approx(3 * one, rel=0.6 if strides > 1 else 0.4)
    assert found >= 2.5 * one


def test_a_dense_model_counts_as_in_xlas_analysis() -> None:
    def step(x: Any, w: Any, v: Any) -> Any:
        return jax.value_and_grad(lambda w, v: (jnp.tanh(x @ w) @ v).sum(), (0, 1))(w, v)

    arguments = shape(64, 128), shape(128, 256), shape(256, 32)
    theirs = jax.jit(step).lower(*arguments).cost_analysis()["flops"]
    assert flops(step, *arguments) == pytest.approx(theirs, rel=0.02)


def test_the_trace_of_a_function_that_ran_is_used_again() -> None:
    traced = []

    def step(x: Any) -> Any:
        traced.append(x)
        return (x @ x).sum()

    program = jax.jit(step)
    program(np.ones((4, 4), F32))
    assert hardware.model_flops(program, (shape(4, 4),))["float32"] == 2 * 4**3
    assert len(traced) == 1


def test_the_peak_is_measured_once_and_no_product_is_quicker() -> None:
    device = jax.devices()[0]
    peak = hardware.peak_flops(device, "float32")
    assert hardware.peak_flops(device, "float32") is peak
    assert 1e8 < peak < 1e15
    assert hardware.peak_of(jax.devices(), "float32") == peak  # they share the processors


class Accelerator:
    """A device with memory of its own, of which so much is free."""

    platform = "gpu"

    def __init__(self, free: int | None, peak: int = 0) -> None:
        self.free, self.peak = free, peak

    def memory_stats(self) -> dict[str, int]:
        limits = {} if self.free is None else {"bytes_limit": 10**9 + self.free}
        return {**limits, "bytes_in_use": 10**9, "peak_bytes_in_use": self.peak}


@pytest.mark.parametrize(
    ("free", "side"), [(None, 8192), (10**11, 8192), (2 * 10**9, 2560), (100, 256)]
)
def test_an_accelerators_peak_takes_little_of_its_free_memory(
    free: int | None, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = Accelerator(free)
    asked = []

    def seconds(device: Any, dtype: str, side: int, at_once: int) -> float:
        asked.append((side, at_once))
        return 2e-3

    monkeypatch.setattr(hardware, "_product_seconds", seconds)
    assert hardware.peak_flops(device, "bfloat16") == 2.0 * side**3 / 2e-3
    ((found, at_once),) = asked
    assert found == side and at_once > 1
    if free and side > 256:
        assert (1 + at_once) * side**2 * 2 < 0.1 * free


def test_accelerators_compute_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_product_seconds", lambda *_: 1.0)
    devices: Any = [Accelerator(None) for _ in range(3)]
    assert hardware.peak_of(devices, "float32") == 3 * 2.0 * 8192**3
    assert hardware.peak_of([], "float32") == 0


def test_memory_that_measuring_took_is_not_the_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    device: Any = Accelerator(None, peak=5)

    def seconds(device: Any, dtype: str, side: int, at_once: int) -> float:
        device.peak = max(device.peak, 70)
        return 1.0

    monkeypatch.setattr(hardware, "_product_seconds", seconds)
    assert hardware.device_peak_bytes([device]) == 5
    hardware.peak_flops(device, "float32")
    assert hardware.device_peak_bytes([device]) is None
    device.peak = 80
    assert hardware.device_peak_bytes([device]) == 80
    hardware.peak_flops(device, "float16")  # less than the training has taken
    assert hardware.device_peak_bytes([device]) == 80


def test_the_hosts_peak_is_what_the_kernel_says() -> None:
    before = hardware.host_peak_bytes()
    block = np.ones(80_000_000, np.uint8)
    block[:] = 2
    after = hardware.host_peak_bytes()
    with open("/proc/self/status") as status:
        kernel = next(line for line in status if line.startswith("VmHWM"))
    assert after >= before
    assert after == pytest.approx(int(kernel.split()[1]) * 1024, rel=0.05)


def test_devices_that_do_not_tell_their_memory_are_unknown() -> None:
    class Known:
        def memory_stats(self) -> dict[str, int]:
            return {"peak_bytes_in_use": 7}

    assert hardware.device_peak_bytes(jax.devices("cpu")) is None
    devices: Any = [Known(), *jax.devices("cpu")]
    assert hardware.device_peak_bytes(devices) == 7
