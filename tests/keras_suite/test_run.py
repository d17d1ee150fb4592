"""The list of exceptions is checked both ways, and what fails in plain Keras does not count."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.keras_suite import run

SUITE = run.Suite(("layers", "models"), 1, Path())


def _outcomes(monkeypatch: pytest.MonkeyPatch, **ways: dict[str, str]) -> None:
    def results(self: Any, way: str, names: Any = ()) -> dict[str, dict[str, str]]:
        return {
            name: {"outcome": outcome, "message": f"why {name}"}
            for name, outcome in ways[way].items()
            if not names or name in names
        }

    monkeypatch.setattr(run.Suite, "run", results)


def test_only_what_passes_in_plain_keras_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"layers/a::x": "failed", "layers/a::y": "failed", "layers/a::z": "passed"}
    _outcomes(
        monkeypatch, replicated=found, plain={"layers/a::x": "failed", "layers/a::y": "passed"}
    )
    (said,) = SUITE.complaints("replicated", frozenset())
    assert "layers/a::y fails, but passes in plain Keras" in said and "why layers/a::y" in said


def test_a_listed_test_must_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    _outcomes(monkeypatch, imported={"layers/a::x": "failed", "layers/a::y": "passed"}, plain={})
    assert SUITE.complaints("imported", frozenset({"layers/a::x"})) == []
    (passed,) = SUITE.complaints("imported", frozenset({"layers/a::x", "layers/a::y"}))
    assert "layers/a::y is listed in exceptions.toml, but passed" in passed
    (gone,) = SUITE.complaints("imported", frozenset({"layers/a::x", "models/b::gone"}))
    assert "models/b::gone is listed in exceptions.toml, but there is no such test" in gone


def test_other_parts_and_shares_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    _outcomes(monkeypatch, imported={}, plain={})
    assert SUITE.complaints("imported", frozenset({"callbacks/a::x"})) == []
    name = next(n for n in "abcdefgh" if zlib.crc32(f"keras/src/layers/{n}".encode()) % 2)
    half = run.Suite(("layers",), 2, Path())
    assert half.complaints("imported", frozenset({f"layers/{name}"})) == []


def test_the_list_has_reasons() -> None:
    assert run.exceptions("replicated")
    assert all("::" in name for way in run.WAYS for name in run.exceptions(way))
