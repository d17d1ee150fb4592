"""Native operations in functions given to ``map`` and ``filter``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from drumline.data.functions.segments import CompiledPart, cut
from drumline.data.functions.trace import UserFunction, trace
from tests.data.functions.native.native_operations import (
    ToNumber,
    codes,
    from_codes,
    picture,
    thumbnail,
    to_number,
    to_picture,
    to_text,
)

BIG = 2**40


def texts(numbers):
    return Dataset.from_tensor_slices([str(n).encode() for n in numbers])


def how(ds):
    """The lines of ``explain`` that say how maps run, the last one first."""
    return [line.strip() for line in ds.explain().splitlines() if "map " in line and ": " in line]


def test_numbers_come_out_of_strings_and_go_into_others():
    ds = texts(range(BIG, BIG + 600)).map(lambda s: (to_text(to_number(s) * 2 + 1), s))
    assert list(ds) == [(str(2 * n + 1).encode(), str(n).encode()) for n in range(BIG, BIG + 600)]
    (line,) = how(ds)
    assert line.split(": ", 1)[1] == (
        "native test.to_number | compiled for blocks of 256 (64-bit) | native test.to_text"
    )


def test_eager_and_traced_agree():
    f = lambda s: (to_number(s, "int32") / 4, codes(s), thumbnail(to_picture(to_number(s)), 3))  # noqa: E731
    for element, text in zip(texts(range(95, 105)).map(f), range(95, 105), strict=True):
        for traced, eager in zip(element, f(str(text).encode()), strict=True):
            np.testing.assert_array_equal(traced, eager)


def test_types_are_those_of_columns_with_such_numbers():
    """A native result counts as an element's leaf of its type does."""
    dtypes = ["int32", "int64", "uint64", "float32", "float64", "uint8"]
    columns = tuple(np.arange(1, 9).astype(dtype) for dtype in dtypes)

    def computed(*values):
        return [
            x
            for v in values
            for x in (v + 1, v / 255.0, v.astype("int64") * 3, jnp.float32(1.5) * jnp.ones(2))
        ]

    native = texts(range(1, 9)).map(lambda s: computed(*(to_number(s, d) for d in dtypes)))
    column = Dataset.from_tensor_slices(columns).map(computed)
    assert native.element_spec == column.element_spec
    assert [[x.tobytes() for x in e] for e in native] == [[x.tobytes() for x in e] for e in column]


