"""Records of failures: written whole, once, and blamed in the right order."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from drumline import failure_record
from drumline.failure_record import FailureRecord

ROOT = Path(__file__).parents[1]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRUMLINE_FAILURE_DIR", str(tmp_path / "failures"))
    return tmp_path / "failures"


def test_a_record_is_read_as_written(directory: Path) -> None:
    path = failure_record.write(
        "worker", 1, "peer lost", "lost\n worker:0", traceback="at line 1", step=7, peer="worker:0"
    )
    assert path == directory / "worker-1.json"
    (record,) = failure_record.read_all(directory)
    assert record == FailureRecord(
        "worker", 1, "peer lost", "lost worker:0", "at line 1", 7, record.time, "worker:0"
    )
    assert record.task == "worker:1"
    assert [each.name for each in directory.iterdir()] == ["worker-1.json"]


def test_only_its_user_can_read_it(directory: Path) -> None:
    path = failure_record.write("worker", 0, "exception", "ValueError: a secret")
    assert path is not None and path.stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700


def test_only_a_process_s_first_record_counts(directory: Path) -> None:
    assert failure_record.write("worker", 0, "exception", "the cause") is not None
    assert failure_record.write("worker", 0, "peer lost", "a consequence") is None
    assert [record.message for record in failure_record.read_all(directory)] == ["the cause"]


def test_a_record_of_an_earlier_run_is_replaced(directory: Path) -> None:
    directory.mkdir()
    (directory / "worker-0.json").write_text("left over")
    failure_record.write("worker", 0, "stuck", "new")
    assert [record.kind for record in failure_record.read_all(directory)] == ["stuck"]


def test_without_a_directory_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRUMLINE_FAILURE_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert failure_record.write("worker", 0, "exception", "boom") is None
    assert list(tmp_path.iterdir()) == []
    assert failure_record.read_all(tmp_path / "absent") == []


def test_an_unknown_kind_is_refused(directory: Path) -> None:
    with pytest.raises(ValueError, match="kind is one of"):
        failure_record.write("worker", 0, "tired", "...")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "[]", '{"task_type": "worker"}', '{"kind": 1}', "null"])
def test_a_file_that_is_no_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "worker-3.json").write_text(text)
    with pytest.raises(ValueError, match="worker-3.json is not a failure record"):
        failure_record.read_all(tmp_path)


def test_blame_goes_by_kind_and_then_by_time(tmp_path: Path) -> None:
    kinds = ["peer lost", "stuck", "exception", "exception", "stuck", "peer lost"]
    for moment, kind in enumerate(kinds):
        record = {"task_type": "worker", "task_index": moment, "kind": kind, "message": ""}
        record |= {"traceback": "", "step": None, "time": float(moment), "peer": None}
        (tmp_path / f"worker-{9 - moment}.json").write_text(json.dumps(record))
    records = failure_record.read_all(tmp_path)
    assert [record.task_index for record in records] == [0, 1, 2, 3, 4, 5]
    blamed = []
    while first := failure_record.primary(records):
        blamed.append(first.task_index)
        records.remove(first)
    assert blamed == [2, 3, 1, 4, 0, 5]


def test_the_module_needs_the_standard_library_only() -> None:
    waiting, seen = ["drumline.failure_record"], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name.split(".")[0] == "drumline":
            file = Path(*name.split(".")).with_suffix(".py")
            waiting += _imported(ast.parse((ROOT / file).read_text()))
    own = {name for name in seen if name.startswith("drumline.")}
    assert len(own) < len(seen)
    assert {name.split(".")[0] for name in seen - own} <= sys.stdlib_module_names


def _imported(tree: ast.AST) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return names
