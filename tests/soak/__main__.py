"""Faults at random moments in random jobs, each of which has to end as if nothing had happened.

    python -m tests.soak --faults 300 --seed 1 --resume soak.jsonl
    python -m tests.soak --resume soak.jsonl --report --picture soak.png

A run trains one job and has one to four faults strike it. If it did not end with the bits of the
undisturbed run, what it left is kept in the folder of ``--keep``.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.soak import report
from tests.soak.faults import plan
from tests.soak.jobs import LOOPS, TOPOLOGIES, Job
from tests.soak.record import Record, differing, read, tree_digest
from tests.soak.runner import facilities, run

JOBS_OF_A_KIND = 2
"""How many jobs there are of each topology and loop; each has its undisturbed run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if all runs have ended as undisturbed."""
    options = _options().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # nothing is left
    written = read(options.resume)
    tree = written[-1]["tree"] if options.report and written else tree_digest()
    record = Record(options.resume, tree, options.seed)
    if not options.report:
        soak(record, options)
    lines = record.lines()
    print(report.table(lines))
    for defect in report.defects(lines):
        print(defect)
    if options.picture is not None:
        report.picture(lines, options.picture)
    return 1 if report.defects(lines) else 0


def soak(record: Record, options: argparse.Namespace) -> None:
    """Run until the record has as many faults as asked for."""
    has = facilities()
    for missing in sorted({"mounts", "namespaces", "compiler"} - set(has)):
        print(f"this machine has no {missing}: the faults that need them are left out")
    topologies = [each for each in options.topology if each != "hosts" or "namespaces" in has]
    while (done := record.faults()) < options.faults:
        number = record.next_run()
        draw = random.Random(f"{options.seed} {number}")
        job = Job.draw(
            draw.choice(topologies), draw.choice(options.loop), draw.randrange(JOBS_OF_A_KIND)
        )
        expected = record.reference(job)
        if expected is None:
            undisturbed = run(job, cache=options.cache)
            if undisturbed.end != "identical":
                raise SystemExit(f"{job.name} fails undisturbed:\n{undisturbed.why}")
            record.add_reference(job, undisturbed)
            expected = undisturbed.digests
        faults = plan(job, draw, has)
        keep = options.keep / f"{options.seed}-{number}-{job.name}"
        outcome = run(job, faults, expected, cache=options.cache, keep=keep)
        record.add_run(number, job, outcome, len(faults))
        what = "; ".join(f"{each.did} (lost {each.lost_seconds:.1f} s)" for each in outcome.struck)
        other = ", ".join(differing(expected, outcome.digests))
        said = f"{outcome.end}{f' ({other})' * (outcome.end == 'different')}"
        total = done + len(outcome.struck)
        print(f"{total} run {number} {job.name}: {said} after {what or 'no fault'}", flush=True)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.soak", description=__doc__.split("\n")[0])
    parser.add_argument("--faults", type=int, default=300, help="how many are to strike in all")
    parser.add_argument("--seed", type=int, default=0, help="what all that is random follows from")
    parser.add_argument("--resume", type=Path, required=True, help="the record, which is added to")
    says = "only say what the record says of the tree that it was written for last"
    parser.add_argument("--report", action="store_true", help=says)
    parser.add_argument("--picture", type=Path, help="where to draw the time lost")
    parser.add_argument("--topology", nargs="+", choices=TOPOLOGIES, default=list(TOPOLOGIES))
    parser.add_argument("--loop", nargs="+", choices=LOOPS, default=list(LOOPS))
    place = Path(tempfile.gettempdir(), "drumline-soak")
    parser.add_argument("--cache", type=Path, default=place / "cache", help="of compiled programs")
    parser.add_argument("--keep", type=Path, default=place / "kept", help="what failed runs left")
    return parser


if __name__ == "__main__":
    sys.exit(main())
