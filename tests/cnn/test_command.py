"""How the command ends: with one line where that says enough."""

from __future__ import annotations

import jax
import pytest

from drumline.cnn import command, program


def test_too_little_memory_is_one_line_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = jax.errors.JaxRuntimeError("INTERNAL: Out of memory allocating 618348000000000 bytes.")

    def run(self: program.BenchmarkRun) -> None:
        raise error

    monkeypatch.setattr(program.BenchmarkRun, "run", run)
    monkeypatch.setattr(command, "_reuse_large_buffers", lambda: None)
    assert command.main(["--model=trivial"]) == 1
    assert capsys.readouterr().err == f"drumline cnn: {error} Give a smaller --batch_size.\n"


def test_flags_without_effect_are_named_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program.BenchmarkRun, "run", lambda self: print("runs"))
    monkeypatch.setattr(command, "_reuse_large_buffers", lambda: None)
    assert command.main(["--model=trivial", "--xla_compile", "--momentum=0.5"]) == 0
    written = capsys.readouterr()
    assert written.out == "runs\n"
    assert [line.split()[0] for line in written.err.splitlines()] == ["--xla_compile", "--momentum"]


@pytest.mark.parametrize(("device", "platforms"), [("cpu", "cpu"), ("CPU", "cpu"), ("gpu", "")])
def test_with_the_cpu_as_device_jax_has_no_other(
    monkeypatch: pytest.MonkeyPatch, device: str, platforms: str
) -> None:
    before = jax.config.jax_platforms
    jax.config.update("jax_platforms", "")
    try:
        monkeypatch.setattr(program.BenchmarkRun, "run", lambda self: None)
        monkeypatch.setattr(command, "_reuse_large_buffers", lambda: None)
        assert command.main(["--model=trivial", f"--device={device}"]) == 0
        assert jax.config.jax_platforms == platforms
    finally:
        jax.config.update("jax_platforms", before)
