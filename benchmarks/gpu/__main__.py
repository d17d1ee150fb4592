"""Networks on a GPU, `drumline cnn` beside torchvision's in PyTorch: `python -m benchmarks.gpu`.

The contenders of a group live at the same time, each in a process of its own, and take turns: one
alone trains at any time, some steps, and then the next. JAX and PyTorch have to be there with their
builds for GPUs. `harness` measures on CPUs, where a process runs alone and is started for each
round; here starting and compiling would take nearly all of the time.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.groups import GROUPS
from benchmarks.harness.machine import describe_machine, versions

LIBRARIES = ("drumline", "jax", "jaxlib", "keras", "torch", "torchvision")


class Process:
    """A contender's process.

    Args:
        arguments: of `benchmarks.gpu.contender`.
        log: where its errors and lines go.
    """

    def __init__(self, arguments: list[str], log: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.contender", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def answer(self, seconds: float) -> dict[str, Any]:
        """Wait for its answer.

        Raises:
            RuntimeError: it ended, or does not answer in time.
        """
        try:
            line = self._lines.get(timeout=max(seconds, 0.1))
        except queue.Empty:
            raise RuntimeError(f"no answer in {seconds:.0f} s") from None
        if not line:
            raise RuntimeError(f"ended with exit code {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def begin(self) -> None:
        """Give it a turn.

        Raises:
            RuntimeError: it has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except OSError as error:
            raise RuntimeError(f"ended with exit code {self._process.wait()}") from error

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._reader.join()
        with self._process:  # closes its pipes
            self._process.wait()


def run_together(
    chosen: dict[str, int], steps: int, rounds: int, limit: float, logs: Path, at_once: bool
) -> dict[str, dict[str, dict[str, Any]]]:
    """Run groups whose contenders all live at the same time.

    Args:
        chosen: groups, and the rows of a step.
        steps: of a turn.
        rounds: turns of each contender.
        limit: seconds for all of it.
        logs: the folder of what the processes print.
        at_once: whether all compile at the same time, which is quicker; what XLA and cuDNN measure
            to choose kernels is then measured while others use the GPU.

    Returns:
        What each contender of each group found. One that failed has ``"failure"``, and the others
        continue.
    """
    ends = time.monotonic() + limit
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in chosen}
    processes: list[tuple[dict[str, Any], Process]] = []

    def asked(wanted: Callable[[dict[str, Any], Process], None]) -> None:
        for result, process in processes:
            if "failure" in result:
                continue
            try:
                wanted(result, process)
            except RuntimeError as error:
                result["failure"] = str(error)

    def begin(result: dict[str, Any], process: Process) -> None:
        process.begin()

    def collect(result: dict[str, Any], process: Process) -> None:
        answer = process.answer(ends - time.monotonic())
        if "rate" in answer:
            result["rates"].append(answer.pop("rate"))
        result |= answer

    def turn(result: dict[str, Any], process: Process) -> None:
        begin(result, process)
        collect(result, process)

    with contextlib.ExitStack() as block:
        for name, batch in chosen.items():
            log = block.enter_context(open(logs / f"{name}.log", "a", encoding="utf-8"))
            for each in GROUPS[name].contenders:
                arguments = [name, each, str(batch), str(steps), str(rounds)]
                process = Process(arguments, log)
                block.callback(process.close)
                found[name][each] = {"rates": []}
                processes.append((found[name][each], process))
        asked(collect)
        if at_once:
            asked(begin)
            asked(collect)
        else:
            asked(turn)
        for _ in range(rounds):
            asked(turn)
    return found


def _graphics() -> str:
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "none"
    return done.stdout.strip().replace("\n", "; ")


def main() -> None:
    """Run the groups that the arguments name, and write what they found after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"default: all of {', '.join(GROUPS)}")
    parser.add_argument("--steps", type=int, default=30, help="of a turn (30)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender (3)")
    parser.add_argument("--batch", type=int, help="in the place of the group's own")
    parser.add_argument(
        "--together", action="store_true", help="all groups at once: quicker, and needs the memory"
    )
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a group (600)")
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), help="folder (build/gpu)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "gpu": _graphics(),
        "machine": describe_machine(),
        "versions": versions(LIBRARIES),
        "steps": arguments.steps,
        "groups": {},
    }
    chosen = {name: arguments.batch or GROUPS[name].batch for name in arguments.groups or GROUPS}
    together = [chosen] if arguments.together else [{name: chosen[name]} for name in chosen]
    for each in together:
        began = time.monotonic()
        found = run_together(
            each,
            arguments.steps,
            arguments.rounds,
            arguments.limit,
            arguments.out,
            arguments.together,
        )
        print(f"{', '.join(each)}: {time.monotonic() - began:.0f} s")
        for name, contenders in found.items():
            result["groups"][name] = {"batch": each[name], "contenders": contenders}
            for contender, values in contenders.items():
                print(_line(name, contender, values), flush=True)
        (arguments.out / "gpu.json").write_text(json.dumps(result, indent=1) + "\n")


def _line(group: str, contender: str, values: dict[str, Any]) -> str:
    rates = values["rates"]
    middle = f"{statistics.median(rates):8.1f}" if rates else "       -"
    said = {key: value for key, value in values.items() if key not in ("rates", "ready")}
    return f"  {group:16}{contender:24}{middle}  {[round(rate) for rate in rates]} {said}"


if __name__ == "__main__":
    main()
