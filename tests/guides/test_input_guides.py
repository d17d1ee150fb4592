"""TensorFlow's guides on input run as they are written, but for names of operations on arrays."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

# Keras reads its own variables in a way that numpy has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

GUIDES = Path(__file__).parent
_FIRST_LINES = ["Achilles sing, cowper 0", "Of Peleus' son, derby 0", "Sing, butler 0"]


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Runs a guide; what it prints, by section and line."""

    def run(name: str) -> dict[str, list[str]]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
        runpy.run_path(str(GUIDES / f"{name}.py"), run_name="__main__")
        sections = re.findall(r"== (.*)\n((?:(?!== ).*\n)*)", capsys.readouterr().out)
        return {section: text.splitlines() for section, text in sections}

    return run


def test_consuming_data(printed):
    lines = printed("consuming_data")
    assert lines["Basic mechanics"] == ["8", "3", "0", "8", "2", "1", "next 8", "reduced 22"]
    assert lines["Dataset structure"].count("shapes: (10,), (), (100,)") == 4
    counted = lines["Consuming Python generators"]
    assert counted[0] == "[0 1 2 3 4 5 6 7 8 9]" and counted[2] == "[20 21 22 23 24  0  1  2  3  4]"
    assert counted[-2].startswith("padded (10,) 10 float32")
    assert counted[-1] == "pictures TensorSpec(shape=(4, 8, 8, 3), dtype=float32)"
    assert lines["Consuming TFRecord data"] == ["[b'Rue Perreyon 0']"]
    text = lines["Consuming text data"]
    assert text[:2] == ["b'Achilles sing, cowper 0'", "b'Achilles sing, cowper 1'"]
    assert text[6:9] == [f"b{line!r}" for line in _FIRST_LINES]
    assert sum(line.startswith("survivor b'1,") for line in text) == 10
    _check_tables(lines["Consuming CSV data"])
    files = lines["Consuming sets of files"]
    assert files[:2] == ["/flowers/daisy/0.jpg", "/flowers/daisy/1.jpg"]
    assert files[2] == r"b'\xff\xd8\xff' b'daisy'"
    assert files.count("image (128, 128, 3) float32 b'daisy'") == 2
    _check_batches(lines)
    assert lines["Applying arbitrary Python logic"] == ["(128, 128, 3) float32 b'daisy'"] * 2
    examples = [(b"\x89PNG", f"Rue Perreyon {i}".encode()) for i in range(3)]
    assert lines["Parsing Example messages"] == [f"{examples}", "(3,)"]
    _check_series(lines["Time series windowing"])
    _check_resampling(lines["Resampling"])
    positions = [list(range(5)), list(range(5, 10)), list(range(5, 10))]
    assert lines["Iterator Checkpointing"] == list(map(str, positions))


def _check_tables(table):
    assert table[0] == "'survived': (4,)" and "'age': float32" in table and "'sex': object" in table
    assert "chosen ['class', 'fare']" in table
    missing = [line for line in table if line.startswith("missing")]
    assert missing[1] == "missing [999   2   3   4]" and missing[5] == "missing [999 999 999 999]"
    columns = ["[999   4]", "[2 4]", "[  2 999]", "[999 999]"]
    assert table[-4:] == [f"columns {row}" for row in columns]


def _check_batches(lines):
    batches = lines["Batching dataset elements"]
    assert batches[0] == "[array([0, 1, 2, 3]), array([ 0, -1, -2, -3])]"
    assert "(None,)" in batches[2] and "(7,)" in batches[3]
    assert batches[4] == "[[0, 0, 0], [1, 0, 0], [2, 2, 0], [3, 3, 3]]"
    epochs = lines["Training workflows"]
    assert epochs[:2] == ["[32, 32, 32, 27]", "[32, 9, 32, 9, 32, 9]"]
    assert epochs[2:5] == ["(32,)", "(9,)", "End of epoch:  0"]
    assert epochs[-2:] == ["shuffled True", "10 9"]


def _check_series(series):
    assert series[2] == "[0 1 2 3 4 5 6 7 8]  =>  [1 2 3 4 5 6 7 8 9]"
    assert series[4] == "[0 1 2 3 4 5 6 7 8 9]  =>  [10 11 12 13 14]"
    assert series[5] == "[0 1 2 3 4 5 6 7 8 9]  =>  [10 11 12]"
    assert "flat [0, 1, 2, 3, 4, 1, 2, 3]" in series
    assert "[ 5  8 11 14 17 20 23 26 29] => [ 8 11 14 17 20 23 26 29 32]" in series
    assert series[-1] == "[2 3 4 5 6]"


def _check_resampling(lines):
    assert lines[:2] == ["10240.0 [0.98 0.02]", "[1 1 1 1 1 1 1 1 1 1]"]
    for line in lines[2:]:
        assert abs(float(line.split()[1]) - 0.5) < 0.1


