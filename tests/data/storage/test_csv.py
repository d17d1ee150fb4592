"""Files of comma-separated values."""

import gzip
import json
import pickle
import re
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline.data import Dataset
from drumline.data.readers import CsvDataset, make_csv_dataset
from drumline.errors import CsvError

RECORDS = 'id,name,x\r\n1,"a ""b""\nc",2.5\n2,,\nx,y,1\n3,z, 1e3 \n4\n5,q"r,1\n6,w,7'
GOOD = [(1, b'a "b"\nc', 2.5), (2, b"none", 0.5), (3, b"z", 1000.0), (6, b"w", 7.0)]
GZIPPED = gzip.compress(b"a,b\n1,2\n", mtime=0)
DEFAULTS = [np.int32, "none", 0.5]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(RECORDS.encode())
    return file


def outcomes(dataset):
    found, iterator = [], iter(dataset)
    while True:
        try:
            found.append(tuple(value.tolist() if hasattr(value, "tolist") else value
                               for value in next(iterator)))  # fmt: skip
        except StopIteration:
            return found
        except (CsvError, OSError) as error:
            found.append(str(error))


def test_records_have_the_types_of_their_defaults(path):
    dataset = CsvDataset(path, DEFAULTS, header=True)
    assert [leaf.dtype for leaf in dataset.element_spec] == [np.int32, object, np.float32]
    assert outcomes(dataset.ignore_errors()) == GOOD


def test_bad_records_raise_in_their_place(path, tmp_path):
    missing = tmp_path / "none.csv"
    found = outcomes(CsvDataset([path, missing, path], DEFAULTS, header=True))
    assert [item for item in found if isinstance(item, tuple)] == GOOD * 2
    assert found[2] == f'{path}: line 5, column 1: "x" is no valid int32'
    assert found[4] == f"{path}: line 7: expected 3 fields, the record has 1"
    assert found[5].startswith(f"{path}: line 8, column 2: a quote inside a field")
    assert str(missing) in found[7]


def test_values_without_a_default_may_not_be_missing(path):
    dataset = CsvDataset(path, [str], header=True, select_cols=[1])
    iterator = iter(dataset)
    next(iterator)
    with pytest.raises(CsvError, match="line 4, column 2: the field is empty") as caught:
        next(iterator)
    assert (caught.value.line, caught.value.column) == (4, "column 2")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_columns_are_chosen(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("1;2;NA\n3;'x';\"q\n")
    arguments = {"field_delim": ";", "use_quote_delim": False, "na_value": "NA"}
    assert outcomes(CsvDataset(file, ["", "-"], select_cols=[1, 2], **arguments)) == [
        (b"2", b"-"),
        (b"'x'", b'"q'),
    ]
    assert outcomes(CsvDataset(file, [0, "-"], exclude_cols=[1], **arguments)) == [
        (1, b"-"),
        (3, b'"q'),
    ]


@pytest.mark.parametrize(("name", "pack"), [("GZIP", gzip.compress), ("ZLIB", zlib.compress)])
def test_compressed_files(tmp_path, name, pack):
    file = tmp_path / "a.csv"
    file.write_bytes(pack(RECORDS.encode()))
    dataset = CsvDataset(file, DEFAULTS, name, buffer_size=7, header=True).ignore_errors()
    assert outcomes(dataset) == GOOD
    file.write_bytes(pack(RECORDS.encode())[:-9])
    found = outcomes(CsvDataset(file, DEFAULTS, name, header=True))
    assert "the compressed data ends too early" in found[-1]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_reading_goes_on_where_it_was(tmp_path, compression):
    text = RECORDS.encode() * 3
    file = tmp_path / "a.csv"
    file.write_bytes(gzip.compress(text) if compression else text)
    dataset = CsvDataset([file, file], DEFAULTS, compression, 16, True).ignore_errors()
    wanted = outcomes(dataset)
    for place in range(0, len(wanted) + 1, 3):
        iterator = iter(dataset)
        for _ in range(place):
            next(iterator)
        state = json.loads(json.dumps(iterator.state()))
        resumed = iter(dataset)
        resumed.restore(state)
        assert outcomes(resumed) == wanted[place:]


def test_remote_files():
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://csv/a.csv", "wb").open() as file:
        file.write(RECORDS.encode())
    remote = CsvDataset("memory://csv/a.csv", DEFAULTS, header=True).ignore_errors()
    assert outcomes(remote) == GOOD
    batches = make_csv_dataset("memory://csv/*.csv", 4, num_epochs=1, ignore_errors=True,
                               shuffle=False, column_defaults=DEFAULTS)  # fmt: skip
    assert next(iter(batches))["id"].tolist() == [1, 2, 3, 6]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"field_delim": "ab"}, "field_delim must be one character"),
        ({"field_delim": "\n"}, "field_delim must be one character"),
        ({"select_cols": [0]}, "select_cols has 1 columns, and there are 3"),
        ({"select_cols": [2, 1, 0]}, "select_cols must be ascending"),
        ({"select_cols": [0, 1, 2], "exclude_cols": [3]}, "at most one of"),
        ({"compression_type": "zip"}, "compression_type must be"),
        ({"record_defaults": [[1, 2]]}, r"record_defaults\[0\]: one default at most"),
    ],
)
def test_arguments_are_checked(path, arguments, message):
    with pytest.raises(ValueError, match=f"CsvDataset.*{message}"):
        CsvDataset(path, **{"record_defaults": DEFAULTS, **arguments})
    with pytest.raises(TypeError, match="columns are float32, float64"):
        CsvDataset(path, [np.int8])


