"""The jobs of the soak: what is trained, over which processes, and how it is started.

A job is small and everything in it that may be random is drawn from seeds, so that its undisturbed
run gives the same bits each time. What it saves is on a disk of its own (`Disk`), which faults may
fill, forbid to write or damage.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

Topology = Literal["single", "mirrored", "workers", "hosts", "servers"]
"""One process with one device; with two; two workers of one launcher; two workers on two hosts, in
network namespaces, with a launcher each; a chief, a worker and a parameter server."""

Loop = Literal["custom", "fit"]
TOPOLOGIES: tuple[Topology, ...] = get_args(Topology)
LOOPS: tuple[Loop, ...] = get_args(Loop)

ROOT = Path(__file__).parents[2]
JOB_VARIABLE, FOLDER_VARIABLE = "SOAK_JOB", "SOAK_FOLDER"

MOST_RESTARTS = 8
"""What a launcher may do by itself; the faults of a run are fewer."""

_OPTIONS: dict[Topology, list[str]] = {
    "single": ["--workers", "1"],
    "mirrored": ["--workers", "1"],
    "workers": ["--workers", "2"],
    "hosts": ["--workers", "1", "--nodes", "2"],
    "servers": ["--chief", "--workers", "1", "--ps", "1"],
}
_TASKS: dict[Topology, tuple[str, ...]] = {
    "single": ("worker:0",),
    "mirrored": ("worker:0",),
    "workers": ("worker:0", "worker:1"),
    "hosts": ("worker:0", "worker:1"),
    "servers": ("chief:0", "worker:0", "ps:0"),
}


@dataclasses.dataclass(frozen=True)
class Job:
    """A training that a run of the soak disturbs.

    Attributes:
        topology: see `Topology`.
        loop: Keras's ``fit`` with `BackupAndRestore`, or a loop with `CheckpointManager`.
        seed: of the data, the initial values, the shuffle, the augmentation and the dropout.
        augment: whether examples are changed at random in a `map`.
        shuffle: whether they are shuffled.
        dropout: whether the model has dropout.
        normalize: whether it has batch normalization.
        optimizer: ``"adam"`` or ``"sgd"`` with momentum.
        save_every: steps from one save to the next.
        epochs: how many.
        steps: in an epoch.
        step_seconds: how long a step takes besides its computation.
    """

    topology: Topology
    loop: Loop
    seed: int
    augment: bool = True
    shuffle: bool = True
    dropout: bool = True
    normalize: bool = True
    optimizer: str = "adam"
    save_every: int = 5
    epochs: int = 4
    steps: int = 12
    step_seconds: float = 0.1

    @classmethod
    def draw(cls, topology: Topology, loop: Loop, seed: int) -> Job:
        """A job of these kinds; the same for the same seed."""
        draw = random.Random(f"{topology} {loop} {seed}")
        return cls(
            topology=topology,
            loop=loop,
            seed=draw.randrange(1000),
            augment=draw.random() < 0.8,
            shuffle=draw.random() < 0.8,
            dropout=topology != "servers" and draw.random() < 0.8,
            normalize=topology != "servers" and draw.random() < 0.6,
            optimizer=draw.choice(["adam", "sgd"]),
            save_every=draw.choice([3, 5, 7]),
        )

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The job that `to_json` wrote."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """The job as a line of text."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @property
    def name(self) -> str:
        """A short name, which no other job has."""
        digest = hashlib.sha256(self.to_json().encode()).hexdigest()
        return f"{self.topology}-{self.loop}-{digest[:6]}"

    @property
    def total_steps(self) -> int:
        """Steps of the whole training."""
        return self.epochs * self.steps

    @property
    def tasks(self) -> tuple[str, ...]:
        """The processes that a fault may hit, as ``"worker:0"``."""
        return _TASKS[self.topology]

    @property
    def has_several_processes(self) -> bool:
        """Whether one process notices that another one has stopped."""
        return len(self.tasks) > 1

    def command(self, logs: Path, host: int = 0, rendezvous: str = "") -> list[str]:
        """What starts the job on a host, again and again until it ends with 0."""
        nodes = ["--node-rank", str(host), "--rendezvous", rendezvous] if rendezvous else []
        restarts = ["--max-restarts", str(MOST_RESTARTS)]
        launch = [sys.executable, "-m", "drumline_command", "launch", *_OPTIONS[self.topology]]
        training = [sys.executable, "-m", "tests.soak.training"]
        return [*launch, *nodes, *restarts, "--log-dir", str(logs), "--", *training]


@dataclasses.dataclass(frozen=True)
class Step:
    """A step that the training has taken: its number from 1, what came out, and when."""

    number: int
    value: str
    time: float


class Folder:
    """What a run leaves: all but the disk lies beside it, where no fault reaches.

    Args:
        path: made if absent.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = path / "disk"
        self.disk.mkdir(parents=True, exist_ok=True)

    def write_step(self, step: Step) -> None:
        """Add a step; half a line is written at most if the process is killed."""
        with (self.path / "steps").open("a") as file:
            file.write(json.dumps(dataclasses.asdict(step)) + "\n")

    def steps(self) -> list[Step]:
        """All steps, those that were taken again included."""
        return [Step(**line) for line in self._lines("steps")]

    def set_gate(self, number: int | None) -> None:
        """Let the job take no step beyond `number` until the gate is elsewhere; None opens it."""
        part = self.path / "gate.part"
        part.write_text("" if number is None else str(number))
        part.rename(self.path / "gate")

    def wait_at_gate(self, number: int) -> None:
        """Wait before step `number` while the gate is before it."""
        while (text := self._gate()) and int(text) < number:
            time.sleep(0.01)

    def _gate(self) -> str:
        try:
            return (self.path / "gate").read_text()
        except FileNotFoundError:
            return ""

    def write_start(self, task: str, pid: int) -> None:
        """Add a process that has started."""
        with (self.path / "starts").open("a") as file:
            file.write(json.dumps({"task": task, "pid": pid}) + "\n")

    def pids(self) -> dict[str, int]:
        """The latest process of each task."""
        return {line["task"]: line["pid"] for line in self._lines("starts")}

    def starts(self) -> int:
        """How many processes have started."""
        return sum(1 for _ in self._lines("starts"))

    def write_result(self, task: str, digests: dict[str, str]) -> None:
        """Leave the digests of what a process has in the end, whole or not at all."""
        part = self.path / f"result-{task}.part"
        part.write_text(json.dumps(digests))
        part.rename(self.path / f"result-{task}.json")

    def result(self) -> dict[str, str]:
        """The digests of all processes, and of the steps with all their repetitions."""
        found = {}
        for path in sorted(self.path.glob("result-*.json")):
            task = path.stem.removeprefix("result-")
            digests = json.loads(path.read_text())
            found |= {f"{task} {name}": digest for name, digest in digests.items()}
        steps = sorted({(step.number, step.value) for step in self.steps()})
        return {**found, "steps": digest_of(repr(steps).encode())}

    def _lines(self, name: str) -> Iterator[Any]:
        path = self.path / name
        if path.exists():
            for line in path.read_bytes().split(b"\n"):
                try:
                    yield json.loads(line)
                except ValueError:  # empty, or its writer was killed
                    continue


def digest_of(*parts: bytes) -> str:
    """The SHA-256 of some parts, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
