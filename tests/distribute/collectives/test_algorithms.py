"""Every algorithm, by the same checks, among one to four replicas and among eight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drumline.distribute.collectives import ReductionToOneDevice, RingAllReduce, ring
from tests.distribute.collectives import checks
from tests.distribute.collectives.replicas import (
    ALGORITHMS,
    assert_same_bits,
    axis_of,
    program,
    run,
    stack_of,
)

EIGHT = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
from tests.distribute.collectives import checks
checks.check_everything(8)
"""

algorithms = pytest.mark.parametrize("name", ALGORITHMS)
counts = pytest.mark.parametrize("replicas", [1, 2, 3, 4])


@algorithms
@counts
def test_sums_are_right_and_alike_on_all_replicas(name, replicas):
    checks.check_sums(ALGORITHMS[name](), replicas)


@algorithms
@counts
def test_means_divide_the_sums(name, replicas):
    checks.check_means(ALGORITHMS[name](), replicas)


@algorithms
@counts
def test_compiled_program_sends_the_bytes_of_the_formula(name, replicas):
    checks.check_bytes(ALGORITHMS[name](), replicas)


@algorithms
@counts
def test_packing_changes_no_bit(name, replicas):
    checks.check_packs(name, replicas)


@pytest.mark.thorough
def test_eight_replicas():
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EIGHT],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [f"checked {name}" for name in ALGORITHMS]


@pytest.mark.parametrize(("name", "replicas"), [("hierarchical", 3), ("ring", 4)])
def test_long_rings_become_a_loop_with_the_same_bits_and_bytes(name, replicas, monkeypatch):
    ops, axis = ALGORITHMS[name](), axis_of(replicas)
    given = stack_of(checks.values, replicas)

    def compiled():
        reduce = program(lambda v: ops.all_reduce("SUM", v, axis), replicas)
        return reduce.lower(given).compile()

    unrolled = compiled()
    monkeypatch.setattr(ring, "UNROLLED_STEPS", 0)
    looped = compiled()
    assert ("while(" in unrolled.as_text(), "while(" in looped.as_text()) == (False, True)
    results = [
        jax.tree.map(np.asarray, jax.block_until_ready(c(given))) for c in (unrolled, looped)
    ]
    assert_same_bits(*results)
    checks.check_bytes(ops, replicas)


def test_ring_sends_to_the_next_replica_only():
    sent = checks.count(RingAllReduce(), 4, jax.ShapeDtypeStruct((1000,), jnp.float32))
    assert_same_bits(sent, np.roll(np.eye(4, dtype=np.int64), 1, axis=1) * 6 * 1000)


@pytest.mark.parametrize("root", [0, 2])
def test_reduction_to_one_device_sends_to_it_and_from_it(root):
    ops = ReductionToOneDevice(f"cpu:{root}")
    checks.check_sums(ops, 4)
    checks.check_bytes(ops, 4)
    sent = checks.count(ops, 4, jax.ShapeDtypeStruct((1000,), jnp.float32))
    expected = np.zeros((4, 4), np.int64)
    expected[root] = expected[:, root] = 4000
    expected[root, root] = 0
    assert_same_bits(sent, expected)


def test_hierarchical_copy_sends_little_across_groups():
    array = jax.ShapeDtypeStruct((1000,), jnp.float32)
    sent = checks.count(ALGORITHMS["hierarchical"](), 4, array)
    within, across = 4000, 2000
    expected = [[0, within, across, 0], [within, 0, 0, across]]
    expected += [[across, 0, 0, within], [0, across, within, 0]]
    assert sent.tolist() == expected


@algorithms
def test_inside_a_scan(name):
    ops, axis = ALGORITHMS[name](), axis_of(4)
    steps = np.arange(4 * 3 * 5, dtype=np.float32).reshape(4, 3, 5)

    def body(rows):
        def step(total, row):
            total += ops.all_reduce("MEAN", row, axis)
            return total, total

        return jax.lax.scan(step, jnp.zeros(5), rows)[1]

    expected = np.broadcast_to(steps.mean(axis=0).cumsum(axis=0), steps.shape)
    np.testing.assert_allclose(run(body, 4, steps), expected, rtol=1e-6)


@algorithms
@pytest.mark.parametrize("replicas", [1, 3, 4])
def test_derivatives_are_those_of_psum(name, replicas):
    ops, axis = ALGORITHMS[name](), axis_of(replicas)
    random = np.random.default_rng(0)
    x, w = random.normal(size=(2, replicas, 3, 5)).astype(np.float32)

    def derivatives(reduce):
        def loss(x, w):
            return jnp.sum(w * jnp.tanh(reduce(x * w)) ** 2)

        def body(x, w):
            return {
                "value_and_grad": jax.value_and_grad(loss, argnums=(0, 1))(x, w),
                "jvp": jax.jvp(loss, (x, w), (w, x)),
                "rows": jax.vmap(jax.grad(loss))(x, w),
            }

        return run(body, replicas, x, w)

    actual = derivatives(lambda v: ops.all_reduce("SUM", v, axis))
    expected = derivatives(lambda v: jax.lax.psum(v, "replica"))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), actual, expected
    )


@pytest.mark.parametrize("unrolled_steps", [ring.UNROLLED_STEPS, 0])
@pytest.mark.parametrize("name", ["hierarchical", "one_device", "ring"])
def test_gradients_are_alike_on_all_replicas(name, unrolled_steps, monkeypatch):
    monkeypatch.setattr(ring, "UNROLLED_STEPS", unrolled_steps)
    ops, axis = ALGORITHMS[name](), axis_of(4)
    x, w = np.random.default_rng(0).normal(size=(2, 4, 11)).astype(np.float32)

    def body(x, w):
        return jax.grad(lambda x: jnp.sum(w * ops.all_reduce("SUM", x, axis)))(x)

    gradients = run(body, 4, x, w)
    np.testing.assert_allclose(gradients[0], w.sum(axis=0), rtol=1e-5)
    assert_same_bits(gradients, np.broadcast_to(gradients[0], gradients.shape).copy())
