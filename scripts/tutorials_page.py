"""Write the page on TensorFlow's guides and tutorials, of what the runner of tutorials stored.

    python -m scripts.tutorials_page --store DRUMLINE.json TENSORFLOW.json

stores two results of ``python -m tests.tutorials.run DOCS --tabulate --out FILE``, one with
drumline's look-alike and one with TensorFlow (``--tf tensorflow --python INTERPRETER``), without
what changes from run to run.

    python -m scripts.tutorials_page --update DRUMLINE.json

puts notebooks that were run again in the place of what is stored of them; TensorFlow's results
stay, and so do the limits, which must be the same. `scripts/docs_site.py` calls `page` when the
documentation is built.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

PAGE = "reference/tensorflow_tutorials.md"
STORED = Path(__file__).resolve().parents[1] / "docs" / "tensorflow" / "tutorials.json"

_HEAD = """# TensorFlow's guides and tutorials

{count} notebooks of [tensorflow/docs](https://github.com/tensorflow/docs) were run cell by cell,
each in a process of its own, once with TensorFlow {tensorflow}, once with `drumline.compat.tf` in
its place and nothing else changed. **Of the {passed} cells that TensorFlow passes {both} pass here
({percent:.1f} %).** Of the others, which TensorFlow fails itself, {more} pass here.

A cell counts by its end alone: it passed if it raised nothing. All cells count, those too that show
what TensorFlow's graphs, converters or runtime do, and those that expect an error. Two of these
fail because drumline does what TensorFlow refuses (a gradient in `guide/autodiff`, a second
optimizer in `guide/function`); to raise there would make the look-alike worse for the sake of a
count, so they stay among the failures.

A cell may take {seconds} s on two cores, a notebook {limit} s; what takes longer failed. What
notebooks download was made up with the original names, shapes and row counts, so that their models
learn other things than the originals. To run them again:
`make test-tutorials NOTEBOOKS=DIR TUTORIALS=--tabulate`, with a checkout of tensorflow/docs.

"""


REMARKS = {
    ("guide/autodiff", 30): "the cell expects an error: TensorFlow has no gradient of "
    "adjust_contrast, and here there is one",
    ("guide/function", 56): "the cell expects an error: TensorFlow refuses a function that needs "
    "new variables, as those of another optimizer, and here it works",
    ("guide/intro_to_graphs", 22): "a function raises for an index out of bounds whether or not "
    "its result is used: remove the call, or mend the index",
    ("guide/jax2tf", 1): "jax2tf makes TensorFlow's functions of JAX's, and so needs TensorFlow: "
    "call the functions of JAX's, and save them by jax.export",
    ("tutorials/distribute/parameter_server_training", 12): "the cell counts a variable's parts as "
    "weights, and a variable in parts is one weight here: look at emb_layer.weights[0].variables",
    ("tutorials/distribute/save_and_load", 11): "TensorFlow Hub is a package of its own, which "
    "takes TensorFlow: use tf.keras.layers.TFSMLayer(path, call_endpoint='serving_default')",
    ("tutorials/generative/pix2pix", 45): "cell 42, which trains 40,000 steps, had been ended by "
    "the time limit: give it more time, by --seconds",
}
"""What a user is to know of cells whose error does not say it: notebook, number, and what."""
_FOLLOWS = (
    ("NameError", " is not defined"),
    ("OSError", "SavedModel file does not exist"),
    ("NotFoundError", "Failed to find any matching files"),
    ("AttributeError", "has no attribute 'predict'"),
)


def remark(notebook: Mapping[str, Any], cell: int) -> str:
    """What to know of a cell that failed beside its error; empty if the error says what to do.

    Args:
        notebook: as `compact` stores it.
        cell: the number of one that TensorFlow passes.
    """
    known = REMARKS.get((notebook["notebook"], cell))
    if known is not None:
        return known
    error = notebook["failures"][str(cell)]
    if "took longer than" in error:
        return "it is slower than TensorFlow here: give it more time, by --seconds and --limit"
    kind, _, text = error.partition(":")
    before = [int(each) for each in notebook["failures"] if int(each) < cell]
    if before and any(kind == name and part in text for name, part in _FOLLOWS):
        return f"follows from cell {_origin(notebook, max(before))}"
    return ""


def _origin(notebook: Mapping[str, Any], cell: int) -> int:
    """The last cell that failed, up to this one, and not because another one did."""
    earlier = [int(each) for each in notebook["failures"] if int(each) < cell]
    kind, _, text = notebook["failures"][str(cell)].partition(":")
    follows = any(kind == name and part in text for name, part in _FOLLOWS)
    return _origin(notebook, max(earlier)) if follows and earlier else cell


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


def updated(stored: Sequence[Any], drumline: Sequence[Any]) -> list[dict[str, Any]]:
    """What is stored, with notebooks that the look-alike ran again.

    Args:
        stored: of `compact`.
        drumline: results of the look-alike.

    Raises:
        ValueError: a notebook is not among those that are stored.
    """
    again = {result["notebook"]: result for result in drumline}
    unknown = again.keys() - {each["notebook"] for each in stored}
    if unknown:
        raise ValueError(f"TensorFlow did not run {', '.join(sorted(unknown))}: use --store")
    results = []
    for each in stored:
        result = again.get(each["notebook"])
        if result is not None:
            failed = {str(c["cell"]): _line(c["error"]) for c in result["cells"] if c["error"]}
            each = {**each, "drumline": _passed(result), "failures": failed}
        results.append(each)
    return results


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
            f"| `{each['notebook'].rpartition('/')[2]}` | {cell} | {_cell(error)} "
            f"| {remark(each, int(cell))} |\n"
            for each in listed
            for cell, error in each["failures"].items()
            if int(cell) in each["tensorflow"]
        ]
        if missing:
            yield "| notebook | cell | what drumline says where TensorFlow passes | remark |\n"
            yield "| --- | ---: | --- | --- |\n"
            yield from missing
            yield "\n"


def _cell(text: str) -> str:
    """As code in a table."""
    return "`" + text.replace("`", "'").replace("|", "&#124;") + "`"


def main(arguments: Sequence[str] | None = None) -> None:
    """Store two results."""
    parser = argparse.ArgumentParser(description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--store", nargs=2, type=Path, metavar="FILE")
    chosen.add_argument("--update", type=Path, metavar="FILE")
    parser.add_argument("--tensorflow", default="2.21", help="its version")
    parser.add_argument("--seconds", type=int, help="that a cell could take")
    parser.add_argument("--limit", type=int, help="seconds for a notebook")
    parser.add_argument("--to", type=Path, default=STORED)
    given = parser.parse_args(arguments)
    if given.update is not None:
        known = json.loads(given.to.read_text(encoding="utf-8"))
        known["notebooks"] = updated(known["notebooks"], json.loads(given.update.read_text()))
        given.to.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        return
    if given.seconds is None or given.limit is None:
        parser.error("--store needs --seconds and --limit")
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
