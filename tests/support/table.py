"""The strategies and ways to train of the support table, and how each cell is run.

`scripts/support_page.py` stores which cells passed, and makes a page of the documentation of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.distribute.parameter_server.clusters import TOKEN
from tests.distribute.process_group.clusters import Cluster, running
from tests.ports import free_addresses

_LIMIT_SECONDS = 150


@dataclasses.dataclass(frozen=True)
class Row:
    """How a strategy is run in its cells.

    Attributes:
        strategy: its name in ``tf.distribute``.
        replicas: how many take part in a step.
        ran_on: devices and processes, for the page.
        rtol: how near a step's numbers are to one device's; None where steps go in no order, so
            that only where training ends is compared.
        epochs: so few that training is under way, or so many that it has ended.
    """

    strategy: str
    replicas: int
    ran_on: str
    rtol: float | None = 1e-4
    epochs: int = 3


ROWS = {
    "one_device": Row("OneDeviceStrategy", 1, "one device, which is not the first"),
    "mirrored": Row("MirroredStrategy", 2, "two devices"),
    "central_storage": Row("CentralStorageStrategy", 2, "two devices, variables on a third"),
    "multi_worker": Row("MultiWorkerMirroredStrategy", 2, "two processes"),
    "tpu": Row("TPUStrategy", 2, "two CPU devices in a TPU's place: never run on a TPU"),
    "parameter_server": Row(
        "ParameterServerStrategy", 1, "processes: a chief, two workers, two servers", None, 24
    ),
}
COLUMNS = {"fit": "Keras `fit`", "loop": "custom loop", "estimator": "Estimator"}
# Cells without a test, and why.
REFUSED: dict[tuple[str, str], str] = {}
EMPTY: dict[str, str] = {}


def rows_of(column: str) -> list[str]:
    """The strategies with a test of a column."""
    return [row for row in ROWS if (row, column) not in REFUSED]


def columns_of(row: str) -> list[str]:
    """The ways to train with a test of a strategy."""
    return [column for column in COLUMNS if (row, column) not in REFUSED]


def cell_test(row: str, column: str) -> str:
    """The test of a cell, as pytest names it."""
    return f"tests/support/test_{column}.py::test_{column}[{row}]"


def in_two_processes(folder: Path, columns: list[str]) -> dict[str, list[Any]]:
    """What two workers say of each column."""
    arguments: dict[str, Any] = {"columns": columns, "folder": str(folder / "written")}
    arguments["epochs"] = ROWS["multi_worker"].epochs
    cluster = Cluster("support", "tests.support.programs:worker", arguments)
    with running(folder, [cluster]) as run:
        run.wait_for(*run.names)
        ends = run.ended("support")
    for end in ends:
        assert end.status == 0, end.log[-4000:]
    return {column: [end.facts[column] for end in ends] for column in columns}


def with_parameter_servers(folder: Path, columns: list[str]) -> dict[str, list[Any]]:
    """What the chief of two workers and two parameter servers says of each column."""
    tasks = [("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1), ("chief", 0)]
    addresses = iter(free_addresses(len(tasks)))
    cluster: dict[str, list[str]] = {}
    for job, _ in tasks:
        cluster.setdefault(job, []).append(next(addresses))
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(_task(cluster, job, index, folder, columns)) for job, index in tasks
        ]
        said, errors = started[-1].communicate(timeout=_LIMIT_SECONDS)
        assert started[-1].returncode == 0, errors[-4000:]
        assert [task.wait(30) for task in started] == [0] * len(tasks)
    facts = json.loads(said.splitlines()[-1])
    return {column: [facts[column]] for column in columns}


@contextlib.contextmanager
def _task(
    cluster: dict[str, list[str]], job: str, index: int, folder: Path, columns: list[str]
) -> Iterator[subprocess.Popen[str]]:
    config = {"cluster": cluster, "task": {"type": job, "index": index}}
    environment = {
        **os.environ,
        "TF_CONFIG": json.dumps(config),
        "DRUMLINE_CLUSTER_TOKEN": TOKEN,
    }
    command = [sys.executable, "-m", "tests.support.programs", str(folder)]
    command += [str(ROWS["parameter_server"].epochs), *columns]
    pipe = subprocess.PIPE if job == "chief" else subprocess.DEVNULL
    task = subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
    try:
        yield task
    finally:
        task.kill()
        task.communicate()
