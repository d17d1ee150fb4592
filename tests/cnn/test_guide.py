"""The guide's commands, letter for letter: each prints its header, and trains with few rows.

GPUs are logical CPU devices, and the two hosts are network namespaces with the guide's addresses.
The thorough ones take as much memory as eight devices have copies: VGG16's 16 to 18 GB.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cnn.commands import (
    ADDRESSES,
    ALONE,
    LAST,
    PROGRAM,
    ROOT,
    TOGETHER,
    TOKEN,
    TOTAL,
    environment_with,
    losses,
    started,
)
from tests.cnn.inputs.record_files import fake
from tests.network_namespaces import two_hosts

FEW = ["--batch_size=1", "--num_batches=3"]
CHEAP = ["--model=lenet", "--num_warmup_batches=2"]
SECONDS = 3000
STAND = "the logical CPU devices cpu:{} to cpu:{} stand for gpu:0 to gpu:7"
LAST_ONES = [
    LAST.replace("--job_name=worker", f"--job_name={job}").replace("index=0", f"index={index}")
    for index in (0, 1)
    for job in ("worker", "ps")
]
"""The last command, and the three that the guide leaves to the reader."""


def model_of(command: str) -> str:
    return command.partition("--model=")[2].split()[0]


def header_of(process: subprocess.Popen[str]) -> str:
    """What the process prints until the end of its header."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("====="):
            return "".join(lines)
    raise AssertionError("".join(lines))


@contextlib.contextmanager
def ended(*processes: subprocess.Popen[str]) -> Iterator[None]:
    """Kill what still runs at the end of the block."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def check_header(out: str, command: str) -> None:
    assert f"Model:       {model_of(command)}" in out, out
    per_device = command.partition("--batch_size=")[2].split()[0]
    assert f"{8 * int(per_device)} global\n             {per_device} per device" in out
    assert STAND.format(*((1, 8) if "device=cpu" in command else (0, 7))) in out


@pytest.mark.thorough
@pytest.mark.parametrize("command", ALONE)
def test_a_command_of_one_host_prints_its_header(command: str) -> None:
    process = started(command.split())
    with ended(process):
        check_header(header_of(process), command)


def train_alone(command: str, *more: str) -> None:
    process = started([*command.split(), *FEW, *more])
    out = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0, out[-3000:]
    assert "Batch size:  8 global\n             1 per device" in out and TOTAL.search(out)
    assert losses(out)


@pytest.mark.thorough
@pytest.mark.parametrize("command", ALONE)
def test_a_command_of_one_host_trains(command: str, tmp_path: Path) -> None:
    more = []
    if "--data_dir" in command:  # a path of the guide's machine
        folder = tmp_path / "imagenet/train"
        folder.mkdir(parents=True)
        fake(folder, "train")
        more = [f"--data_dir={folder}"]
    train_alone(command, *more)


def test_a_command_of_one_host_trains_a_small_model() -> None:
    train_alone(ALONE[3], *CHEAP)


def run_on_two_hosts(commands: Sequence[str], *more: str) -> list[str]:
    """What the four processes print, which all have to end with 0."""
    popen: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with two_hosts(addresses=ADDRESSES) as hosts:
        processes = [
            hosts.run(
                int(command[-1]),
                [*PROGRAM, *command.split(), *FEW, *more],
                environment_with(TOKEN),
                cwd=ROOT,
                **popen,
            )
            for command in commands
        ]
        outs = [process.communicate(timeout=SECONDS)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outs
    return outs


def check_together(outs: Sequence[str]) -> None:
    assert "Batch size:  16 global\n             1 per device" in outs[0]
    assert "Devices:     ['cpu:0', 'cpu:1', 'cpu:2'" in outs[0]
    assert TOTAL.search(outs[0]) and losses(outs[0]), outs[0]
    for out, name in zip(
        outs[1:], ("parameter server 0", "worker 1", "parameter server 1"), strict=True
    ):
        assert f"Running {name}\nWorker 0, which leads, has ended the run." in out


@pytest.mark.thorough
@pytest.mark.parametrize("commands", [TOGETHER, LAST_ONES], ids=["resnet50", "inception3"])
def test_the_commands_of_two_hosts_train(commands: Sequence[str]) -> None:
    outs = run_on_two_hosts(commands)
    check_together(outs)
    assert f"Model:       {model_of(commands[0])}" in outs[0]


def test_the_commands_of_two_hosts_train_a_small_model() -> None:
    check_together(run_on_two_hosts(TOGETHER, *CHEAP))


LAUNCH = [sys.executable, "-m", "drumline_command", "launch", "--prefix-output"]


@pytest.mark.parametrize(
    ("roles", "flags"),
    [
        (["--workers", "2", "--ps", "1"], ["--variable_update=parameter_server"]),
        (["--chief", "--workers", "1", "--ps", "1"], ["--variable_update=distributed_replicated"]),
        (["--workers", "2"], ["--variable_update=collective_all_reduce"]),
    ],
    ids=["parameter servers", "a chief", "collectives"],
)
def test_a_launcher_says_who_takes_part(roles: list[str], flags: list[str], tmp_path: Path) -> None:
    command = [*LAUNCH, "--log-dir", str(tmp_path), *roles, "--", *PROGRAM, *FEW, *CHEAP, *flags]
    process = subprocess.run(
        command, cwd=ROOT, env=environment_with({}), capture_output=True, text=True, timeout=SECONDS
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "Batch size:  2 global" in process.stdout and "total images/sec: " in process.stdout
