"""64-bit columns stay 64-bit, 32-bit computations stay 32-bit, whatever JAX is set to."""

import os
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest

from drumline.data import Dataset

BIG = 2**41 + 7


def one(value, function):
    (result,) = Dataset.from_tensor_slices(np.asarray(value)[None]).map(function)
    return result


CASES = [
    ("id arithmetic", np.int64(BIG), lambda v: v * 2 + 1, np.int64(2 * BIG + 1)),
    ("large constant", np.int64(1), lambda v: v + 2**41, np.int64(2**41 + 1)),
    ("modulo", np.int64(199_990), lambda v: v * v % 1009, np.int64(199_990**2 % 1009)),
    ("float64", np.float64(1e-300), lambda v: v * 3, np.float64(1e-300) * 3),
    ("uint64", np.uint64(2**63 + 1), lambda v: v + 1, np.uint64(2**63 + 2)),
    ("id to float", np.int64(BIG), lambda v: v / 2, np.float32(BIG / 2)),
    ("id cast", np.int64(BIG), lambda v: v.astype("float64"), np.float64(BIG)),
    ("uint8 / 255.0", np.uint8(51), lambda v: v / 255.0, np.float32(51) / np.float32(255)),
    ("uint8 / np.float64", np.uint8(51), lambda v: v / np.float64(255), np.float32(0.2)),
    ("float32 - float64 array", np.float32(2), lambda v: v - np.array(0.5), np.float32(1.5)),
    ("explicit int64", np.int32(5), lambda v: v.astype("int64"), np.int64(5)),
    ("explicit float64", np.uint8(5), lambda v: v.astype(np.float64), np.float64(5)),
    ("explicit int8", np.int64(5), lambda v: v.astype("int8"), np.int8(5)),
    ("bfloat16", ml_dtypes.bfloat16(2), lambda v: v * 2, ml_dtypes.bfloat16(4)),
    ("float16", np.float16(2), lambda v: v * 2.5, np.float16(5)),
    ("bool", np.bool_(True), lambda v: ~v, np.bool_(False)),
    ("python number", np.int64(0), lambda v: 3, np.int32(3)),
    ("python float", np.int64(0), lambda v: 3.5, np.float32(3.5)),
    ("constant array", np.int64(0), lambda v: np.arange(2.0), np.arange(2.0)),
]


@pytest.mark.parametrize(
    ("value", "function", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_map(value, function, expected):
    result = one(value, function)
    assert result.dtype == expected.dtype
    # XLA divides by a constant by multiplying with its inverse: the last bit may differ.
    np.testing.assert_allclose(result, expected, rtol=2e-7 if result.dtype == np.float32 else 0)


def test_an_id_beside_an_image_changes_nothing_about_the_image():
    ids, images = np.array([BIG, BIG + 1]), np.full((2, 3), 51, np.uint8)
    ds = Dataset.from_tensor_slices((images, ids)).map(lambda x, i: (x / 255.0, i + 1))
    assert [s.dtype for s in ds.element_spec] == [np.float32, np.int64]
    assert [int(i) for _, i in ds] == [BIG + 1, BIG + 2]


def test_range_beyond_32_bits():
    ds = Dataset.range(3_000_000_000, 3_000_000_003)
    assert next(iter(ds.map(lambda v: v).batch(3))).tolist() == [
        3_000_000_000 + i for i in range(3)
    ]
    assert list(ds.filter(lambda v: v % 2 == 1)) == [3_000_000_001]
    assert next(iter(Dataset.range(3, output_type=np.int32))).dtype == np.int32


def test_python_literals_get_tensorflow_dtypes():
    spec = Dataset.from_tensor_slices(([1, 2], [2**40, 1], [1.5, 2], [True, False])).element_spec
    assert [s.dtype for s in spec] == [np.int32, np.int64, np.float32, np.bool_]


def test_foreign_byte_order():
    ds = Dataset.from_tensor_slices(np.arange(3, dtype=">i4")).map(lambda v: v + 1)
    assert [int(v) for v in ds] == [1, 2, 3]
    assert "native arithmetic" in ds.explain()


def test_every_operation_keeps_64_bits():
    rows = (np.arange(20) + BIG, np.linspace(0, 1, 20))
    ds = Dataset.from_tensor_slices(rows)
    chain = ds.shuffle(5, seed=1).filter(lambda i, f: i > 0).batch(4).unbatch().cache().repeat(2)
    chain = Dataset.zip(chain.take(20), ds).map(lambda a, b: a).concatenate(ds).prefetch(2).batch(7)
    ids = np.concatenate([i for i, _ in chain])
    floats = np.concatenate([f for _, f in chain])
    assert ids.dtype == np.int64
    assert floats.dtype == np.float64
    assert sorted(ids[:20]) == rows[0].tolist()
    assert sorted(floats[:20]) == rows[1].tolist()


@pytest.mark.parametrize("x64", ["0", "1"])
def test_jax_settings_do_not_show(x64):
    script = """
        import numpy as np, jax
        from drumline.data import Dataset
        jax.config.update("jax_numpy_dtype_promotion", "strict")
        images, ids = np.full((3, 2), 51, np.uint8), np.arange(3) + 2**41
        ds = Dataset.from_tensor_slices((images, ids)).map(lambda x, i: (x / 255.0, i * 2))
        for x, i in ds.batch(2):
            print(x.dtype, i.dtype, x.tobytes().hex(), i.tolist())
    """
    env = {**os.environ, "JAX_ENABLE_X64": x64}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    fifth = done.stdout.split()[2][:8]
    assert abs(np.frombuffer(bytes.fromhex(fifth), np.float32)[0] - 0.2) < 1e-7
    assert done.stdout.splitlines() == [
        f"float32 int64 {fifth * 4} [{2**42}, {2**42 + 2}]",
        f"float32 int64 {fifth * 2} [{2**42 + 4}]",
    ]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_sums_that_become_bytes_are_truncated(dtype):
    images = (np.arange(256 * 6 * 7 * 3) % 127).reshape(256, 6, 7, 3).astype(np.float32)
    ds = Dataset.from_tensor_slices(images)
    found = np.array(list(ds.map(lambda image: (image.sum(-1) * np.float32(0.3)).astype(dtype))))
    wanted = (images.sum(-1) * np.float32(0.3)).astype(dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, wanted)


def test_a_range_past_the_largest_int64():
    ds = Dataset.range(2**63, 2**63 + 30, 10, output_type=np.uint64)
    expected = [2**63, 2**63 + 10, 2**63 + 20]
    assert [int(v) for v in ds] == expected
    assert sorted(int(v) for v in ds.shuffle(3, seed=1)) == expected
    down = Dataset.range(2**63 + 2, 2**63 - 2, -2, output_type=np.uint64)
    assert [int(v) for v in down] == [2**63 + 2, 2**63]
