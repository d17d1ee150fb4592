"""What the record of the soak says: a table, and a picture of the time that each fault cost."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def table(lines: Sequence[dict[str, Any]]) -> str:
    """A Markdown table with a row for each kind of fault, and one for all.

    Args:
        lines: of the record, of one tree.
    """
    rows = [
        "| fault | struck | identical | different | failed | hung | seconds lost: median | most |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    found = _by_kind(lines)
    everything = [each for each_kind in found.values() for each in each_kind]
    for name, faults in [*sorted(found.items()), ("**all**", everything)]:
        ends = [end for end, _ in faults]
        counts = [str(ends.count(end)) for end in ("identical", "different", "failed", "hung")]
        lost = [seconds for end, seconds in faults if end == "identical"]
        median = f"{statistics.median(lost):.1f}" if lost else "-"
        most = f"{max(lost):.1f}" if lost else "-"
        rows.append(f"| {name} | {len(faults)} | {' | '.join(counts)} | {median} | {most} |")
    return "\n".join(rows)


def defects(lines: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each run that did not end with the bits of the undisturbed run."""
    references = {line["job"]: line["digests"] for line in lines if "reference" in line}
    found = []
    for line in lines:
        if line.get("end", "identical") == "identical":
            continue
        expected, digests = references.get(line["job"], {}), line["digests"]
        other = sorted(name for name in expected if expected[name] != digests.get(name))
        what = "; ".join(f"{each['did']} at step {each['at_step']}" for each in line["faults"])
        found.append(f"run {line['run']} of seed {line['run_seed']}, {line['job']}: {line['end']}")
        found[-1] += f" after {what or 'no fault'}" + f" ({', '.join(other)})" * bool(other)
    return found


def picture(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the seconds that each fault cost, by kind; what was not survived has a mark of its own.

    Args:
        lines: of the record, of one tree.
        path: where to; its ending says the format.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = sorted(_by_kind(lines).items())
    figure, axes = pyplot.subplots(figsize=(8, 0.4 * len(found) + 1.5), layout="constrained")
    for row, (_, faults) in enumerate(found):
        for survived, color, marker in ((True, "tab:blue", "o"), (False, "tab:red", "x")):
            lost = [max(0.1, each) for end, each in faults if (end == "identical") == survived]
            spread = [row + 0.3 * ((7 * n) % 11 / 11 - 0.5) for n in range(len(lost))]
            axes.scatter(lost, spread, 14, color=color, marker=marker, alpha=0.7, linewidths=1)
    saves = [line["save_seconds"] for line in lines if "run" in line]
    if saves:
        limit = statistics.median(saves) + 10
        label = f"a save's distance + 10 s: {limit:.1f}"
        axes.axvline(limit, color="gray", linestyle=":", label=label)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(found)), [f"{name} ({len(faults)})" for name, faults in found])
    axes.set_ylim(-0.6, max(0, len(found) - 1) + 0.6)
    axes.set_xlabel("seconds from the fault to the first new step (red: not the same bits)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _by_kind(lines: Sequence[dict[str, Any]]) -> dict[str, list[tuple[str, float]]]:
    """The ends and seconds lost of the faults of each kind."""
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for line in lines:
        for fault in line.get("faults", []):
            found[fault["kind"]].append((line["end"], fault["lost_seconds"]))
    return dict(found)
