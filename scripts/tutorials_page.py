"""Write the page on TensorFlow's guides and tutorials, of what the runner of tutorials stored.

    python -m scripts.tutorials_page --store DRUMLINE.json TENSORFLOW.json

stores two results of ``python -m tests.tutorials.run DOCS --tabulate --out FILE``, one with
drumline's look-alike and one with TensorFlow (``--tf tensorflow --python INTERPRETER``), without
what changes from run to run. `scripts/docs_site.py` calls `page` when the documentation is built.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

PAGE = "reference/tensorflow_tutorials.md"
STORED = Path(__file__).resolve().parents[1] / "docs" / "tensorflow_tutorials.json"

_HEAD = """# TensorFlow's guides and tutorials

{count} notebooks of [tensorflow/docs](https://github.com/tensorflow/docs) were run cell by cell,
each in a process of its own, once with TensorFlow {tensorflow}, once with `drumline.compat.tf` in
its place and nothing else changed. **Of the {passed} cells that TensorFlow passes {both} pass here
({percent:.1f} %).** Of the others, which TensorFlow fails itself, {more} pass here.

A cell may take {seconds} s on two cores, a notebook {limit} s; what takes longer failed. What
notebooks download was made up with the original names, shapes and row counts, so that their models
learn other things than the originals. To run them again:
`make test-tutorials NOTEBOOKS=DIR TUTORIALS=--tabulate`, with a checkout of tensorflow/docs.

"""


def compact(drumline: Sequence[Any], tensorflow: Sequence[Any]) -> list[dict[str, Any]]:
    """Results of two runs as they are stored: which cells passed, and why the others failed here.

    Args:
        drumline: the look-alike's, as ``tests.tutorials.run`` writes them.
        tensorflow: TensorFlow's.

    Raises:
        ValueError: a notebook was run by one of them only.
    """
    theirs = {result["notebook"]: result for result in tensorflow}
    ours = {result["notebook"]: result for result in drumline}
    if theirs.keys() != ours.keys():
        raise ValueError(f"run by one of them only: {sorted(theirs.keys() ^ ours.keys())}")
    return [
        {
            "notebook": name,
            "cells": len(ours[name]["cells"]),
            "tensorflow": _passed(theirs[name]),
            "drumline": _passed(ours[name]),
            "failures": {
                str(cell["cell"]): _line(cell["error"])
                for cell in ours[name]["cells"]
                if cell["error"] is not None
            },
        }
        for name in sorted(ours, key=lambda name: name.rpartition("/"))
    ]


def _passed(result: Any) -> list[int]:
    return [cell["cell"] for cell in result["cells"] if cell["error"] is None]


def _line(error: str) -> str:
    """The first line of an error that says something, without addresses and folders."""
    lines = [line.strip() for line in error.splitlines()]
    kind, _, text = lines[0].partition(":")
    said = text.strip() or next((line for line in lines[1:] if line), "")
    plain = re.sub(r"0x[0-9a-f]+", "0x...", re.sub(r"(/[\w.+-]+){2,}/", ".../", said))
    return f"{kind}: {plain}"[:240]


def page(stored: Path = STORED) -> dict[str, str]:
    """The text of the page, by its place below ``docs``."""
    results = json.loads(stored.read_text(encoding="utf-8"))
    notebooks = results.pop("notebooks")
    both = sum(len(_both(each)) for each in notebooks)
    passed = sum(len(each["tensorflow"]) for each in notebooks)
    more = sum(len(set(each["drumline"]) - set(each["tensorflow"])) for each in notebooks)
    count = len(notebooks)
    numbers = {
        "count": count,
        "both": both,
        "passed": passed,
        "more": more,
        "percent": 100 * both / passed,
    }
    return {PAGE: _HEAD.format(**results, **numbers) + "".join(_sections(notebooks))}


def _both(notebook: Any) -> set[int]:
    return set(notebook["tensorflow"]) & set(notebook["drumline"])


def _sections(notebooks: Iterable[Any]) -> Iterable[str]:
    """A table for each folder, and the errors of cells that TensorFlow passes."""
    for folder, group in groupby(notebooks, lambda each: each["notebook"].rpartition("/")[0]):
        listed = list(group)
        yield f"## {folder}\n\n"
        yield "| notebook | cells | TensorFlow passes | of these here | others here |\n"
        yield "| --- | ---: | ---: | ---: | ---: |\n"
        for each in listed:
            both, here = len(_both(each)), len(each["drumline"])
            name = each["notebook"].rpartition("/")[2]
            counts = f"{each['cells']} | {len(each['tensorflow'])} | {both} | {here - both}"
            yield f"| `{name}` | {counts} |\n"
        yield "\n"
        missing = [
            f"| `{each['notebook'].rpartition('/')[2]}` | {cell} | {_cell(error)} |\n"
            for each in listed
            for cell, error in each["failures"].items()
            if int(cell) in each["tensorflow"]
        ]
        if missing:
            yield "| notebook | cell | what drumline says where TensorFlow passes |\n"
            yield "| --- | ---: | --- |\n"
            yield from missing
            yield "\n"


def _cell(text: str) -> str:
    """As code in a table."""
    return "`" + text.replace("`", "'").replace("|", "&#124;") + "`"


def main(arguments: Sequence[str] | None = None) -> None:
    """Store two results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", nargs=2, type=Path, required=True, metavar="FILE")
    parser.add_argument("--tensorflow", default="2.21", help="its version")
    parser.add_argument("--seconds", type=int, required=True, help="that a cell could take")
    parser.add_argument("--limit", type=int, required=True, help="seconds for a notebook")
    parser.add_argument("--to", type=Path, default=STORED)
    given = parser.parse_args(arguments)
    drumline, tensorflow = (json.loads(path.read_text()) for path in given.store)
    stored = {
        "tensorflow": given.tensorflow,
        "seconds": given.seconds,
        "limit": given.limit,
        "notebooks": compact(drumline, tensorflow),
    }
    given.to.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
