"""What README and the documentation say of the results: sentences, a table, and two charts.

All of it is computed from the stored results, and written by ``python -m benchmarks --render``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.report.markdown import table
from benchmarks.report.numbers import times
from benchmarks.report.rows import part_tables

matplotlib.use("Agg")

START, END = "<!-- figures: python -m benchmarks --render -->", "<!-- end of figures -->"
PAGE = Path("docs/benchmarks.md")
CHART = Path("docs/images/benchmarks.svg")
SMALL_CHART = Path("docs/images/benchmarks_small.svg")
TENSORFLOW = ("tf.data", "Keras on TensorFlow", "TensorFlow", "TensorFlow custom loop")
TRAINING = (
    "convnet_fit",
    "convnet_mirrored",
    "central_storage",
    "resnet_fit",
    "first_step",
    "custom_loop",
    "multi_worker_step",
)
METRICS = {"first_step": "first_batch"}
"""Of which a workload is about, where that is not its later epochs."""
OPERATIONS = "eager_operations"
LAYERS = ("string_lookup_layer", "text_vectorization_layer")
"""The work of ``text_vocabulary`` by layers: it counts once among the pipelines."""
IN_README = {
    "shuffle_batch": "shuffle, batch",
    "map_batch": "shuffle, map, batch",
    "parse_batches": "parse Example records",
    "jpeg_resize": "decode and resize JPEG",
    "csv_batches": "CSV, shuffle, batch",
    "convnet_fit": "Keras fit, convnet",
    "resnet_fit": "Keras fit, ResNet-50",
    "ps_embedding": "parameter server, embedding",
}

USUAL_COLOUR = "#30638e"
EXPERT_COLOUR = "#d1495b"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A workload beside TensorFlow: how many times as fast drumline is, mostly in later epochs.

    Attributes:
        name: the workload's.
        title: what it does.
        usual: drumline's speed over TensorFlow's as users write it: low, median, high.
        expert: the same over TensorFlow's fastest program; ``None`` if there is but one.
        expert_name: which program that is.
    """

    name: str
    title: str
    usual: tuple[float, float, float]
    expert: tuple[float, float, float] | None
    expert_name: str


def compare(results: Iterable[Mapping[str, Any]]) -> list[Comparison]:
    """Return the workloads that TensorFlow runs, too, in the order of ``results``."""
    found = []
    for result in results:
        summary = result["summary"]
        metric = METRICS.get(summary["workload"], "later")
        ratios = {
            entry["name"]: tuple(entry["ratios"][metric][key] for key in ("low", "median", "high"))
            for entry in summary["contenders"]
            if entry["speeds"] and entry["name"].startswith(TENSORFLOW)
        }
        usual = next((name for name in TENSORFLOW if name in ratios), None)
        if usual is None:
            continue
        others = {name: ratio for name, ratio in ratios.items() if name != usual}
        fastest = min(others, key=lambda name: others[name][1], default="")
        found.append(
            Comparison(
                summary["workload"],
                summary["title"],
                ratios[usual],
                others.get(fastest),
                fastest,
            )
        )
    return found


