"""The process of one run: does the work, then writes its measurement as one line of JSON.

Contenders that take turns are run in one process, which writes a line for each.

Libraries write what they like to standard output; from the start it is therefore turned into
standard error, and only the result goes to the real one.
"""

from __future__ import annotations

import argparse
import os
import sys


def main() -> None:
    """Runs contenders of one workload: one once, or several by turns."""
    parser = argparse.ArgumentParser(prog="benchmarks.harness.child")
    parser.add_argument("workload")
    parser.add_argument("contenders", nargs="+", metavar="contender")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    result_fd = os.dup(1)
    os.dup2(2, 1)

    from benchmarks.harness.schedule import by_turns
    from benchmarks.workloads import WORKLOADS

    workload = WORKLOADS[arguments.workload]
    scale = workload.quick if arguments.quick else workload.full
    contenders = [workload.contender(name) for name in arguments.contenders]
    if len(contenders) == 1:
        measurements = [contenders[0].run(scale)]
    else:
        measurements = by_turns(contenders, scale, 1 if arguments.quick else workload.turns)
    sys.stdout.flush()
    with os.fdopen(result_fd, "w", encoding="utf-8") as result:
        result.writelines(each.to_json() + "\n" for each in measurements)


if __name__ == "__main__":
    main()
