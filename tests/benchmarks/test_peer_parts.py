"""What the contenders of Grain and torch are made of that needs neither."""

import numpy as np
import pytest

from benchmarks.harness.workload import Scale
from benchmarks.workloads import csv_files, csv_peers, example_files, text_files, text_peers
from benchmarks.workloads.example_peers import offsets, parsed, parsed_whole
from benchmarks.workloads.parquet_files import columns, decoded_and_cut, table_file
from benchmarks.workloads.record_files import record_file, records
from benchmarks.workloads.record_peers import read_records
from benchmarks.workloads.text_vocabulary import expected
from drumline.train import Example

COUNT = 130


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_are_read(compression):
    found = list(read_records(record_file(COUNT, compression), compression))
    assert found == [record.tobytes() for record in records(COUNT)]


@pytest.mark.parametrize("in_three", [True, False])
def test_examples_are_parsed(in_three):
    path = example_files.example_file(COUNT, in_three)
    with open(path, "rb") as file:
        content = file.read()
    found = [content[start : start + length] for start, length in offsets(path)]
    floats, integers, label = example_files.columns(COUNT)
    whole = parsed_whole(found, Example.FromString, in_three)
    if in_three:
        wanted = {"floats": floats, "integers": integers, "label": label}
    else:
        wanted = dict(zip(example_files.FLOAT_NAMES, floats.T, strict=True))
        wanted |= dict(zip(example_files.INTEGER_NAMES, integers.T, strict=True))
        wanted["label"] = label
    assert whole.keys() == wanted.keys()
    one = parsed(found[7], Example.FromString, in_three)
    for name, column in wanted.items():
        np.testing.assert_array_equal(whole[name], column, strict=True)
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(column[7]), strict=True)


def test_lines_are_looked_up_in_batches():
    scale = Scale(elements=COUNT, batch_size=64, later_epochs=1)
    batches = text_peers.LineBatches(
        text_files.text_file(COUNT), text_files.numbers_of_words(), scale.batch_size
    )
    assert len(batches) == 3
    for index, batch in enumerate(expected(scale)):
        np.testing.assert_array_equal(batches[index], batch, strict=True)


@pytest.mark.parametrize("engine", ["c", "pyarrow"])
def test_pandas_reads_the_columns(engine):
    pytest.importorskip("pandas", reason="the dev extra has it")
    found = csv_peers.reader(engine)(csv_files.csv_file(COUNT))
    for name, column in csv_files.columns(COUNT).items():
        if name[0] == "s":
            assert found[name].tolist() == [f"w{n}" for n in column]
        else:
            assert found[name].dtype == csv_peers.KINDS[name[0]]
            np.testing.assert_array_equal(found[name], column.astype(found[name].dtype))


def test_pyarrow_batches_are_cut_as_asked():
    batches = list(decoded_and_cut(table_file(20_000), 1024))
    assert [len(batch["c0"]) for batch in batches] == [1024] * 19 + [20_000 - 19 * 1024]
    for name, column in columns(20_000).items():
        joined = np.concatenate([batch[name] for batch in batches])
        np.testing.assert_array_equal(joined, column, strict=True)