def test_an_empty_file_lacks_its_header(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b"")
    assert outcomes(CsvDataset(file, [0])) == []
    assert outcomes(CsvDataset(file, [0], header=True)) == [
        f"{file}: line 1: the file is empty, and header=True asks for a header"
    ]


@pytest.fixture
def table(tmp_path):
    for name, start in (("a", 0), ("b", 50)):
        rows = "".join(f"{i},{i / 2},s{i},{i << 33}\n" for i in range(start, start + 50))
        (tmp_path / f"{name}.csv").write_text(f"i,half,s,big\n{rows}")
    return str(tmp_path / "*.csv")


def test_names_and_types_are_found(table):
    (batch,) = make_csv_dataset(table, 200, num_epochs=1, shuffle=False)
    kinds = {name: column.dtype for name, column in batch.items()}
    assert kinds == {"i": np.int32, "half": np.float32, "s": object, "big": np.int64}
    assert batch["i"].tolist() == list(range(100))
    assert batch["big"].tolist() == [i << 33 for i in range(100)]


def test_labels_and_chosen_columns(table):
    dataset = make_csv_dataset(table, 8, label_name="i", select_columns=["s", 0], shuffle_seed=1)
    assert list(dataset.element_spec[0]) == ["s"]
    features, label = next(iter(dataset))
    assert features["s"].tolist() == [b"s%d" % i for i in label]
    assert label.tolist() != sorted(label.tolist())
    assert dataset.element_spec[1].shape == (8,)


def test_files_are_read_by_turns_and_shared(table):
    arguments = {"num_epochs": 1, "shuffle": False, "select_columns": ["i"]}
    (batch,) = make_csv_dataset(table, 100, num_parallel_reads=2, **arguments)
    assert batch["i"].tolist()[:4] == [0, 50, 1, 51]
    shard = make_csv_dataset(table, 100, **arguments).unbatch().shard(2, 1)
    assert len(list(shard)) == 50