def test_loading_csv(printed):
    lines = printed("loading_csv")
    assert "sex                : b'male'" in lines["On in memory data"]
    assert lines["On in memory data"][-1] == "[32, 8]"
    single = lines["From a single file"]
    assert "age                 : float32 (5,)" in single
    assert single[-3:] == [
        "weather_main        : object",
        "date_time           : object",
        "label               : int32",
    ]
    assert lines["Caching"] == ["...", "..."]
    assert lines["Multiple files"][-4:] == ["[total: 19 features]", *["(4, 4) True"] * 3]
    types = [line.removesuffix(", shape: (40,)") for line in lines["decode_csv"]]
    assert types[:10] == ["type: object"] * 10
    assert types[10:13] == ["type: int32", "type: object", "type: float32"]
    assert lines["CsvDataset"][0] == lines["CsvDataset"][1]
    assert "b'male', np.float32(20.0)" in lines["CsvDataset"][0]
    several = lines["CsvDataset of multiple files"]
    rows = [(font, letter) for font in ("AGENCY", "ARIAL", "BAITI") for letter in "ABC"]
    assert several[:3] == ["b'AGENCY'"] * 3 and several[-1] == str(rows)
    assert lines["Performance"] == ["...", "...19"]


def test_loading_images(printed):
    lines = printed("loading_images")
    utility = lines["Using a Keras utility"]
    assert "Using 24 files for training." in utility
    for line in utility[5:8]:
        level, name = line.split()
        assert ["daisy", "roses", "tulips"].index(name) == int(level) // 2
    assert utility[8:] == ["(8, 18, 18, 3)", "(8,)", "normalized True"]
    finer = lines["Using dl.data for finer control"]
    assert finer[3:7] == ["24", "6", "Image shape:  (18, 18, 3)", "Label:  int32"]
    assert finer[7:] == ["labelled True"] * 24 + ["as Python False", "(8, 18, 18, 3) True"]


@pytest.mark.thorough
def test_augmenting_images(printed):
    (lines,) = printed("augmenting_images").values()
    assert lines == ["2", "True 20 uint8", "augmented (8, 18, 18, 3) float32 True"]


def test_loading_records(printed):
    lines = printed("loading_records")
    example = lines["tf.train.Example"]
    assert [line for line in example if line.startswith("  value")][:5] == [
        '  value: "test_string"',
        '  value: "test_bytes"',
        "  value: 2.7182817",
        "  value: 1",
        "  value: 1",
    ]
    assert r"b'\x12\x06\n\x04T\xf8-@'" in example
    assert "True True True True" in lines["Writing a TFRecord file"]
    features = str([f"feature{i}" for i in range(4)])
    assert lines["Reading a TFRecord file"][-1] == features
    assert lines["TFRecord files in Python"][-1] == f"{features} [ True]"
    assert lines["Reading and writing image data"][-1] == "True 21 32"


def test_loading_text(printed):
    lines = printed("loading_text")
    assert "Label 3 corresponds to python" in lines["Load the dataset"]
    prepared = ["(1, 35)", "(1, 25)", "2 --->  blank", "as Python False", "(8, 25) int64"]
    assert lines["Prepare the dataset for training"] == prepared
    assert lines["TextLineDataset"] == [
        "[(0, 20), (1, 20), (2, 20)]",
        "Vocab size:  30 [b',', b'sing']",
        "Vectorized sentence:  int64",
        "Text batch shape:  2 8",
        "Label batch shape:  (8,)",
        "40",
    ]
    assert lines["word2vec"][-1] == "['achilles', 'sing', 'o', 'goddess']"


def test_loading_audio(printed):
    lines = printed("loading_audio")
    assert lines["A Keras utility"][-4:] == ["(3, 1600)", "(3,)", "(3, 11, 129, 1)", "9"]
    assert lines["Reading audio files and their labels"] == [
        "Number of total examples: 12",
        *["1 True"] * 2,
        "True",
        "(4, 1600)",
    ]


def test_loading_pandas(printed):
    pytest.importorskip("pandas", reason="reads tables by pandas, which the dev extra has")
    (lines,) = printed("loading_pandas").values()
    assert lines[3] == "  'thal'              : b'normal'"
    assert lines[5] == "(array([ 20., 200.,   0.]), np.int64(0))"
    assert lines[-1] == "{'age': (2, 1), 'chol': (2, 1), 'oldpeak': (2, 1)} (2,)"


def test_data_performance(printed):
    lines = printed("data_performance")
    for name in ("naive", "prefetch", "map", "parallel map"):
        assert lines[name] == ["[0]", "[1]", "[2]"] * 2
    assert lines["cache"] == ["[0]", "[1]", "[2]"] * 5
    for name in ("interleave", "parallel interleave"):
        assert lines[name] == ["[0]", "[0]", "[1]", "[1]", "[2]", "[2]"] * 2
    assert lines["vectorized"] == ["100010000"] * 2
