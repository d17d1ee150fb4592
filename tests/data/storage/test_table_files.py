"""Parquet files and Arrow's: rows, columns, nulls, positions, damage."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumline.data import Dataset, Options, TensorSpec
from drumline.data._dataset.sharing import file_share

TABLE = pa.table(
    {
        "id": pa.array(range(23)),
        "price": pa.array([i / 2 for i in range(23)], pa.float32()),
        "name": [f"n{i}" for i in range(23)],
        "tokens": [list(range(i % 4)) for i in range(23)],
        "place": pa.array([[i, -i] for i in range(23)], pa.list_(pa.int32(), 2)),
        "kind": pa.array(["a", "b"] * 11 + ["a"]).dictionary_encode(),
        "inside": [{"x": i, "y": bool(i % 2)} for i in range(23)],
    }
)


def plain(element: Any) -> Any:
    if isinstance(element, dict):
        return {key: plain(value) for key, value in element.items()}
    return element.tolist() if hasattr(element, "tolist") else element


def encoded(row: Any) -> Any:
    if isinstance(row, dict):
        return {key: encoded(value) for key, value in row.items()}
    return row.encode() if isinstance(row, str) else row


ROWS = [encoded(row) for row in TABLE.to_pylist()]


def write(path: Any, table: pa.Table, kind: str, rows: int = 7) -> str:
    """A file of groups of so many rows."""
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=rows)
        return str(path)
    new = ipc.new_stream if kind == "stream" else ipc.new_file
    with new(str(path), table.schema) as writer:
        writer.write_table(table, rows)
    return str(path)


def read(kind: str, *arguments: Any, **named: Any) -> Dataset:
    reader = Dataset.from_parquet if kind == "parquet" else Dataset.from_arrow_ipc
    return reader(*arguments, **named)


def outcomes(dataset: Dataset) -> list[Any]:
    iterator, found = iter(dataset), []
    while len(found) < 100:
        try:
            found.append(plain(next(iterator)))
        except StopIteration:
            break
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


KINDS = ["parquet", "file", "stream"]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, list[str]]:
    """Of each kind: two halves of the table around a file without rows."""
    folder = tmp_path_factory.mktemp("tables")
    parts = [TABLE.slice(0, 16), TABLE.slice(0, 0), TABLE.slice(16)]
    return {
        kind: [write(folder / f"{i}.{kind}", part, kind, 5) for i, part in enumerate(parts)]
        for kind in KINDS
    }


@pytest.mark.parametrize("kind", KINDS)
def test_rows(files, kind):
    dataset = read(kind, files[kind])
    assert [plain(row) for row in dataset] == ROWS
    assert dataset.element_spec["tokens"] == TensorSpec((None,), np.int64)
    assert dataset.element_spec["place"] == TensorSpec((2,), np.int32)
    assert dataset.element_spec["inside"]["y"] == TensorSpec((), np.bool_)
    chosen = read(kind, files[kind], columns=["price", "id"])
    assert [list(row) for row in chosen.take(1)] == [["price", "id"]]
    batches = list(chosen.batch(10))
    assert np.concatenate([b["price"] for b in batches]).tolist() == [i / 2 for i in range(23)]
    assert [
        plain(row) for row in read(kind, Dataset.list_files(files[kind], shuffle=False))
    ] == ROWS
    padded = next(iter(dataset.padded_batch(23)))
    assert padded["tokens"].tolist() == [(r["tokens"] + [0, 0, 0])[:3] for r in ROWS]


@settings(max_examples=15)
@given(kind=st.sampled_from(KINDS), at=st.integers(0, 23), parallel=st.sampled_from([None, 2]))
def test_an_iterator_goes_on_where_it_was(files, kind, at, parallel):
    dataset = read(kind, files[kind], num_parallel_reads=parallel)
    iterator = iter(dataset)
    found = [plain(next(iterator)) for _ in range(at)]
    other = iter(read(kind, files[kind], num_parallel_reads=parallel))
    other.restore(json.loads(json.dumps(iterator.state())))
    found += [plain(row) for row in other]
    assert sorted(row["id"] for row in found) == list(range(23))
    assert found == [plain(row) for row in dataset]
    if parallel is None:
        assert found == ROWS


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_read_piece_by_piece(tmp_path, kind):
    few = Options()
    few.autotune.ram_budget = 8 << 10
    path = write(tmp_path / "large", pa.table({"x": np.arange(2000)}), kind, 1000)
    iterator = iter(read(kind, path).with_options(few))
    found = []
    for steps in (1, 130, 700, 169, 1, 500):
        found += [int(next(iterator)["x"]) for _ in range(steps)]
        state = iterator.state()
        iterator = iter(read(kind, path).with_options(few))
        iterator.restore(state)
    assert found + [int(row["x"]) for row in iterator] == list(range(2000))


def test_shares_of_processes_are_files(files):
    shares = [
        [int(row["id"]) for row in file_share(read("parquet", files["parquet"]), 2, i)]
        for i in range(2)
    ]
    assert shares == [list(range(23)), []]


NULLS = pa.table({"x": [1, None, 3, 4, 5], "t": [[1], [2], None, [3, None], []]})


@pytest.mark.parametrize("kind", KINDS)
def test_a_null_is_an_error_in_its_place_unless_filled(tmp_path, kind):
    path = write(tmp_path / "nulls", NULLS, kind, 2)
    first, *found = outcomes(read(kind, path))
    assert (first, found[3]) == ({"x": 1, "t": [1]}, {"x": 5, "t": []})
    for at, name in ((1, "x"), (2, "t"), (3, "t")):
        kind_, text = found[at - 1]
        assert kind_ == "ValueError" and f"{path}: row {at} has a null in column '{name}'" in text
    kept = read(kind, path, default_values={"x": -1, "t": [9]}).ignore_errors()
    assert outcomes(kept) == [
        {"x": 1, "t": [1]},
        {"x": -1, "t": [2]},
        {"x": 3, "t": [9]},
        {"x": 5, "t": []},
    ]
    iterator = iter(read(kind, path))
    next(iterator)
    with pytest.raises(ValueError, match="row 1"):
        next(iterator)
    other = iter(read(kind, path))
    other.restore(iterator.state())
    with pytest.raises(ValueError, match="row 2"):
        next(other)
    with pytest.raises(ValueError, match=r"default_values\['x'\] is 'one'"):
        read(kind, path, default_values={"x": "one"})


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_read_is_an_error_in_its_place(tmp_path, files, kind):
    good = files[kind][2]
    whole = pathlib.Path(files[kind][0]).read_bytes()
    rest = ROWS[16:]
    cases = {"empty": b"", "cut": whole[:-9], "garbage": b"x" * 400}
    for name, content in cases.items():
        bad = tmp_path / name
        bad.write_bytes(content)
        found = outcomes(read(kind, [good, bad, good]))
        *before, (error, text) = found[len(rest) : len(found) - len(rest)]
        assert found[: len(rest)] == rest == found[-len(rest) :]
        assert error == "DataLossError" and text.startswith(f"{bad}: record {len(before)}, at byte")
        assert before == ROWS[: len(before)]
    other = write(tmp_path / "other", pa.table({"id": ["a"], "price": [1.0]}), kind)
    (_, text), *_ = outcomes(read(kind, [good, other], columns=["id"]).skip(7))
    assert "'id' has type string; in the first file it has int64" in text
    (_, text), *_ = outcomes(read(kind, [good, other], columns=["name"]).skip(7))
    assert "no column 'name': there are id, price" in text
    (error, text), *after = outcomes(read(kind, [good, tmp_path / "none", good]).skip(7))
    assert (error, after) == ("FileNotFoundError", rest) and str(tmp_path / "none") in text


def test_what_is_refused_at_once(tmp_path, files):
    for kind in KINDS:
        with pytest.raises(FileNotFoundError, match="none"):
            read(kind, tmp_path / "none")
        with pytest.raises(ValueError, match=r"no column 'cost'; the first file has 'id', 'price'"):
            read(kind, files[kind], columns=["id", "cost"])
        with pytest.raises(ValueError, match="comes twice"):
            read(kind, files[kind], columns=["id", "id"])
        with pytest.raises(ValueError, match="there are no files"):
            read(kind, [])
        (tmp_path / "empty").write_bytes(b"")
        with pytest.raises(ValueError, match=str(tmp_path / "empty")):
            read(kind, tmp_path / "empty")
    dated = write(tmp_path / "dated", pa.table({"t": pa.array([0], pa.timestamp("s"))}), "parquet")
    with pytest.raises(TypeError, match="from_parquet: column 't' has type timestamp"):
        Dataset.from_parquet(dated)


@pytest.mark.parametrize("kind", KINDS)
def test_remote_files(tmp_path, files, kind):
    remote = f"memory://tables/{kind}"
    with open(files[kind][0], "rb") as file, fsspec.open(remote, "wb") as out:
        out.write(file.read())
    assert outcomes(read(kind, remote)) == ROWS[:16]
    assert outcomes(read(kind, f"file://{files[kind][0]}")) == ROWS[:16]
