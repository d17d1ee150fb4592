"""The runner of tutorials, on small notebooks of its own."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes import gone
from tests.tutorials import files
from tests.tutorials.cells import file_with_imports, magic, without_magics
from tests.tutorials.run import EXCEPTED, ROOT, failures_of, main, name_of, run_notebook


def notebook(folder: Path, *cells: str) -> Path:
    path = folder / "tutorials" / "own.ipynb"
    path.parent.mkdir(exist_ok=True)
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["#"]}, *made]}))
    return path


def run(path: Path, **changed: Any) -> dict[str, Any]:
    given = {"tf": "drumline.compat.tf", "python": sys.executable, "seconds": 60, "limit": 120}
    return run_notebook(path, path.parent, **{**given, **changed})


def test_cells_share_names_and_a_failure_does_not_end_the_notebook(tmp_path: Path) -> None:
    path = notebook(
        tmp_path,
        "# Licensed under the Apache License",
        "import tensorflow as tf\nfrom tensorflow.keras import layers\nx = tf.constant([1, 2])",
        "  x + 1\n  assert tf.__name__ == 'drumline.compat.tf'",
        "\n1 / 0",
        "lines = !echo one; echo two\nassert lines == ['one', 'two']\n%matplotlib inline",
        "%%writefile own.py\nimport tensorflow as tf\nprint(tf.reduce_sum(tf.constant([1, 2])))",
        "%%bash\npython own.py | grep 3",
        "%%bash\nfalse",
        "raise SystemExit(1)",
        "assert __name__ == '__main__'",
    )
    result = run(path)
    assert result["notebook"] == "tutorials/own"
    errors = {cell["cell"]: cell["error"] for cell in result["cells"]}
    failed = {number: error for number, error in errors.items() if error is not None}
    assert sorted(errors) == [*range(1, 10)]
    assert sorted(failed) == [3, 7, 8], failed
    assert failed[3].startswith("ZeroDivisionError")
    assert next(cell["line"] for cell in result["cells"] if cell["cell"] == 3) == 2


def test_a_failure_is_shown_with_what_to_do() -> None:
    """Where the error does not say it, what is known of the cell does."""
    errors = {1: "AttributeError: tf.Graph is not in the look-alike; use tf.function\n  more"}
    errors |= {2: "NameError: name 'graph' is not defined", 30: "AssertionError: "}
    cells = [{"cell": i, "error": errors.get(i), "line": None} for i in range(31)]
    first, second, third = failures_of({"notebook": "guide/autodiff", "cells": cells})
    assert first.endswith("cell 1, line ?: " + errors[1].splitlines()[0])
    assert second.endswith("is not defined (follows from cell 1)")
    assert "adjust_contrast, and here there is one" in third


def test_cells_that_may_fail_say_what_to_do() -> None:
    weights = {"cell": 12, "error": "AssertionError: ", "line": 1}
    hub = {"cell": 11, "error": "ModuleNotFoundError: No module named 'tensorflow_hub'", "line": 1}
    for name, cell, remedy in (
        ("parameter_server_training", weights, "look at emb_layer.weights[0].variables"),
        ("save_and_load", hub, "use tf.keras.layers.TFSMLayer(path, call_endpoint="),
    ):
        assert f"tutorials/distribute/{name}" in EXCEPTED
        (line,) = failures_of({"notebook": f"tutorials/distribute/{name}", "cells": [cell]})
        assert remedy in line


def test_what_a_notebook_began_ends_with_it(tmp_path: Path) -> None:
    path = notebook(
        tmp_path,
        "%%bash --bg\necho $$ > $TUTORIAL_DATA/pid; sleep 600",
        "import os, pathlib, time\nbegan = pathlib.Path(os.environ['TUTORIAL_DATA'], 'pid')\n"
        "while not began.exists(): time.sleep(0.01)",
        "import os; os.kill(os.getpid(), 9)",
        "print('not run')",
    )
    result = run(path)
    assert [cell["error"] is None for cell in result["cells"]] == [True, True, False, False]
    assert "its process ended with -9" in result["cells"][3]["error"]
    pid = int((path.parent / "pid").read_text())
    while not gone(pid):
        time.sleep(0.01)


def test_an_interrupted_run_keeps_results_and_leaves_no_process(tmp_path: Path) -> None:
    path = notebook(
        tmp_path,
        "'passes'",
        "%%bash --bg\nsetsid sh -c 'echo $$ > $TUTORIAL_DATA/pid; exec sleep 600'",
        "import time; time.sleep(600)",
    )
    (tmp_path / "guide").mkdir()
    out, data = tmp_path / "out.json", tmp_path / "data"
    data.mkdir()
    program = (
        "import sys; from tests.tutorials import files, run; files.MADE.clear(); "
        "sys.exit(run.main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), name_of(path)]
        + ["--data", str(data), "--out", str(out)],
        cwd=ROOT,
    )
    while not (data / "pid").exists() or not (data / "pid").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    pid = int((data / "pid").read_text())
    while not gone(pid):
        time.sleep(0.01)
    (result,) = json.loads(out.read_text())
    first, second, third = result["cells"]
    assert first["error"] is None and second["error"] is None
    assert third["error"] == "not run: the run was interrupted"


def test_notebooks_have_temporary_folders_of_their_own(tmp_path: Path) -> None:
    path = notebook(
        tmp_path,
        "import os\nname = '/tmp/own'\nassert name == os.environ['TMPDIR'] + '/own'\n"
        "open(name, 'w').close()",
        "%%bash\ntest -e /tmp/own && test ! -e /var/tmp/own",
    )
    assert [cell["error"] for cell in run(path)["cells"]] == [None, None]


def test_a_cell_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    path = notebook(tmp_path, "import time\ntime.sleep(600)", "'the next one runs'")
    first, second = run(path, seconds=1)["cells"]
    assert first["error"].startswith("CellTimeoutError") and second["error"] is None


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("import tensorflow as tf", "import m.tf as tf"),
        ("import tensorflow", "import m.tf as tensorflow"),
        ("from tensorflow.keras import layers as l", "from m.tf.keras import layers as l"),
        ("import tensorflow.keras.layers as l", "import m.tf.keras.layers as l"),
        ("import tensorflow_datasets as tfds", "import tensorflow_datasets as tfds"),
        ("import os, tensorflow as tf", "import os\nimport m.tf as tf"),
    ],
)
def test_imports(text: str, made: str) -> None:
    assert file_with_imports(text, "a.py", "m.tf").strip() == made
    assert file_with_imports(text, "a.txt", "m.tf") == text


def test_magics() -> None:
    assert magic("%%bash --bg\nls") == ("bash", "--bg", "ls")
    assert magic("x = 1\n") == ("", "", "x = 1\n")
    text = without_magics("!pip install x\n  %time f()\n!rm -rf $a\n%load_ext t\ny = !ls\nx % 2")
    assert text.split("\n") == [
        *("pass", "  f()", "_ = run_command('rm -rf $a')", "pass"),
        *("y = run_command('ls')", "x % 2"),
    ]


def test_files_have_the_original_rows(tmp_path: Path) -> None:
    images, labels = files.digits(1000, 0)
    assert images.shape == (1000, 28, 28) and images.dtype == np.uint8
    assert set(labels) == set(range(10))
    nearest = [
        min(range(10), key=lambda d: np.abs(image - images[labels == d].mean(axis=0)).sum())
        for image in images[:100].astype(np.float32)
    ]
    assert np.mean(np.array(nearest) == labels[:100]) > 0.8, "they can be learned"
    files.MADE["train.csv"](tmp_path / "train.csv")
    assert len((tmp_path / "train.csv").read_text().splitlines()) == 628


def test_a_missing_notebook_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([os.fspath(tmp_path), "guide/none"])
    assert "give a checkout of tensorflow/docs" in capsys.readouterr().err
    assert name_of(Path("/x/site/en/guide/keras/a.ipynb")) == "guide/keras/a"


def test_made_up_files_have_the_original_columns(tmp_path: Path) -> None:
    for name in ("abalone_train.csv", "Metro_Interstate_Traffic_Volume.csv.gz", "fonts.zip"):
        files.MADE[name](tmp_path / name)
    abalone = np.loadtxt(tmp_path / "abalone_train.csv", delimiter=",")
    assert abalone.shape == (3320, 8)
    with gzip.open(tmp_path / "Metro_Interstate_Traffic_Volume.csv.gz", "rt") as file:
        lines = file.read().splitlines()
    assert len(lines) == 48_205 and lines[0].startswith("holiday,temp,rain_1h")
    assert {line.count(",") for line in lines} == {8}
    with zipfile.ZipFile(tmp_path / "fonts.zip") as fonts:
        assert len(fonts.namelist()) == 153
        lines = fonts.read("AGENCY.csv").decode().splitlines()
    assert {line.count(",") for line in lines} == {411}
    assert lines[0].endswith(",r19c19") and lines[1].startswith("AGENCY,")


def test_made_up_tables_have_the_original_rows_and_columns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for name, shape, target in [
        ("heart.csv", (303, 14), "target"),
        ("petfinder-mini.zip", (11_537, 15), "AdoptionSpeed"),
        ("ecg.csv", (4_998, 141), None),
    ]:
        files.MADE[name](tmp_path / name)
        table = pandas.read_csv(tmp_path / name, header=None if target is None else "infer")
        assert table.shape == shape
        assert table[table.columns[-1]].nunique() > 1
        assert target in (None, table.columns[-1])
    files.MADE["auto-mpg.data"](tmp_path / "cars")
    cars = pandas.read_csv(
        tmp_path / "cars",
        names=list("abcdefgh"),
        na_values="?",
        comment="\t",
        sep=" ",
        skipinitialspace=True,
    )
    assert cars.shape == (398, 8) and cars.isna().sum().sum() == 6


def test_made_up_archives_have_a_folder_for_each_class(tmp_path: Path) -> None:
    counts = {}
    for name in ("aclImdb_v1.tar.gz", "facades.tar.gz"):
        files.MADE[name](tmp_path / name)
        with tarfile.open(tmp_path / name) as archive:
            counts |= Counter(str(Path(entry).parent) for entry in archive.getnames())
    assert counts["aclImdb/train/neg"] == 600 and counts["aclImdb/train/pos"] == 601
    assert counts["facades/train"] == 400 and counts["facades/test"] == 106


def test_what_pandas_opens_and_shows_of_made_up_sets(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = notebook(
        tmp_path,
        "import pandas as pd\n"
        "read = pd.read_csv('https://example.com/abalone_train.csv', header=None)\n"
        "assert read.shape == (3320, 8)",
        "import tensorflow_datasets as tfds\n"
        "parts, info = tfds.load('penguins/processed', split=['train[:20%]', 'train[20%:]'],\n"
        "                        as_supervised=True, with_info=True)\n"
        "shown = tfds.as_dataframe(parts[0].take(5), info)\n"
        "assert list(shown) == ['features', 'label'] and len(shown) == 5\n"
        "assert [part.cardinality().numpy() for part in parts] == [66, 268]",
        "shown = tfds.as_dataframe(tfds.load('penguins/simple', split='train').take(2))\n"
        "assert len(shown) == 2 and list(shown)[-1] == 'species'",
    )
    files.MADE["abalone_train.csv"](path.parent / "abalone_train.csv")
    result = run(path)
    assert [cell["error"] for cell in result["cells"]] == [None] * 3
