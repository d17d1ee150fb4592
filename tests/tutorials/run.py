"""Run TensorFlow's tutorials with their import changed, and tabulate which cells pass.

    python -m tests.tutorials.run DOCS [NOTEBOOK ...] [--tabulate] [--tf MODULE] [--out FILE]

DOCS is a checkout of tensorflow/docs. Notebooks are run whole, with their own settings, each in a
process and a folder of its own; what they download is made up (`tests.tutorials.files`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from scripts.tutorials_page import remark
from tests.tutorials import files

ROOT = Path(__file__).resolve().parents[2]

DISTRIBUTION_AND_DATA = [
    *(
        f"tutorials/distribute/{name}"
        for name in (
            "custom_training",
            "input",
            "keras",
            "multi_worker_with_ctl",
            "multi_worker_with_estimator",
            "multi_worker_with_keras",
            "parameter_server_training",
            "save_and_load",
        )
    ),
    *(f"guide/{name}" for name in ("data", "data_performance", "distributed_training")),
]
"""The tutorials of which all cells are to pass."""

TABULATED = [
    *(
        f"tutorials/{name}"
        for name in (
            "quickstart",
            "images",
            "text",
            "structured_data",
            "generative",
            "load_data",
            "customization",
            "keras",
        )
    ),
    "guide",
]
"""Folders whose notebooks are run and tabulated, with the folders in them."""

EXCEPTED = {
    "tutorials/distribute/save_and_load": ("tensorflow_hub",),
    "tutorials/distribute/parameter_server_training": ("len(emb_layer.weights) == 2",),
}
"""Cells that may fail, by what is in them: another package, a variable's parts as variables."""


def notebooks(docs: Path, names: Sequence[str], tabulate: bool) -> list[Path]:
    """The notebooks to run.

    Raises:
        FileNotFoundError: one is not there.
    """
    site = docs if (docs / "tutorials").is_dir() else docs / "site" / "en"
    if tabulate and not names:
        return [path for folder in TABULATED for path in sorted((site / folder).rglob("*.ipynb"))]
    found = [site / f"{name}.ipynb" for name in names or DISTRIBUTION_AND_DATA]
    for path in found:
        if not path.is_file():
            raise FileNotFoundError(f"no notebook {path}: give a checkout of tensorflow/docs")
    return found


def name_of(notebook: Path) -> str:
    """As ``tutorials/keras/classification``."""
    parts = notebook.with_suffix("").parts
    first = max(i for i, part in enumerate(parts) if part in ("tutorials", "guide"))
    return "/".join(parts[first:])


