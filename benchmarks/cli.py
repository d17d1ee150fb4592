"""The command ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from benchmarks.harness.machine import available_processors, confined
from benchmarks.harness.process import (
    ROOT,
    Failure,
    Run,
    choose_interpreter,
    run_by_turns,
    run_child,
)
from benchmarks.harness.schedule import Rounds, run_rounds
from benchmarks.harness.workload import Workload
from benchmarks.report import curves, highlights, markdown, picture, store
from benchmarks.report.console import print_summary
from benchmarks.report.numbers import duration, rate
from benchmarks.report.summary import Summary, summarize
from benchmarks.workloads import WORKLOADS, ps_loss

RESULTS = ROOT / "benchmarks" / "results"
TRIAL_RESULTS = ROOT / "build" / "benchmarks"
WIDTH = 150


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the chosen workloads and writes the report.

    Returns:
        0 if every contender that ran did the work; 1 if one crashed, hung or gave other
        output. Contenders whose packages are missing are skipped and do not count.
    """
    arguments = parse(argv)
    with confined(arguments.cores):
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    out = arguments.out or (TRIAL_RESULTS if arguments.quick else RESULTS)
    if arguments.list:
        _list(console)
        return 0
    failed = False
    names = [] if arguments.render else arguments.workloads or list(WORKLOADS)
    for name in names:
        summary, rounds = run_workload(console, WORKLOADS[name], arguments)
        print_summary(console, summary)
        _print_failures(console, rounds)
        store.save(out, summary)
        failed |= bool(rounds.failures)
    render(out)
    console.print(f"Results are in {_relative(out)}", soft_wrap=True)
    return int(failed)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line; exits with an explanation if it is invalid."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Runs workloads, checks that all contenders did the same work, compares them.",
    )
    parser.add_argument("workloads", nargs="*", metavar="workload", help="default: all")
    parser.add_argument("--runs", type=int, default=5, help="rounds of each workload (5)")
    parser.add_argument(
        "--contenders", nargs="+", metavar="NAME", help="only these, as --list names them"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a small scale and one round, to see that everything works; judges nothing",
    )
    parser.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="confine everything to N processors (all that there are)",
    )
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="PATH",
        help="another interpreter to look for peers' packages in, preferred over this one "
        "for peers; may be given several times",
    )
    parser.add_argument("--out", type=Path, help="where results go (benchmarks/results)")
    parser.add_argument("--list", action="store_true", help="list workloads and contenders")
    parser.add_argument(
        "--render", action="store_true", help="rebuild the report from stored results"
    )
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    known = {c.name for workload in WORKLOADS.values() for c in workload.contenders}
    strangers = [name for name in arguments.contenders or [] if name not in known]
    if strangers:
        parser.error(f"no contender {', '.join(strangers)}; there are {', '.join(sorted(known))}")
    if arguments.runs < 1:
        parser.error(f"--runs must be at least 1, not {arguments.runs}")
    there = available_processors()
    if arguments.cores is not None and not 1 <= arguments.cores <= there:
        parser.error(f"--cores must be 1 to {there}, the processors there are")
    if arguments.quick:
        arguments.runs = 1
    return arguments


def run_workload(
    console: Console, workload: Workload, arguments: argparse.Namespace
) -> tuple[Summary, Rounds]:
    """Runs one workload's rounds and sums them up."""
    pythons: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for contender in workload.contenders:
        if arguments.contenders and contender.name not in arguments.contenders:
            continue
        candidates = [sys.executable]
        if "drumline" not in contender.requires:
            candidates = [*arguments.peer_python, sys.executable]
        python, reason = choose_interpreter(candidates, contender.requires)
        if python is None:
            skipped[contender.name] = reason
            console.print(escape(f"{workload.name}: skipping {contender.name}: {reason}"))
        else:
            pythons[contender.name] = python

    scale = workload.quick if arguments.quick else workload.full
    options = ["--quick"] if arguments.quick else []

    by_turns: dict[str, Run] = {}

    def launch(name: str) -> Run:
        if workload.turns and len(pythons) > 1:
            if name not in by_turns:
                python, seconds = next(iter(pythons.values())), workload.timeout_s
                by_turns.update(
                    run_by_turns(python, workload.name, list(pythons), options, seconds)
                )
            return by_turns.pop(name)
        return run_child(pythons[name], [workload.name, name, *options], workload.timeout_s)

    def progress(number: int, name: str, run: Run) -> None:
        place = f"{workload.name} {number}/{arguments.runs} {name}"
        console.print(escape(f"{place}: {_describe(workload, run)}"), highlight=False)

    rounds = run_rounds(
        list(pythons),
        arguments.runs,
        launch,
        lambda measurements: workload.check(scale, measurements),
        progress,
    )
    return summarize(workload, scale, rounds, skipped, arguments.quick), rounds


def render(out: Path) -> None:
    """Writes the Markdown page and the picture of all results stored in ``out``."""
    results = store.load_all(out, WORKLOADS)
    if results:
        (out / "README.md").write_text(markdown.render(results), encoding="utf-8")
        picture.draw([result["summary"] for result in results], out / "results.png")
    for result in results:
        if result["summary"]["workload"] == ps_loss.WORKLOAD.name:
            curves.draw_losses(result["summary"], out / f"{ps_loss.WORKLOAD.name}.png")
    if results and out.resolve() == RESULTS:
        highlights.write(ROOT, results)


def _describe(workload: Workload, run: Run) -> str:
    if isinstance(run.outcome, Failure):
        return f"{run.outcome.kind}: {run.outcome.detail}"
    return (
        f"first {rate(run.outcome.speed('first'))}, later {rate(run.outcome.speed('later'))} "
        f"{workload.unit}/s; import {duration(run.outcome.import_s)}, "
        f"process {duration(run.process_s)}"
    )


def _print_failures(console: Console, rounds: Rounds) -> None:
    for name, failure in rounds.failures.items():
        console.print(escape(f"{name}: {failure.kind}: {failure.detail}"), style="bold red")
        if failure.tail:
            console.print(escape(failure.tail), style="dim", highlight=False)


def _list(console: Console) -> None:
    for workload in WORKLOADS.values():
        console.print(escape(f"{workload.name}: {workload.title}"), style="bold")
        for contender in workload.contenders:
            console.print(escape(f"    {contender.name}: {contender.about}"), highlight=False)


def _relative(path: Path) -> Path:
    absolute = path.resolve()
    return absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else path
