"""Records of comma-separated values that are strings."""

import numpy as np
import pytest

import drumline as dl
from drumline.io import decode_csv


def test_fields_have_the_types_of_their_defaults():
    number, text, half = decode_csv('1,"a ""b""\nc", .5 ', [0, "", np.float64])
    assert (number, text, half) == (1, b'a "b"\nc', 0.5)
    assert (number.dtype, half.dtype) == (np.int32, np.float64)
    columns = decode_csv([["1,x", ",y"]], [7, str])
    assert [column.tolist() for column in columns] == [[[1, 7]], [[b"x", b"y"]]]
    (only,) = decode_csv("1|NA|3", [5], "|", na_value="NA", select_cols=[1])
    assert only == 5


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("1", "expected 2 fields, the record has 1"),
        ("", "expected 2 fields, the record has 0"),
        ("1,2,3", "expected 2 fields, the record has 3"),
        ("x,2", 'column 1: "x" is no valid int32'),
        (",2", "column 1: the field is empty"),
        ('1,a"b', "column 2: a quote inside a field"),
        ('1,"a"b"', "column 2: a quote inside a quoted field must be doubled"),
        ('1,"a', "column 2: the end comes within a quoted field"),
        ("1,2\n", "column 2: a line break inside a field"),
    ],
)
def test_bad_records_are_refused(record, message):
    with pytest.raises(ValueError, match=f"io.decode_csv: {message}"):
        decode_csv(["1,2", record], [np.int32, ""])


def test_decoding_runs_natively_in_map():
    lines = dl.data.Dataset.from_tensor_slices(["1,2", "x,2", "3,4"])
    dataset = lines.map(lambda line: tuple(x * 2 for x in decode_csv(line, [0, 0.0])))
    assert "native io.decode_csv | compiled" in dataset.explain()
    iterator = iter(dataset)
    assert next(iterator) == (2, 4.0)
    with pytest.raises(ValueError, match="is no valid int32"):
        next(iterator)
    assert next(iterator) == (6, 8.0)
