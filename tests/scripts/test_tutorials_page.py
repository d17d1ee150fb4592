"""The page on TensorFlow's guides and tutorials."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from scripts import tutorials_page


def result(name: str, *errors: str | None) -> dict[str, Any]:
    cells = [{"cell": i, "error": e, "seconds": 0.25} for i, e in enumerate(errors)]
    return {"notebook": name, "seconds": 1.5, "cells": cells, "log": "..."}


def write(path: Path, *results: dict[str, Any]) -> str:
    path.write_text(json.dumps(results))
    return str(path)


def test_the_page_counts_what_passes_in_both(tmp_path: Path) -> None:
    error = 'ValueError: in user code:\n\n    File "/tmp/x/home/a.py", line 3\n'
    ours = write(
        tmp_path / "ours.json",
        result("tutorials/keras/own", None, None, "AttributeError: no |x| at 0x7f12", None),
        result("guide/data", None, "NameError: name 'a'"),
    )
    theirs = write(
        tmp_path / "theirs.json",
        result("guide/data", error, None),
        result("tutorials/keras/own", None, None, None, error),
    )
    stored = tmp_path / "stored.json"
    options = ["--seconds", "60", "--limit", "300", "--to", str(stored)]
    tutorials_page.main(["--store", ours, theirs, *options])
    text = tutorials_page.page(stored)[tutorials_page.PAGE]
    assert "Of the 4 cells that TensorFlow passes 2 pass here\n(50.0 %).**" in text
    assert "\n2 notebooks of [tensorflow/docs]" in text
    assert "which TensorFlow fails itself, 2 pass here" in text
    assert "A cell may take 60 s on two cores, a notebook 300 s" in text
    assert "| `own` | 4 | 3 | 2 | 1 |" in text
    assert "| `own` | 2 | `AttributeError: no &#124;x&#124; at 0x...` |  |" in text
    assert "| `data` | 1 | `NameError: name 'a'` |  |" in text
    assert text.index("## guide\n") < text.index("## tutorials/keras\n")


def test_errors_are_stored_in_one_line_without_folders_of_the_machine() -> None:
    error = "ValueError: \n\n  cannot open /home/someone/data/a.csv at 0x7fff\n  more"
    (stored,) = tutorials_page.compact([result("guide/a", error)], [result("guide/a", None)])
    assert stored["failures"] == {"0": "ValueError: cannot open .../a.csv at 0x..."}
    assert stored["tensorflow"] == [0] and stored["drumline"] == []


def test_a_notebook_that_one_of_them_ran_is_refused() -> None:
    with pytest.raises(ValueError, match="run by one of them only: .*guide/b"):
        tutorials_page.compact([result("guide/a", None), result("guide/b")], [result("guide/a")])


def test_notebooks_that_were_run_again_take_their_place(tmp_path: Path) -> None:
    ours = [result("guide/a", None, "KeyError: 'x'"), result("guide/b", "KeyError: 'y'")]
    stored = tmp_path / "stored.json"
    notebooks = tutorials_page.compact(
        ours, [result("guide/a", None, None), result("guide/b", None)]
    )
    stored.write_text(json.dumps({"seconds": 1, "notebooks": notebooks}))
    again = write(tmp_path / "again.json", result("guide/a", "ValueError: z", None))
    tutorials_page.main(["--update", again, "--to", str(stored)])
    first, second = json.loads(stored.read_text())["notebooks"]
    assert first == {
        "notebook": "guide/a",
        "cells": 2,
        "tensorflow": [0, 1],
        "drumline": [1],
        "failures": {"0": "ValueError: z"},
    }
    assert second == notebooks[1]
    with pytest.raises(ValueError, match="TensorFlow did not run guide/c"):
        tutorials_page.updated(notebooks, [result("guide/c", None)])


def test_remarks_lead_to_the_first_cell_that_failed() -> None:
    failures = {
        "2": "AttributeError: tf.Graph is not in the look-alike; use tf.function",
        "4": "NameError: name 'g' is not defined",
        "5": "OSError: SavedModel file does not exist at: m",
        "7": "CellTimeoutError: the cell took longer than it may",
    }
    notebook = {"notebook": "guide/a", "failures": failures}
    found = [tutorials_page.remark(notebook, cell) for cell in (2, 4, 5)]
    assert found == ["", "follows from cell 2", "follows from cell 2"]
    assert "give it more time" in tutorials_page.remark(notebook, 7)


def test_each_cell_that_fails_says_what_to_do() -> None:
    stored = json.loads(tutorials_page.STORED.read_text(encoding="utf-8"))
    says = re.compile(
        r"\buse\b|\bgive\b|\bcall\b|\bpass\b|look at it|not in the look-alike: ", re.I
    )
    silent = [
        (each["notebook"], cell, error)
        for each in stored["notebooks"]
        for cell, error in each["failures"].items()
        if int(cell) in each["tensorflow"]
        and not says.search(error)
        and not tutorials_page.remark(each, int(cell))
    ]
    assert silent == []


def test_what_is_stored_makes_a_page() -> None:
    text = tutorials_page.page()[tutorials_page.PAGE]
    assert "\n## guide\n" in text and "\n## tutorials/generative\n" in text
