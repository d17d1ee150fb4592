"""Interleaved rounds: every contender once, in order, then all again; turns in one process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.harness.measurement import Measurement
from benchmarks.harness.process import Failure, Run
from benchmarks.harness.workload import Contender, Scale

Launch = Callable[[str], Run]
Check = Callable[[Mapping[str, Measurement]], dict[str, str]]
Progress = Callable[[int, str, Run], None]


@dataclass
class Rounds:
    """What all rounds of a workload gave.

    Attributes:
        runs: by contender, one entry for each round; ``None`` where it did not finish.
        process_s: by contender, the time of each whole process that finished, in seconds.
        failures: the first failure of each contender that had one; it is not run again.
    """

    runs: dict[str, list[Measurement | None]] = field(default_factory=dict)
    process_s: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)


def run_rounds(
    contenders: Sequence[str],
    rounds: int,
    launch: Launch,
    check: Check,
    progress: Progress = lambda number, name, run: None,
) -> Rounds:
    """Runs the contenders in turn, ``rounds`` times over, and checks every round's work.

    Args:
        contenders: names in the order of a round.
        rounds: how many rounds.
        launch: does one run of a contender.
        check: finds the problems in the measurements of one round, by contender.
        progress: receives the number of the round (from 1), the contender and its run.
    """
    result = Rounds({name: [] for name in contenders}, {name: [] for name in contenders})
    for number in range(1, rounds + 1):
        finished: dict[str, Measurement] = {}
        for name in contenders:
            if name in result.failures:
                continue
            run = launch(name)
            if isinstance(run.outcome, Failure):
                result.failures[name] = run.outcome
            else:
                finished[name] = run.outcome
                result.process_s[name].append(run.process_s)
            progress(number, name, run)
        for name, problem in check(finished).items():
            result.failures[name] = Failure("wrong", problem)
            del finished[name]
        for name in contenders:
            result.runs[name].append(finished.get(name))
    for name, failure in result.failures.items():
        if failure.kind == "wrong":
            result.runs[name] = [None] * rounds
    return result


def by_turns(contenders: Sequence[Contender], scale: Scale, turns: int) -> list[Measurement]:
    """Run contenders in one process, in turns, each in the reverse order of the one before.

    What distinguishes two processes is left out so.

    Returns:
        A measurement for each: that of its first turn, with the later epochs of all turns. What the
        check looks at is that of the last turn.

    Raises:
        ValueError: ``turns`` is not positive.
    """
    if turns < 1:
        raise ValueError(f"contenders must have at least one turn, not {turns}")
    found: dict[str, list[Measurement]] = {contender.name: [] for contender in contenders}
    for turn in range(turns):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            found[contender.name].append(contender.run(scale))
    return [
        dataclasses.replace(
            taken[0],
            later_epochs_s=tuple(seconds for each in taken for seconds in each.later_epochs_s),
            evidence=taken[-1].evidence,
        )
        for taken in found.values()
    ]
