"""What is decoded at once of a Parquet file: it shows in nothing but time and memory."""

from __future__ import annotations

import gc
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from drumline.data import Dataset, Options
from drumline.data.elements.errors import DataLossError
from drumline.data.operations.reading.tables import TableStage
from drumline.data.runtime.threads import available_cores

GROUPS = [60_000, 3, 1, 9_000, 200, 200, 200, 21_000, 1]
"""Rows of the groups: more than a piece of the smaller budget, and several to a piece."""

ROWS = sum(GROUPS)
TABLE = pa.table(
    {
        "id": np.arange(ROWS),
        "x": np.random.default_rng(0).standard_normal(ROWS),
        "y": np.random.default_rng(1).standard_normal(ROWS).astype(np.float32),
        "even": np.arange(ROWS) % 2 == 0,
        "pair": pa.array(np.arange(2 * ROWS).reshape(ROWS, 2).tolist(), pa.list_(pa.int64(), 2)),
        "name": pa.array([f"n{i}" for i in range(ROWS)]),
    }
)
NUMBERS = ["id", "x", "y", "even", "pair"]


def budgets(**budget: int) -> Options:
    options = Options()
    for name, value in budget.items():
        setattr(options.autotune, name, value)
    return options


SETTINGS = {
    "by default": budgets(),
    "one thread": budgets(cpu_budget=1),
    "small pieces": budgets(ram_budget=1 << 20),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("pieces") / "changing.parquet"
    start = 0
    with parquet.ParquetWriter(path, TABLE.schema) as writer:
        for rows in GROUPS:
            writer.write_table(TABLE.slice(start, rows))
            start += rows
    return str(path)


@pytest.fixture
def calls(monkeypatch) -> list[tuple[list[int], int, bool]]:
    """Of which groups, how many rows at once, and whether of several threads was asked for."""
    found: list[tuple[list[int], int, bool]] = []
    decode = parquet.ParquetFile.iter_batches

    def noted(self: Any, rows: int, groups: list[int], columns: Any, use_threads: bool) -> Any:
        found.append((groups, rows, use_threads))
        return decode(self, rows, groups, columns, use_threads=use_threads)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", noted)
    return found


def joined(batches: Any) -> dict[str, np.ndarray]:
    held = list(batches)
    return {name: np.concatenate([batch[name] for batch in held]) for name in held[0]}


def same(found: dict[str, np.ndarray], start: int = 0) -> bool:
    """Whether these are the table's rows from one on, as pyarrow gives them."""
    for name, column in found.items():
        wanted = TABLE[name].combine_chunks()[start:]
        flat = wanted.flatten() if name == "pair" else wanted
        plain = flat.to_numpy(zero_copy_only=False)
        if name == "name":
            plain = np.array([text.encode() for text in plain], object)
        if not np.array_equal(column.reshape(-1), plain):
            return False
    return True


@pytest.mark.parametrize("setting", SETTINGS)
def test_bits_and_places_are_the_same(path, calls, setting):
    dataset = Dataset.from_parquet(path).batch(1000).with_options(SETTINGS[setting])
    assert same(joined(dataset))
    several = available_cores() > 1
    assert any(threads for _, _, threads in calls) == (several and setting == "by default")
    assert max(rows for _, rows, _ in calls) == (600 if setting == "small pieces" else 60_004)
    assert ("Arrow's threads" in dataset.explain()) == (several and setting != "one thread")
    rows = Dataset.from_parquet(path).with_options(SETTINGS[setting])
    for at in (59_999, 60_003, 60_004, 69_100, 69_204, ROWS - 1):
        iterator = iter(rows.batch(at))
        next(iterator)
        other = iter(rows.batch(at))
        other.restore(iterator.state())
        assert same(joined(other), at)


def test_small_groups_are_decoded_together(tmp_path, calls):
    path = str(tmp_path / "small.parquet")
    parquet.write_table(TABLE.select(NUMBERS).slice(0, 5000), path, row_group_size=10)
    dataset = Dataset.from_parquet(path)
    assert joined(dataset.batch(999))["id"].tolist() == list(range(5000))
    assert [len(groups) for groups, _, _ in calls] == [500]
    stage = TableStage(path, dataset._plan.form)
    stage.advance(1003)
    other = TableStage(path, dataset._plan.form)
    other.restore(stage.state())
    block = other.next(5)
    assert block is not None and block.columns[0].tolist() == list(range(1003, 1008))
    assert calls[-1][0] == list(range(100, 500))


def peak_of(dataset: Dataset) -> int:
    """How much memory Arrow has at most when there is a batch."""
    before = pa.total_allocated_bytes()
    return max(pa.total_allocated_bytes() - before for _ in dataset)


def test_no_more_memory_is_used_than_explained(path):
    dataset = Dataset.from_parquet(path, NUMBERS).batch(100)
    for setting in SETTINGS.values():
        chosen = dataset.with_options(setting)
        memory = chosen.explain().partition("\nmemory\n")[2]
        assert re.search(r"[0-9.]+ MB: elements of parquet files", memory)
        most = float(re.findall(r"at most ([0-9.]+) MB", memory)[0]) * 1e6
        gc.collect()
        assert 0 < peak_of(chosen) <= most, memory


def lists(dtype: Any, rows: int, width: int) -> pa.Array:
    values = np.random.default_rng(0).integers(0, 100, rows * width).astype(dtype)
    return pa.FixedSizeListArray.from_arrays(pa.array(values), width)


COLUMNS = {
    "numbers": lambda: [np.arange(400_000.0), np.arange(400_000)],
    "lists": lambda: [lists(np.float64, 40_000, 16)],
    "bytes in lists": lambda: [lists(np.int8, 40_000, 64)],
    "nested lists": lambda: [
        pa.FixedSizeListArray.from_arrays(lists(np.float32, 160_000, 8), 4),
    ],
    "lists of any length": lambda: [
        pa.ListArray.from_arrays(np.arange(100_001, dtype=np.int32) * 32, np.zeros(3_200_000, "i1"))
    ],
    "text": lambda: [pa.array([f"{i:0200}" for i in range(40_000)])],
}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("threads", [False, True])
def test_what_decoding_takes_is_stated(tmp_path, columns, threads):
    path, piece = str(tmp_path / "rows.parquet"), 1 << 20
    made = COLUMNS[columns]()
    table = pa.table({f"c{i}": column for i, column in enumerate(made)})
    plain = {"use_dictionary": False, "compression": "none"}
    parquet.write_table(table, path, row_group_size=len(table), **plain)
    stage = TableStage(path, Dataset.from_parquet(path)._plan.form, piece, threads)
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        rows = sum(block.n for block in iter(lambda: stage.next(1000), None))
    finally:
        pa.set_memory_pool(usual)
    assert rows == len(table)
    stated = stage.most_nbytes()
    assert stated is not None and pool.max_memory() <= stated
    if columns == "numbers":
        assert pool.max_memory() > stated - 2 * piece


def test_a_record_batch_is_read_whole(tmp_path):
    path = str(tmp_path / "rows.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    dataset = Dataset.from_arrow_ipc(path, NUMBERS)
    assert "as elements are: elements of arrow files" in dataset.explain()
    profile = dataset.batch(100).profile()
    held = max(stage.held_nbytes or 0 for stage in profile.stages)
    assert held >= TABLE.select(NUMBERS).nbytes


@pytest.mark.parametrize("setting", [*SETTINGS, "tiny pieces"])
def test_what_comes_before_damage_is_given(tmp_path, setting):
    path = tmp_path / "damaged.parquet"
    numbers = TABLE.select(["id", "x"]).slice(0, 10_000)
    plain = {"use_dictionary": False, "compression": "none", "data_page_size": 1 << 12}
    parquet.write_table(numbers, path, row_group_size=2000, write_batch_size=500, **plain)
    group = parquet.ParquetFile(path).metadata.row_group(3)
    first, column = group.column(0), group.column(1)
    content = bytearray(path.read_bytes())
    # The header of the column's second page begins where the values of its first end.
    values = np.asarray(TABLE["x"])[6000:8000].tobytes()
    found = content.index(values[:64], column.data_page_offset)
    end = next(n for n in range(64, len(values)) if content[found + n] != values[n])
    content[found + end : found + end + 8] = b"\xff" * 8
    path.write_bytes(content)
    # Up to 64 rows are given up, or a piece if that has fewer.
    options, few = SETTINGS.get(setting, budgets(ram_budget=1 << 12)), 64
    if setting == "tiny pieces":
        few = 32
    whole = end // 8 // few * few
    assert 0 < whole < end // 8 and end // 8 % 64
    rows = Dataset.from_parquet(str(path)).with_options(options)
    for skipped in (0, 1999, 4001):
        iterator = iter(rows)
        for _ in range(skipped):
            next(iterator)
        other = iter(rows)
        other.restore(iterator.state())
        before = 6000 + whole - skipped
        ids = [int(next(other)["id"]) for _ in range(before)]
        assert ids == list(range(skipped, 6000 + whole))
        with pytest.raises(DataLossError, match=f"record {6000 + whole}, at byte") as raised:
            next(other)
        assert raised.value.offset == first.data_page_offset
        assert list(other) == []


def test_a_read_that_fails_once_loses_and_repeats_nothing(path, monkeypatch):
    decode, failed = parquet.ParquetFile.iter_batches, []

    def once(self: Any, rows: int, groups: list[int], columns: Any, use_threads: bool) -> Any:
        for number, batch in enumerate(decode(self, rows, groups, columns, use_threads=False)):
            if groups == [0] and number == 31 and not failed:
                failed.append(rows)
                raise OSError("read failed")
            yield batch

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", once)
    tiny = Dataset.from_parquet(path, ["id", "x"]).with_options(budgets(ram_budget=1 << 12))
    assert same(joined(tiny.batch(1000)))
    assert failed == [32]
