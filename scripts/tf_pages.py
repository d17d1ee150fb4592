"""Writes the pages on the names of `drumline.compat.tf`, of its table of symbols.

`scripts/docs_site.py` calls `pages` when the documentation is built.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from drumline.compat.check import Presence, presence
from drumline.compat.symbols import absent, table

PRESENT = "reference/tensorflow_names.md"
ABSENT = "reference/tensorflow_absent.md"

_ON_PRESENT = """# Names of TensorFlow that are there

`import drumline.compat.tf as tf` has **{there} of the {all} public names** of TensorFlow 2.21,
which are in {namespaces} namespaces; {different} of these differ in the way that is said here.
{keras} are Keras's own, {methods} are methods of tensors, datasets, variables and the like. Names
under `tf.compat.v2` are those without it. What is absent is listed on [another page]({absent}),
with what to use in its place; `python -m drumline.compat.check script.py` lists the names that a
script uses.

Arguments that are hints to TensorFlow's runtime, such as `name=` and `parallel_iterations=`, are
accepted and have no effect.
"""
_ON_ABSENT = """# Names of TensorFlow that are absent

{absent} of the {all} public names of TensorFlow 2.21 are not in `drumline.compat.tf`. For {uses} of
them there is an object to use; asking for a name gives an `AttributeError`, importing it an
`ImportError`, with the answer that is listed here. The others have one of these reasons:

| reason | names |
| --- | --- |
{reasons}

What is there is on [another page]({present}).
"""


def pages() -> dict[str, str]:
    """The text of each page, by its place below ``docs``."""
    public = table.tensorflow()
    methods = {f"{cls}.{name}" for cls, names in public.methods.items() for name in names}
    found = {name: presence(name) for name in sorted(public.names | methods)}
    there = [name for name, (kind, _) in found.items() if kind is not Presence.ABSENT]
    missing = [name for name, (kind, _) in found.items() if kind is Presence.ABSENT]
    of_keras = [name for name in there if table.find(name) is None and _is_of_keras(name)]
    numbers = {
        "all": len(found),
        "there": len(there),
        "absent": len(missing),
        "namespaces": len(public.namespaces) + 1,
        "different": sum(kind is Presence.DIFFERS for kind, _ in found.values()),
        "keras": len(of_keras),
        "methods": sum(name in methods for name in there),
    }
    return {
        PRESENT: _ON_PRESENT.format(**{**numbers, "absent": ABSENT.rpartition("/")[2]})
        + "".join(_present(path, names) for path, names in _by_namespace(there)),
        ABSENT: _absent_page(missing, numbers),
    }


def _is_of_keras(name: str) -> bool:
    return table.canonical(name).startswith("keras.")


def _by_namespace(names: list[str]) -> list[tuple[str, list[str]]]:
    def home(name: str) -> str:
        return name.rpartition(".")[0]

    listed = [name for name in names if not table.is_namespace(name)]
    return [(path, list(group)) for path, group in groupby(sorted(listed, key=home), home)]


def _title(path: str) -> str:
    return f"tf.{path}" if path else "tf"


def _present(path: str, names: list[str]) -> str:
    rows, others = [], []
    for name in names:
        entry = table.find(name)
        if entry is None:
            others.append(f"`{name.rpartition('.')[2]}`")
            continue
        last = name.rpartition(".")[2]
        where = ".".join(filter(None, (entry.module, entry.attribute)))
        rows.append(f"| `{last}` | `{where}` | {entry.since} | {_cell(entry.difference)} |\n")
    text = f"\n## {_title(path)}\n\n"
    if rows:
        text += "| name | implementation | since | difference |\n| --- | --- | --- | --- |\n"
        text += "".join(rows)
    if others:
        whose = "Keras's" if _is_of_keras(f"{path}.") else "Methods"
        text += f"\n{whose}: {', '.join(others)}.\n"
    return text


def _absent_page(names: list[str], numbers: dict[str, int]) -> str:
    answers = {name: absent.answer(table.canonical(name)) for name in names}
    reasons = Counter(answer.reason for answer in answers.values() if not answer.use)
    counts = "\n".join(
        f"| {absent.REASONS[key]} | {count} |" for key, count in reasons.most_common()
    )
    text = _ON_ABSENT.format(
        all=numbers["all"],
        absent=len(names),
        uses=len(names) - sum(reasons.values()),
        reasons=counts,
        present=PRESENT.rpartition("/")[2],
    )
    for path, group in _by_namespace(names):
        by_answer: dict[str, list[str]] = {}
        for name in group:
            answer = answers[name]
            use = f"`{answer.use}` {answer.note}".strip() if answer.use else ""
            why = absent.REASONS[answer.reason] if answer.reason else ""
            shown = "; ".join(filter(None, (why, f"use {use}" if use else "")))
            by_answer.setdefault(shown, []).append(f"`{name.rpartition('.')[2]}`")
        text += f"\n## {_title(path)}\n\n| names | in their place |\n| --- | --- |\n"
        text += "".join(f"| {', '.join(of)} | {_cell(use)} |\n" for use, of in by_answer.items())
    return text


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
