"""The process of one run: does the work, then writes its measurement as one line of JSON.

Libraries write what they like to standard output; from the start it is therefore turned into
standard error, and only the result goes to the real one.
"""

from __future__ import annotations

import argparse
import os
import sys


def main() -> None:
    """Runs one contender of one workload once."""
    parser = argparse.ArgumentParser(prog="benchmarks.harness.child")
    parser.add_argument("workload")
    parser.add_argument("contender")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    result_fd = os.dup(1)
    os.dup2(2, 1)

    from benchmarks.workloads import WORKLOADS

    workload = WORKLOADS[arguments.workload]
    scale = workload.quick if arguments.quick else workload.full
    measurement = workload.contender(arguments.contender).run(scale)
    sys.stdout.flush()
    with os.fdopen(result_fd, "w", encoding="utf-8") as result:
        result.write(measurement.to_json() + "\n")


if __name__ == "__main__":
    main()