def test_64_bits_survive_beside_narrow_computation():
    def f(s, n):
        big = to_number(s)
        return big, big + n, (n / 255.0, to_text(n / 2.0), to_text(big // 2))

    ds = Dataset.from_tensor_slices(
        ([str(BIG + i) for i in range(5)], np.arange(5, dtype=np.uint8))
    )
    for i, (big, more, (small, half, other)) in enumerate(ds.map(f)):
        assert (big, more) == (BIG + i, BIG + 2 * i)
        assert (small.dtype, half) == (np.float32, str(np.float32(i / 2)).encode())
        assert other == str((BIG + i) // 2).encode()


def test_a_constant_that_needs_64_bits_beside_a_native_result():
    ds = texts(range(3)).map(lambda s: to_number(s) + BIG)
    assert list(ds) == [BIG, BIG + 1, BIG + 2]
    assert "native" in how(ds)[0]


def test_what_is_computed_is_computed_once():
    """A value that a native operation and the result both take is the same to the bit."""

    def f(s):
        x = jnp.sin(to_number(s, "float32")) * 1.7
        text = to_text(x)
        return text, jnp.exp(x), x

    for text, _, x in texts(range(40)).map(f):
        assert text == str(x).encode()
    ds = texts(range(40))
    parts = cut(trace(UserFunction(f, "map"), ds._plan.spec)).parts
    programs = [part.trace.narrow for part in parts if isinstance(part, CompiledPart)]
    operations = [eqn.primitive.name for program in programs for eqn in program.jaxpr.eqns]
    assert (operations.count("sin"), operations.count("exp")) == (1, 1)


def test_what_later_programs_take_keeps_64_bits_asked_for_by_name():
    def f(n):
        large = n.astype("int64") * 1_000_000 * 1_000_000
        return to_text(large), large + to_number(to_text(n), "int32")

    ds = Dataset.from_tensor_slices(np.arange(5, dtype=np.int32)).map(f)
    assert list(ds) == [(b"%d" % (n * 10**12), n * 10**12 + n) for n in range(5)]


def test_draws_are_given_to_native_operations():
    def f(s):
        shift = dl.random.uniform((), 0, 100, np.int32)
        noise = dl.random.uniform()
        return thumbnail(to_picture(to_number(s)), shift), shift, noise

    ds = texts(range(30)).map(f)
    assert "| native test.to_number, test.picture, test.thumbnail |" in how(ds)[0]
    elements = list(ds)
    for n, (small, shift, _) in enumerate(elements):
        assert (small == n % 256 + shift).all()
    assert len({float(noise) for *_, noise in elements}) == 30
    again = list(ds)
    assert [e[1] for e in again] != [e[1] for e in elements]


def test_filter_by_what_a_native_operation_finds():
    ds = texts(range(50)).filter(lambda s: to_number(s) % 7 == 3)
    assert list(ds) == [str(n).encode() for n in range(3, 50, 7)]
    assert "runs as Python" not in ds.explain()


@pytest.mark.parametrize("drop", [False, True])
def test_batches_of_strings_of_any_size_without_python(drop):
    ds = texts(range(50)).batch(16, drop_remainder=drop).map(lambda s: (to_number(s), s))
    assert "native test.to_number" in how(ds)[0]
    rows = np.concatenate([numbers for numbers, _ in ds])
    np.testing.assert_array_equal(rows, np.arange(48 if drop else 50))


def test_batches_are_computed_with_shape_by_shape():
    ds = texts(range(50)).batch(16).map(lambda s: jnp.cumsum(to_number(s)))
    assert [x.shape for x in ds] == [(16,), (16,), (16,), (2,)]
    assert list(ds)[-1].tolist() == [48, 97]
    assert "compiled for each shape" in how(ds)[0]


def test_shapes_vary_between_maps():
    ds = texts(range(95, 110)).map(codes).map(lambda c: (from_codes(c), c))
    assert [text for text, _ in ds] == [str(n).encode() for n in range(95, 110)]
    padded = [c for _, c in ds.padded_batch(8)]
    assert padded[0].shape == (8, 3)
    assert padded[0][0].tolist() == [*b"95", 0]
    assert "runs as Python" not in ds.explain()


def test_pictures_of_varying_shape_are_made_once_each():
    ToNumber.rows_seen.clear()
    ds = texts(range(100)).map(lambda s: to_picture(to_number(s)))
    found = list(ds)
    assert sum(ToNumber.rows_seen) == 100
    for n, image in enumerate(found):
        np.testing.assert_array_equal(image, picture(n))
    ToNumber.rows_seen.clear()
    list(ds.map(lambda p: thumbnail(p, 1)))
    assert max(ToNumber.rows_seen) >= 16


@pytest.mark.parametrize(
    "between",
    [
        lambda ds: ds.shuffle(7, seed=1),
        lambda ds: ds.cache(),
        lambda ds: ds.prefetch(3),
        lambda ds: ds.repeat(2).take(40),
        lambda ds: ds.enumerate().map(lambda i, e: e),
        lambda ds: ds.concatenate(ds).skip(3),
        lambda ds: Dataset.zip((ds, ds)).map(lambda a, b: b),
        lambda ds: ds.filter(lambda p: thumbnail(p, 0)[0, 0, 0] != 5),
        lambda ds: ds.shuffle(dl.data.GLOBAL, seed=3),
    ],
)
def test_pictures_go_through_other_operations(between):
    ds = between(texts(range(30)).map(lambda s: to_picture(to_number(s))))
    images = list(ds)
    for image in images:
        np.testing.assert_array_equal(image, picture(int(image.flat[0])))
    small = [int(x[0, 0, 0]) for x in ds.map(lambda p: thumbnail(p, 1))]
    assert sorted(small) == sorted(int(image.flat[0]) + 1 for image in images)


@pytest.mark.parametrize("workers", [None, 3])
def test_errors_stand_in_the_place_of_their_element(workers):
    items = [str(n) for n in range(600)]
    items[300] = "three hundred"
    items[10] = "0"
    items[290] = "0"
    items[310] = "0"
    ds = Dataset.from_tensor_slices(items).map(
        lambda s: (100 // to_number(s), s), num_parallel_calls=workers
    )
    iterator, found, errors = iter(ds), [], {}
    for position in range(600):
        try:
            found.append(int(next(iterator)[1]))
        except (ValueError, ZeroDivisionError) as error:
            errors[position] = (type(error), error.element_index)
    assert errors == {
        0: (ZeroDivisionError, 0),
        10: (ZeroDivisionError, 10),
        290: (ZeroDivisionError, 290),
        300: (ValueError, 300),
        310: (ZeroDivisionError, 310),
    }
    assert found == [n for n in range(600) if n not in errors]


def test_a_jitted_helper_is_part_of_the_function():
    @jax.jit
    def helper(n):
        return to_number(to_text(n * 3)) + 1

    ds = Dataset.range(20).map(lambda n: helper(n) + helper(n + 1))
    assert list(ds) == [6 * n + 5 for n in range(20)]
    assert "native test.to_text, test.to_number" in how(ds)[0]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda s: jnp.sum(codes(s)), "shape varies"),
        (lambda s: codes(s) + 1, "shape varies"),
        (lambda s: s + b"!", "computes with a string"),
        (lambda s: to_number(s.upper()), "computes with a string"),
    ],
)
def test_what_no_program_can_do_runs_as_python_with_the_reason(function, reason):
    ds = texts(range(95, 105)).map(function)
    assert reason in how(ds)[0]
    wanted = [function(str(n).encode()) for n in range(95, 105)]
    for found, expected in zip(ds.skip(5), wanted[5:], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_operations_inside_of_loops_and_branches_are_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"dl\.test\.to_text.*not inside of jax\.jit"):
        Dataset.range(3).map(
            lambda n: jax.lax.cond(n > 1, lambda n: to_number(to_text(n)), lambda n: n, n)
        )
    with pytest.raises(
        NotImplementedError, match=r"dl\.test\.to_text cannot run inside of jax\.vm"
    ):
        Dataset.range(3).map(lambda n: jax.vmap(lambda k: to_number(to_text(k)))(jnp.arange(3) + n))


def test_operations_that_change_between_traces_make_a_function_impure():
    kinds = iter(["int32", "int64"] * 20)
    ds = texts(range(3)).map(lambda s: to_number(s, next(kinds)))
    assert "runs as Python" in how(ds)[0]


def test_scan_takes_native_operations_as_python():
    ds = texts(range(5)).scan(np.int64(0), lambda total, s: (total + to_number(s),) * 2)
    assert list(ds) == [0, 1, 3, 6, 10]


def test_functions_that_return_datasets_call_them_on_values():
    ds = texts([3, 0, 2]).flat_map(lambda s: Dataset.range(to_number(s)))
    assert list(ds) == [0, 1, 2, 0, 1]


def test_constants_are_arguments_for_every_row():
    ds = Dataset.range(20).map(lambda n: (thumbnail(picture(5), n), to_number(b"12") + n))
    for n, (small, more) in enumerate(ds):
        assert ((small == 5 + n).all(), more) == (True, 12 + n)
