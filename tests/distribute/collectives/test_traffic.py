"""Counting what compiled programs send, for operations whose bytes are known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.distribute.collectives.replicas import program
from tests.distribute.collectives.traffic import bytes_between

NEXT = np.roll(np.eye(4, dtype=np.int64), 1, axis=1)
OTHERS = 1 - np.eye(4, dtype=np.int64)
SWAP = [(0, 1), (1, 0), (2, 2)]
PAIRS = [[0, 2], [3, 1]]


def count(body, *shape, dtype=jnp.float32):
    lowered = program(body, 4).lower(jax.ShapeDtypeStruct((4, *shape), dtype))
    return bytes_between(lowered.compile().as_text())


def in_a_loop(x):
    return lax.fori_loop(0, 5, lambda _, v: lax.ppermute(v, "replica", SWAP[:1]), x)


def in_nested_loops(x):
    return lax.fori_loop(0, 3, lambda _, v: in_a_loop(v) + 1, x)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda x: x * 2, 0 * NEXT),
        (lambda x: lax.psum(x, "replica"), 6 * 8 * NEXT),
        (lambda x: lax.all_gather(x, "replica"), 3 * 32 * NEXT),
        (lambda x: lax.psum_scatter(x, "replica", tiled=True), 3 * 8 * NEXT),
        (lambda x: lax.all_to_all(x, "replica", 0, 0, tiled=True), 8 * OTHERS),
    ],
    ids=["nothing", "all-reduce", "all-gather", "reduce-scatter", "all-to-all"],
)
def test_operations(body, expected):
    assert count(body, 8).tolist() == expected.tolist()


def test_permutes_count_their_pairs_and_not_what_stays():
    sent = count(lambda x: lax.ppermute(x, "replica", SWAP), 8)
    assert sent.tolist() == [[0, 32, 0, 0], [32, 0, 0, 0], [0] * 4, [0] * 4]


def test_groups():
    sent = count(lambda x: lax.psum(x, "replica", axis_index_groups=PAIRS), 8)
    assert sent.tolist() == [[0, 0, 32, 0], [0, 0, 0, 32], [32, 0, 0, 0], [0, 32, 0, 0]]


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.int16, jnp.float32, jnp.complex64])
def test_types(dtype):
    sent = count(lambda x: lax.ppermute(x, "replica", SWAP[:1]), 8, dtype=dtype)
    assert sent.sum() == sent[0, 1] == 8 * np.dtype(dtype).itemsize


@pytest.mark.parametrize(("body", "times"), [(in_a_loop, 5), (in_nested_loops, 15)])
def test_loops_count_every_turn(body, times):
    assert count(body, 8)[0, 1] == times * 32


def test_operations_of_one_kind_merged_into_one_count_each():
    sent = count(lambda x: [lax.psum(x, "replica"), lax.psum(x[:4], "replica")], 8)
    assert sent.tolist() == (6 * 12 * NEXT).tolist()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: lax.while_loop(lambda v: v[0] < 9, in_a_loop, x), "an unbounded loop"),
        (lambda x: lax.cond(x[0] > 0, in_a_loop, jnp.sin, x), "a branch of a conditional"),
    ],
)
def test_what_cannot_be_counted_is_refused(body, message):
    with pytest.raises(ValueError, match=message):
        count(body, 8)


def test_loops_and_branches_without_collectives_are_no_matter():
    def body(x):
        x = lax.while_loop(lambda v: v[0] < 9, lambda v: v * v, x)
        return lax.psum(lax.cond(x[0] > 0, jnp.cos, jnp.sin, x), "replica")

    assert count(body, 8).tolist() == (6 * 8 * NEXT).tolist()


ASYNCHRONOUS = """HloModule jit_f, is_scheduled=true, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%wrapped (p: f32[2]) -> f32[8] {
  %p = f32[2]{0} parameter(0)
  ROOT %ag = f32[8]{0} all-gather(%p), channel_id=3, replica_groups=[1,4]<=[4], dimensions={0}
}

