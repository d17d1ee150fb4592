"""The record of the soak: a file of JSON lines, to which each run adds its own when it has ended.

``{"reference": job, "digests": ...}`` is an undisturbed run, ``{"run": number, "faults": ...}`` one
with faults. Each says the commit, the digest of ``drumline/`` and ``rust/``, and the seed. Runs of
other commits count together as long as these trees are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.soak.jobs import ROOT, Job
from tests.soak.runner import Outcome

_TREES = ("drumline", "rust")


def tree_digest(root: Path = ROOT) -> str:
    """The SHA-256 of the sources in ``drumline/`` and ``rust/``: names and contents."""
    digest = hashlib.sha256()
    for tree in _TREES:
        for path in sorted((root / tree).rglob("*")):
            inside = path.relative_to(root)
            if {"__pycache__", "target"} & set(inside.parts) or path.suffix == ".so":
                continue
            if path.is_file():
                data = path.read_bytes()
                digest.update(f"{inside} {len(data)}\0".encode() + data)
    return digest.hexdigest()[:16]


def commit() -> str:
    """The commit that is checked out, with a ``+`` if files were changed since."""
    head, changes = (
        subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        for command in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", *_TREES])
    )
    return head + "+" * bool(changes)


class Record:
    """The file, for one tree and one seed.

    Args:
        path: made when something is added.
        tree: of `tree_digest`.
        seed: the soak's.
    """

    def __init__(self, path: Path, tree: str, seed: int) -> None:
        self._path = path
        self._tree = tree
        self._seed = seed
        self._commit = commit()

    def lines(self) -> list[dict[str, Any]]:
        """All lines of this tree, of whatever seed."""
        return [line for line in read(self._path) if line["tree"] == self._tree]

    def faults(self) -> int:
        """How many faults have struck in runs of this tree."""
        return sum(len(line["faults"]) for line in self.lines() if "run" in line)

    def next_run(self) -> int:
        """The number of the first run of this seed that is not there."""
        numbers = {line["run"] for line in self.lines() if line.get("run_seed") == self._seed}
        return min(set(range(len(numbers) + 1)) - numbers)

    def reference(self, job: Job) -> dict[str, str] | None:
        """The digests of the undisturbed run of `job`, if there was one."""
        for line in self.lines():
            if line.get("reference") == json.loads(job.to_json()):
                digests: dict[str, str] = line["digests"]
                return digests
        return None

    def add_reference(self, job: Job, outcome: Outcome) -> None:
        """Add an undisturbed run."""
        self._add(
            {
                "reference": json.loads(job.to_json()),
                "job": job.name,
                "digests": outcome.digests,
                "seconds": round(outcome.seconds, 1),
            }
        )

    def add_run(self, number: int, job: Job, outcome: Outcome, planned: int) -> None:
        """Add a run with faults."""
        self._add(
            {
                "run": number,
                "run_seed": self._seed,
                "job": job.name,
                "topology": job.topology,
                "loop": job.loop,
                "end": outcome.end,
                "planned": planned,
                "starts": outcome.starts,
                "seconds": round(outcome.seconds, 1),
                "save_seconds": round(job.save_every * job.step_seconds, 2),
                "faults": [
                    {
                        **each.fault.to_dict(),
                        "did": each.did,
                        "at_step": each.step,
                        "lost_seconds": round(each.lost_seconds, 2),
                    }
                    for each in outcome.struck
                ],
                "digests": outcome.digests,
                **({"why": outcome.why} if outcome.why else {}),
            }
        )

    def _add(self, line: dict[str, Any]) -> None:
        whole = {"commit": self._commit, "tree": self._tree, **line}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(whole) + "\n")
            file.flush()
            os.fsync(file.fileno())


def read(path: Path) -> list[dict[str, Any]]:
    """All lines; one whose writer was killed is left out."""
    found = []
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found


def differing(expected: dict[str, str], digests: dict[str, str]) -> Sequence[str]:
    """The names of what is not as it was undisturbed."""
    names = sorted(expected.keys() | digests.keys())
    return [name for name in names if expected.get(name) != digests.get(name)]