def sentences(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return three claims, each with its figures."""
    others = ("ps_", "cnn_", OPERATIONS, *TRAINING, *LAYERS)
    pipelines = [c for c in compare(results) if not c.name.startswith(others)]
    usual = [c.usual[1] for c in pipelines]
    expert = [c.expert[1] for c in pipelines if c.expert]
    slower = sum(ratio < 1 for ratio in expert)
    ratio = _ratios(results)
    return [
        f"**Input pipelines**: {times(_median(usual))} the speed of tf.data (median of "
        f"{len(pipelines)} pipelines as users write them, the least {times(min(usual))}). Beside "
        f"the fastest program for the same work in TensorFlow the median is "
        f"{times(_median(expert))}, and {slower} of {len(expert)} are faster than drumline.",
        f"**Training on CPUs**: Keras `fit` of the tutorial's convnet runs at "
        f"{times(ratio['convnet_fit', 'Keras on TensorFlow'])} the speed of Keras on TensorFlow, "
        f"{times(ratio['convnet_fit', 'Keras on JAX'])} that of Keras on JAX; ResNet-50 at "
        f"{times(ratio['resnet_fit', 'Keras on TensorFlow'])} that of Keras on TensorFlow.",
        f"**Several processes**: steps with parameter servers run at "
        f"{times(ratio['ps_embedding', 'TensorFlow'])} (an embedding) and "
        f"{times(ratio['ps_dense', 'TensorFlow'])} (dense layers) TensorFlow's speed; an "
        f"all-reduce of 1 MB between two processes at "
        f"{times(ratio['all_reduce_1MB', 'torch'])} that of PyTorch's Gloo.",
    ]


def figures(results: Sequence[Mapping[str, Any]], root: str) -> str:
    """Return what README says, between its marks.

    Args:
        results: as stored.
        root: what comes before paths to files of the repository.
    """
    claims = "".join(f"- {_wrapped(sentence)}\n" for sentence in sentences(results))
    note = _wrapped(
        f"Medians of later epochs on {_machines(results)}, 2 cores, with XLA's large buffers "
        "reused, which is off by default; [all results, the slower ones "
        f"included]({root}docs/benchmarks.md).",
        indent="",
    )
    return (
        f"{START}\n{claims}\n![drumline's speed relative to TensorFlow's]({root}{SMALL_CHART})\n\n"
        f"{note}\n{END}"
    )


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the documentation's page of benchmarks."""
    rows = [
        f"| `{c.name}` | {c.title} | {times(c.usual[1])} | "
        f"{f'{times(c.expert[1])} ({c.expert_name})' if c.expert else '-'} |\n"
        for c in compare(results)
    ]
    claims = "".join(f"- {sentence}\n" for sentence in sentences(results))
    return (
        "# Benchmarks\n\n"
        "Made from the results in `benchmarks/results` by `python -m benchmarks --render`; no "
        "number is typed by hand. Ratios are of later epochs, within a round in which the "
        "contenders ran one after another in processes of their own, on "
        f"{_machines(results)} with 2 cores. "
        "Machines drift, so only ratios count.\n\n"
        f"{claims}\n"
        f"![Speed relative to TensorFlow, by workload]({CHART.relative_to('docs')})\n\n"
        "Right of 1x drumline is faster. *As users write it* is the program of TensorFlow's "
        "guides; *fastest* is the best of the other programs for the same work, as gathering whole "
        "batches by hand.\n\n"
        "| workload | what it does | drumline / as users write it | drumline / fastest |\n"
        "| --- | --- | ---: | ---: |\n" + "".join(rows) + "\n"
        f"{_operations(results)}"
        "Grain, PyTorch, pyarrow, numpy and first epochs are in "
        "[all results](../benchmarks/results/README.md), which also name each workload's floor and "
        "aim. [How speed is measured](../benchmarks/README.md); `make bench` repeats it.\n\n"
        "drumline [reuses XLA's large buffers](distribution/cpu.md#large-buffers) in these "
        "programs, which it does not by default; training and large all-reduces are slower "
        "without.\n\n"
        "**What these are not:** measurements on GPUs, TPUs, or between machines. "
        "[One GPU](distribution/gpus.md#speed) was measured apart.\n"
    )


def _operations(results: Iterable[Mapping[str, Any]]) -> str:
    """The table of small operations of the look-alike; empty if they were not measured."""
    summaries = [r["summary"] for r in results if r["summary"]["workload"] == OPERATIONS]
    return "".join(
        "## Small operations of the look-alike\n\n"
        "`drumline.compat.tf` beside TensorFlow: the time of one call with arrays of 8 x 8, in "
        "which nearly all is what surrounds the computation. Above 1x drumline is faster.\n\n"
        f"{table(columns, rows)}\n"
        for summary in summaries
        for columns, rows in part_tables(summary)
    )


def digest(results: Sequence[Mapping[str, Any]]) -> str:
    """Return what tells charts of other results from these ones."""
    content = json.dumps([dataclasses.astuple(c) for c in compare(results)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def write(root: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Write the page, the charts, and the figures in README, below ``root``.

    Raises:
        ValueError: README lacks the marks.
    """
    readme = root / "README.md"
    (root / PAGE).write_text(page(results), encoding="utf-8")
    readme.write_text(with_figures(readme.read_text(encoding="utf-8"), results), encoding="utf-8")
    all_of_them = compare(results)
    draw(root / CHART, [(c.name, c) for c in all_of_them], digest(results))
    chosen = {c.name: c for c in all_of_them}
    small = [(label, chosen[name]) for name, label in IN_README.items() if name in chosen]
    draw(root / SMALL_CHART, small, digest(results))


def with_figures(readme: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Return README with the figures of ``results`` between its marks."""
    before, start, rest = readme.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"README.md lacks {START} or {END}.")
    return before + figures(results, "") + after


def draw(path: Path, rows: Sequence[tuple[str, Comparison]], mark: str) -> None:
    """Draw a chart of labelled comparisons as SVG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "drumline"}):
        figure = Figure(figsize=(8, 1.1 + 0.27 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for place, (_, comparison) in enumerate(reversed(rows)):
            marks = [(comparison.usual, USUAL_COLOUR, "o", 0.12)]
            if comparison.expert:
                marks.append((comparison.expert, EXPERT_COLOUR, "D", -0.12))
            for (low, median, high), colour, shape, shift in marks:
                axes.plot([low, high], [place + shift] * 2, color=colour, linewidth=3, alpha=0.35)
                axes.plot(median, place + shift, shape, color=colour, markersize=5)
        axes.set_yticks(range(len(rows)), [label for label, _ in reversed(rows)])
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
        axes.axvline(1.0, color="#555555", linewidth=1.2, zorder=0)
        axes.grid(color="#e6e8eb", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        axes.plot([], [], "o", color=USUAL_COLOUR, label="as users write it")
        axes.plot([], [], "D", color=EXPERT_COLOUR, label="fastest program for the same work")
        figure.suptitle("drumline's speed relative to TensorFlow's", fontweight="bold")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(
            path,
            format="svg",
            facecolor="white",
            metadata={"Date": None, "Creator": None, "Description": mark},
        )


def _ratios(results: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    return {
        (result["summary"]["workload"], entry["name"]): entry["ratios"]["later"]["median"]
        for result in results
        for entry in result["summary"]["contenders"]
        if entry["speeds"]
    }


def _machines(results: Iterable[Mapping[str, Any]]) -> str:
    names = sorted({result["machine"]["processor"] for result in results})
    return " and ".join(names)


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _wrapped(sentence: str, indent: str = "  ") -> str:
    lines, line = [], ""
    for word in sentence.split(" "):
        if line and len(line) + 1 + len(word) > 96:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])
