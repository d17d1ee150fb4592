"""Parts of a variable's initial value, beside what its initializer gives for the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

from drumline.distribute.parameter_server import compiler
from drumline.distribute.parameter_server.compiler import initializer as module

I = keras.initializers  # noqa: E741
SHAPE = (7, 5)
CUTS = [(0, 2), (2, 7)]

BY_ROWS: dict[str, Callable[..., Any]] = {
    "RandomUniform": I.RandomUniform(seed=1),
    "RandomNormal": I.RandomNormal(seed=1),
    "TruncatedNormal": I.TruncatedNormal(seed=1),
    "Zeros": I.Zeros(),
    "Constant": I.Constant(3.0),
    "an array": I.Constant(np.arange(35.0).reshape(SHAPE)),
    "Identity": I.Identity(),
}


def part(initializer: Any, start: int, stop: int, dtype: str = "float32") -> np.ndarray:
    program = compiler.export_initializer(
        initializer, SHAPE, dtype, start, stop, platforms=("cpu",)
    )
    (rows,) = compiler.load_program(program)()
    return np.asarray(rows)


def whole(initializer: Any, dtype: str = "float32") -> np.ndarray:
    return np.asarray(jax.jit(lambda: jnp.asarray(initializer(SHAPE, dtype=dtype)))())


@pytest.mark.parametrize("name", BY_ROWS)
def test_the_parts_are_those_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 10)  # two rows
    monkeypatch.setattr(module, "WHOLE_BYTES", 0)
    initializer = BY_ROWS[name]
    together = np.concatenate([part(initializer, *cut) for cut in CUTS])
    np.testing.assert_array_equal(together, whole(initializer))


def test_other_dtypes_and_at_once() -> None:
    initializer = I.GlorotUniform(seed=2)
    together = np.concatenate([part(initializer, *cut, "bfloat16") for cut in CUTS])
    np.testing.assert_array_equal(together, whole(initializer, "bfloat16"))


def test_a_huge_table_is_never_held_whole() -> None:
    program = compiler.export_initializer(
        BY_ROWS["RandomUniform"], (50_000_000, 16), "float32", 45_000_000, 46_000_000
    )
    compiled = compiler.load_program(program).lower().compile()  # type: ignore[attr-defined]
    memory = compiled.memory_analysis()
    assert memory.output_size_in_bytes < 65 << 20
    assert memory.temp_size_in_bytes < 65 << 20


def test_rows_around_the_first_four_billion_elements() -> None:
    border = 1 << 28

    def rows(start: int, stop: int) -> np.ndarray:
        program = compiler.export_initializer(
            BY_ROWS["RandomUniform"], (1 << 29, 16), "float32", start, stop, platforms=("cpu",)
        )
        return np.asarray(compiler.load_program(program)()[0])

    across = rows(border - 2, border + 2)
    parts = [rows(border - 2, border), rows(border, border + 2)]
    np.testing.assert_array_equal(across, np.concatenate(parts))
    assert (rows(0, 2) != parts[1]).all()


def test_what_cannot_be_cut_is_computed_whole_if_small(monkeypatch: pytest.MonkeyPatch) -> None:
    initializer = I.Orthogonal(seed=1)
    np.testing.assert_allclose(part(initializer, 2, 4), whole(initializer)[2:4], atol=1e-6)
    monkeypatch.setattr(module, "WHOLE_BYTES", 100)
    with pytest.raises(compiler.ProgramError, match=r"`qr` of Orthogonal"):
        part(initializer, 0, 2)
    assert part(initializer, 0, 7).shape == SHAPE


def test_a_seed_generator_is_left_as_it_was() -> None:
    generator = keras.random.SeedGenerator(3)
    before = np.asarray(generator.state.value)
    part(I.RandomUniform(seed=generator), 0, 2)
    np.testing.assert_array_equal(generator.state.value, before)


@pytest.mark.parametrize("rows", [(-1, 2), (3, 3), (2, 8)], ids=str)
def test_rows_that_there_are_not(rows: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"Rows {rows[0]} to {rows[1]}"):
        part(I.Zeros(), *rows)


def test_scalars() -> None:
    program = compiler.export_initializer(I.Ones(), (), "float32", 0, 1, platforms=("cpu",))
    assert compiler.load_program(program)()[0] == 1