def run_notebook(
    notebook: Path, data: Path, *, tf: str, python: str, seconds: int, limit: int
) -> dict[str, Any]:
    """Run a notebook in a process of its own.

    Args:
        data: the folder of made-up files.
        tf: the module that TensorFlow is imported from.
        python: the interpreter.
        seconds: how long a cell may take.
        limit: how long all of it may take.

    Returns:
        Name, seconds, for each cell its number, error and seconds, and whether Ctrl-C ended it.
    """
    began = time.monotonic()
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        results = Path(folder, "results.jsonl")
        home = Path(folder, "home")
        (home / "work").mkdir(parents=True)
        (home / "tmp").mkdir()
        path = [str(ROOT / "tests" / "tutorials" / "site"), str(ROOT)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "PATH": os.pathsep.join([str(Path(python).parent), os.environ["PATH"]]),
            "HOME": str(home),
            "TMPDIR": str(home / "tmp"),
            "KERAS_HOME": str(home / ".keras"),
            "MPLBACKEND": "Agg",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "TUTORIAL_DATA": str(data),
            "TUTORIAL_TF": tf,
        }
        environment.pop("TF_CONFIG", None)
        with open(Path(folder, "log"), "w+") as log:
            process = subprocess.Popen(
                [python, "-m", "tests.tutorials.child", str(notebook), str(results)]
                + ["--tf", tf, "--seconds", str(seconds)],
                cwd=home / "work",
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                process.wait(limit)
                ending = f"its process ended with {process.returncode}"
            except subprocess.TimeoutExpired:
                ending = f"the notebook took longer than {limit} s"
            except KeyboardInterrupt:
                ending, interrupted = "the run was interrupted", True
            finally:
                _end(process, home)
            log.seek(0)
            last = log.read()[-2000:]
        lines = results.read_text().splitlines() if results.exists() else []
    first, *ended = [json.loads(line) for line in lines] or [{"cells": []}]
    known = {cell["cell"]: cell for cell in ended}
    cells = [
        known.get(number, {"cell": number, "error": f"not run: {ending}", "seconds": 0.0})
        for number in first["cells"]
    ]
    whole = bool(cells) and all(cell["error"] is None for cell in cells)
    return {
        "notebook": name_of(notebook),
        "seconds": time.monotonic() - began,
        "cells": cells,
        "log": "" if whole else last,
        "interrupted": interrupted,
    }


def _end(process: subprocess.Popen[bytes], home: Path) -> None:
    """End a notebook's process, and all that it began, whoever are their parents now."""
    process.kill()
    process.wait()
    # Again, until there are none: they begin others while they are looked for.
    while found := _processes_of(home):
        for number in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def _processes_of(home: Path) -> list[int]:
    """The processes whose home is this folder."""
    mark = f"HOME={home}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        # Processes end while they are looked at, and others' are not shown.
        with contextlib.suppress(OSError):
            if mark in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
    return found


def excepted(notebook: Path, number: int) -> bool:
    """Whether a cell may fail."""
    code = [
        "".join(cell["source"])
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    return any(text in code[number] for text in EXCEPTED.get(name_of(notebook), ()))


def table_of(results: Sequence[dict[str, Any]]) -> Table:
    """Notebooks with how many cells passed."""
    table = Table("notebook", "cells passed", "of", "seconds")
    for result in results:
        passed = sum(cell["error"] is None for cell in result["cells"])
        table.add_row(
            *(result["notebook"], str(passed), str(len(result["cells"]))),
            f"{result['seconds']:.0f}",
        )
    return table


def failures_of(result: dict[str, Any]) -> list[str]:
    """A line for each cell that failed, with what to do where its error does not say it."""
    failed = [cell for cell in result["cells"] if cell["error"] is not None]
    notebook = {
        "notebook": result["notebook"],
        "failures": {str(cell["cell"]): cell["error"].splitlines()[0] for cell in failed},
    }
    return [
        f"{result['notebook']}, cell {cell['cell']}, line {cell.get('line') or '?'}: "
        f"{cell['error'].splitlines()[0][:300]}"
        + (f" ({known})" if (known := remark(notebook, cell["cell"])) else "")
        for cell in failed
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("docs", type=Path)
    parser.add_argument("names", nargs="*", help="as tutorials/keras/classification")
    parser.add_argument("--tabulate", action="store_true", help="all notebooks, not only eleven")
    parser.add_argument("--tf", default="drumline.compat.tf")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=int, default=1200, help="for a cell")
    parser.add_argument("--limit", type=int, default=3600, help="seconds for a notebook")
    parser.add_argument("--data", type=Path, help="a folder for made-up files, to be used again")
    parser.add_argument("--out", type=Path, help="results as JSON")
    given = parser.parse_args(arguments)
    try:
        chosen = notebooks(given.docs, given.names, given.tabulate)
    except FileNotFoundError as error:
        parser.error(str(error))
    console = Console()
    results: list[dict[str, Any]] = []
    # Ended by a signal it ends what it began, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="tutorial-data-") as made, Progress() as progress:
        data = (given.data or Path(made)).resolve()
        files.make(data)
        task = progress.add_task("notebooks", total=len(chosen))
        for notebook in chosen:
            progress.update(task, description=name_of(notebook))
            options = {"tf": given.tf, "python": given.python, "seconds": given.seconds}
            results.append(run_notebook(notebook, data, limit=given.limit, **options))
            progress.advance(task)
            if given.out is not None:
                given.out.write_text(json.dumps(results, indent=1) + "\n")
            if results[-1]["interrupted"]:
                break
    for result in results:
        for line in failures_of(result):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(table_of(results))
    cells = [
        (path, cell)
        for path, result in zip(chosen, results, strict=False)
        for cell in result["cells"]
    ]
    failed = [(path, cell["cell"]) for path, cell in cells if cell["error"] is not None]
    console.print(f"{len(cells) - len(failed)} of {len(cells)} cells passed.")
    empty = [result["notebook"] for result in results if not result["cells"]]
    for name in empty:
        console.print(f"{name} did not start.")
    if results[-1]["interrupted"]:
        console.print("Interrupted.")
        return 128 + signal.SIGINT
    return int(bool(empty) or any(not excepted(path, number) for path, number in failed))


if __name__ == "__main__":
    sys.exit(main())