def test_types_widen_with_the_rows(tmp_path):
    columns = ["1,1,1,1.5,nan,", "3000000000,1e39,x,2,1,", ",,,,,"]
    (tmp_path / "a.csv").write_text("\n".join(columns))
    dataset = make_csv_dataset(
        str(tmp_path / "a.csv"), 3, list("abcdef"), header=False, num_epochs=1, shuffle=False
    )
    kinds = [spec.dtype for spec in dataset.element_spec.values()]
    assert kinds == [np.int64, np.float64, object, np.float32, object, object]
    assert [column[2] for column in next(iter(dataset)).values()] == [0, 0.0, b"", 0.0, b"", b""]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_name": "q"}, "label_name 'q' is none of"),
        ({"select_columns": ["q"]}, "'q' is none of"),
        ({"select_columns": [9]}, "there is no column 9"),
        ({"select_columns": ["i", 0]}, "a column twice"),
        ({"column_names": ["a"], "column_defaults": [0, 0]}, "2 column_defaults for 1"),
        ({"column_names": list("abab")}, "the same name: a, b"),
        ({"header": False}, "give column_names"),
        ({"column_names": list("abc")}, "has 4 fields, there are 3 columns"),
        ({"compression_type": "ZLIB"}, "pass column_names and column_defaults"),
    ],
)
def test_tables_are_checked(table, arguments, message):
    with pytest.raises(ValueError, match=f"make_csv_dataset.*{message}"):
        make_csv_dataset(table, 8, **arguments)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"a,b\n1,2\n\xff,3\n", {}, "after line 1: 'utf-8' codec can't decode byte 0xff"),
        (b"a,b\n1," + b"2" * 200_000 + b"\n", {}, "after line 2: field larger than field limit"),
        (b"a,b\n1,2\n", {"compression_type": "GZIP"}, "after line 1: Not a gzipped file"),
        (GZIPPED[:-9], {"compression_type": "GZIP"}, "file ended before"),
        (GZIPPED[:10] + b"\xff" * 9, {"compression_type": "GZIP"}, "Error -3"),
    ],
)
def test_tables_that_cannot_be_looked_through_are_named(tmp_path, content, arguments, message):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^make_csv_dataset: {re.escape(str(path))}, .*{message}"):
        make_csv_dataset(str(path), 1, **arguments)


@given(st.lists(st.sampled_from([b"a", b"1", b",", b'"', b"\n", b"\r", b"\0", b"\xff", b"nan"])))
def test_any_table_is_read_or_refused(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("table") / "a.csv"
    path.write_bytes(b"".join(pieces))
    try:
        dataset = make_csv_dataset(str(path), 1, num_epochs=1, ignore_errors=True)
    except ValueError as error:
        assert str(error).startswith("make_csv_dataset: ")  # noqa: PT017
        return
    assert len(list(dataset)) <= len(pieces)


def test_other_names_in_another_file(table, tmp_path):
    (tmp_path / "c.csv").write_text("i,j\n1,2\n")
    with pytest.raises(ValueError, match=r"c\.csv has columns \['i', 'j'\]"):
        make_csv_dataset(table, 8)
    with pytest.raises(FileNotFoundError):
        make_csv_dataset(str(tmp_path / "*.txt"), 8)


def test_a_dataset_of_names(path):
    names = Dataset.from_tensor_slices([str(path)] * 2)
    assert outcomes(CsvDataset(names, DEFAULTS, header=True).ignore_errors()) == GOOD * 2


def test_files_read_by_turns_come_in_blocks_however_slow_one_row_is(tmp_path, monkeypatch):
    """A block costs a slice for each file and column: with hundreds, as much as its rows."""
    from drumline.data.operations.nested.nesting import InterleaveStage
    from drumline.data.runtime.stage import BatchSizeController

    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("a,b\n" + f"{number},x\n" * 200)
    asked = []
    whole = InterleaveStage.next

    def noted(self, limit):
        asked.append(limit)
        return whole(self, limit)

    monkeypatch.setattr(InterleaveStage, "next", noted)
    monkeypatch.setattr(BatchSizeController, "start", lambda self, preferred: 1)
    batches = make_csv_dataset(
        str(tmp_path / "*.csv"), 10, num_epochs=1, num_parallel_reads=3, shuffle_buffer_size=600
    )
    rows = np.concatenate([batch["a"] for batch in batches])
    assert sorted(rows.tolist()) == [0] * 200 + [1] * 200 + [2] * 200
    assert len(asked) < 60 and max(asked) >= 90
