"""What to change in a script, each with what it would do: of a formula, or planned itself.

A change that is planned costs a compilation. It is planned as a user would plan it: by the command,
in a process of its own, with the options that `Suggestion.options` names.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.plan.hardware import ChipGroup, Known
from drumline.plan.memory import Memory
from drumline.plan.planner import FoundStep

_POLICY = "mixed_bfloat16"
_MARGIN = 7 / 8
"""Of the rows that just fit by a formula, how many are tried: not all else grows with the rows."""
_WORTH_TRYING = 1.25

MEMORY = "memory of a chip"
RATE = "rows a second, at best"
STEP = "step, at best"


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """A change, and what it would do.

    Attributes:
        name: the change.
        options: of ``drumline plan``, which plan it; none for what cannot be planned so.
        effects: what a plan says with it, by name: `MEMORY`, `STEP`, `RATE`.
        fits: whether it then fits; None where that is not known.
        refused: why it could not be planned; "" if it was.
    """

    name: str
    options: tuple[str, ...]
    effects: Mapping[str, Known]
    fits: bool | None = None
    refused: str = ""


def by_formula(
    found: FoundStep, memory: Memory, largest: Known | None, policy: str
) -> tuple[Suggestion, ...]:
    """Return the changes whose effect on memory a formula gives, without compiling anything.

    Args:
        found: the step.
        memory: what it takes.
        largest: the largest batch that fits; None where it is not known.
        policy: Keras's dtype policy in the script.
    """
    parts = {name: known.value for name, known in memory.parts}
    replicas = found.strategy.num_replicas_in_sync
    total = memory.total.value
    suggestions = []

    def suggest(name: str, options: tuple[str, ...], saved: float, why: str) -> None:
        if saved <= 0 or not total:
            return
        left = Known(total - saved, "B", "model", why)
        # What a formula says at best is no promise that it fits.
        no = bool(memory.available.value) and left.value > memory.available.value
        suggestions.append(Suggestion(name, options, {MEMORY: left}, False if no else None))

    if found.can_be_cut and found.is_fit:
        of_slots = parts.get("optimizer", 0.0) * (1 - 1 / replicas)
        suggest(
            "shard='optimizer'",
            ("--shard", "optimizer"),
            of_slots,
            f"of the optimizer's slots 1/{replicas}, all else as it is",
        )
        of_weights = parts.get("parameters", 0.0) * (1 - 1 / replicas)
        suggest(
            "shard='parameters'",
            ("--shard", "parameters"),
            of_slots + of_weights,
            f"at best: of weights and slots 1/{replicas}, nothing for weights while they are used",
        )
    if policy == "float32":
        suggest(
            f"dtype policy {_POLICY}",
            ("--dtype-policy", _POLICY),
            parts.get("arrays made in the step", 0.0) / 2,
            "at best: all that is made in the step in half the bytes",
        )
    rows = _smaller(found, memory)
    if memory.fits is False and rows:
        suggestions.append(
            Suggestion(f"a global batch of {rows:,} rows", ("--batch", str(rows)), {}, None)
        )
    elif largest is not None and largest.value > found.rows * _WORTH_TRYING:
        rows = _rounded(largest.value * _MARGIN, replicas)
        suggestions.append(
            Suggestion(f"a global batch of {rows:,} rows", ("--batch", str(rows)), {}, None)
        )
    return tuple(suggestions)


def _smaller(found: FoundStep, memory: Memory) -> int:
    """Rows that may fit where the script's do not; 0 if there are none."""
    replicas = found.strategy.num_replicas_in_sync
    part = 0.5
    if memory.total.value and memory.available.value:
        part = min(part, _MARGIN * memory.available.value / memory.total.value)
    return _rounded(found.rows * part, replicas) if found.rows > replicas else 0


def _rounded(rows: float, replicas: int) -> int:
    return max(replicas, int(rows) // replicas * replicas)


def planned(
    found: FoundStep,
    modelled: Sequence[Suggestion],
    policy: str,
    script: Path,
    arguments: Sequence[str],
    group: ChipGroup,
    rows: int | None,
    say: Callable[[str], None],
) -> tuple[Suggestion, ...]:
    """Return the changes with what plans of them say, each of which compiles a step.

    Args:
        found: the step.
        modelled: what `by_formula` found.
        policy: Keras's dtype policy in the script.
        script: of the user.
        arguments: its command line.
        group: what to plan for.
        rows: of the global batch, in the place of the script's.
        say: is called with what happens.
    """
    options: list[tuple[str, tuple[str, ...]]] = []
    if found.can_be_cut:
        options += [("shard='optimizer'", ("--shard", "optimizer"))]
        options += [("shard='parameters'", ("--shard", "parameters"))]
    if policy == "float32":
        options.append((f"dtype policy {_POLICY}", ("--dtype-policy", _POLICY)))
    options.append(("rematerialization", ("--rematerialize",)))
    options += [(each.name, each.options) for each in modelled if "--batch" in each.options]
    made = []
    for name, chosen in options:
        say(f"Planning {name}")
        given = () if rows is None or "--batch" in chosen else ("--batch", str(rows))
        made.append(_planned(name, chosen, (*given, *chosen), script, arguments, group))
    return tuple(made)


def _planned(
    name: str,
    named: tuple[str, ...],
    options: Sequence[str],
    script: Path,
    arguments: Sequence[str],
    group: ChipGroup,
) -> Suggestion:
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "plan.json"
        command = [sys.executable, "-m", "drumline_command", "plan", "--on", group.name, *options]
        command += ["--no-input", "--json", str(page), "--", str(script), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip() or f"exit code {done.returncode}"
            return Suggestion(name, named, {}, None, said.removeprefix("drumline plan: "))
        return _read(name, named, json.loads(page.read_text()))


def _read(name: str, options: tuple[str, ...], page: Mapping[str, Any]) -> Suggestion:
    if not page["trains"]:  # the script came to an evaluation, and raised before it trained
        said = "; ".join(page["sections"][0]["notes"])
        return Suggestion(name, options, {}, None, said)
    rows: dict[str, Known] = {}
    for section in page["sections"]:
        for row in section["rows"]:
            known = Known(row["value"], row["unit"], row["how"], row["source"])
            rows.setdefault(row["name"], known)
    effects = {}
    for effect, row in ((MEMORY, "together"), (STEP, STEP), (RATE, RATE)):
        if row in rows and rows[row].value:
            effects[effect] = rows[row]
    return Suggestion(name, options, effects, page["fits"])
