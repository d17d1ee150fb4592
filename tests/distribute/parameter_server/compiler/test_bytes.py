"""Programs as bytes: what is damaged, too new or for another device is refused by name."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.distribute.parameter_server import compiler
from drumline.distribute.parameter_server.compiler import exporting
from drumline.distribute.parameter_server.compiler.exporting import pack_checked, unpack_checked

X = np.ones(3, "float32")


@pytest.fixture(scope="module")
def traced(trace: Any) -> Any:
    return trace(lambda x: {"twice": x * 2}, X)


@pytest.fixture(scope="module")
def data(traced: Any) -> bytes:
    return traced.program.to_bytes()


def test_nothing_is_lost(traced: Any, data: bytes) -> None:
    assert compiler.StepProgram.from_bytes(data) == traced.program
    assert compiler.StepProgram.from_bytes(bytearray(data)) == traced.program


@given(where=st.integers(0, 1 << 30), bit=st.integers(0, 7))
def test_a_changed_bit_is_noticed(where: int, bit: int, data: bytes) -> None:
    damaged = bytearray(data)
    damaged[where % len(data)] ^= 1 << bit
    with pytest.raises(compiler.CorruptProgramError):
        compiler.StepProgram.from_bytes(bytes(damaged))


@given(length=st.integers(0, 1 << 30))
def test_cut_off_bytes_are_noticed(length: int, data: bytes) -> None:
    with pytest.raises(compiler.CorruptProgramError):
        compiler.StepProgram.from_bytes(data[: length % len(data)])


@given(st.binary(max_size=200))
def test_other_bytes_are_no_program(junk: bytes) -> None:
    for read in (compiler.StepProgram.from_bytes, compiler.load_program):
        with pytest.raises(compiler.CorruptProgramError):
            read(junk)
    # With a checksum of their own they are still no step.
    with pytest.raises(compiler.CorruptProgramError):
        compiler.StepProgram.from_bytes(pack_checked(junk))


def test_the_program_of_a_step_is_no_step(traced: Any) -> None:
    with pytest.raises(compiler.CorruptProgramError, match="not that of a step"):
        compiler.StepProgram.from_bytes(traced.program.main)


def test_a_container_gives_back_what_it_was_given() -> None:
    assert unpack_checked(pack_checked(b"\0\1")) == b"\0\1"


def test_another_platform_is_refused() -> None:
    spec = jax.ShapeDtypeStruct((3,), jnp.float32)
    program = exporting.export_function(lambda x: [x], [spec], ["tpu"])
    with pytest.raises(compiler.ProgramError, match=r"made for tpu, .* runs on cpu"):
        compiler.load_program(program)


def test_one_program_for_every_platform() -> None:
    spec = jax.ShapeDtypeStruct((3,), jnp.float32)
    program = exporting.export_function(lambda x: [x * 2], [spec])
    exported = jax.export.deserialize(bytearray(unpack_checked(program)))
    assert exported.platforms == ("cpu", "tpu", "cuda")
    np.testing.assert_array_equal(compiler.load_program(program)(X)[0], X * 2)


def test_another_calling_convention_is_refused(
    traced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("minimum", 1000), ("maximum", 1001)):
        monkeypatch.setattr(jax.export, f"{name}_supported_calling_convention_version", value)
    with pytest.raises(compiler.ProgramError, match="calling convention .* 1000 to 1001"):
        compiler.load_program(traced.program.main)


def test_bytes_that_jax_cannot_read() -> None:
    with pytest.raises(compiler.ProgramError, match=r"cannot read a program .* same version"):
        compiler.load_program(pack_checked(b"no flatbuffer at all"))