ENTRY %main (x: f32[8], y: bf16[2,2]) -> (f32[8], bf16[2,2]) {
  %x = f32[8]{0:T(256)} parameter(0)
  %y = bf16[2,2]{1,0} parameter(1)
  %ar = f32[8]{0} all-reduce-start(%x), channel_id=1, replica_groups={{0,1},{2,3}}, to_apply=%add
  %ar-done = f32[8]{0} all-reduce-done(f32[8]{0} %ar)
  %cp = (bf16[2,2], /*index=1*/bf16[2,2]) collective-permute-start(%y), source_target_pairs={{0,3}}
  %cp-done = bf16[2,2]{1,0} collective-permute-done(%cp)
  %s = f32[2]{0} slice(%x), slice={[0:2]}
  %as = ((f32[2]{0}), f32[8]{0}, s32[]) async-start(%s), calls=%wrapped
  %as-done = f32[8]{0} async-done(%as), calls=%wrapped
  ROOT %r = (f32[8]{0}, bf16[2,2]{1,0}) tuple(%ar-done, %cp-done)
}
"""


def test_asynchronous_operations_count_once():
    pairs = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    expected = 32 * pairs + 24 * NEXT
    expected[0, 3] += 8
    assert bytes_between(ASYNCHRONOUS).tolist() == expected.tolist()


def test_transposed_groups():
    text = ASYNCHRONOUS.replace("replica_groups={{0,1},{2,3}}", "replica_groups=[2,2]<=[2,2]T(1,0)")
    assert bytes_between(text)[0, 2] == bytes_between(text)[3, 1] == 32


def test_operations_of_unknown_size_are_refused():
    text = ASYNCHRONOUS.replace("collective-permute-start", "send").replace(
        "collective-permute-done", "send-done"
    )
    with pytest.raises(ValueError, match="operation 'send'"):
        bytes_between(text)


def test_text_that_is_no_program():
    with pytest.raises(ValueError, match="no ENTRY computation"):
        bytes_between("module @jit_f {\n}")


MESH = """HloModule m, num_partitions=4

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

ENTRY %e (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups=mesh['a0'=2,'a1'=2] {GROUP}, to_apply=%sum
}
"""


@pytest.mark.parametrize(
    ("group", "pairs"),
    [
        ("'a1'", [[0, 1], [2, 3]]),
        ("'a0'", [[0, 2], [1, 3]]),
        ("'a0','a1'", [[0, 1, 2, 3]]),
        ("'a1','a0'", [[0, 2, 1, 3]]),
    ],
)
def test_groups_that_are_written_as_axes_of_a_mesh(group, pairs):
    expected = np.zeros((4, 4), np.int64)
    for ring in pairs:
        expected[ring, np.roll(ring, -1)] = 2 * (len(ring) - 1) * (32 // len(ring))
    assert bytes_between(MESH.replace("GROUP", group)).tolist() == expected.tolist()


def test_axes_that_are_not_understood_are_refused():
    for group in ("'a0':(1)2", "'other'"):
        with pytest.raises(ValueError, match="Cannot tell the devices"):
            bytes_between(MESH.replace("GROUP", group))


def test_programs_that_the_compiler_divides():
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    x = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=rows)
    gathered = jax.jit(lambda x: x * 2, out_shardings=whole).lower(x).compile().as_text()
    assert bytes_between(gathered).tolist() == (3 * 32 * NEXT).tolist()


def test_a_gather_within_an_asynchronous_fusion_counts_once():
    text = """HloModule m, num_partitions=2

%inside (p: f32[4]) -> f32[8] {
  %p = f32[4]{0} parameter(0)
  ROOT %g = f32[8]{0} all-gather(%p), replica_groups={{0,1}}, dimensions={0}
}

ENTRY %e (p: f32[4]) -> f32[8] {
  %p = f32[4]{0} parameter(0)
  %s = ((f32[4]{0}), f32[8]{0}, u32[]) fusion-start(%p), kind=kCustom, calls=%inside
  %u = ((f32[4]{0}), f32[8]{0}, u32[]) fusion-update(%s), kind=kCustom, calls=%inside
  ROOT %d = f32[8]{0} fusion-done(%u), kind=kCustom, calls=%inside
}
"""
    assert bytes_between(text).tolist() == [[0, 16], [16, 0]]
