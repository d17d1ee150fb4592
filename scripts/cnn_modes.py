"""Draw what each mode of `drumline cnn` sends between devices: docs/images/cnn_modes.svg.

    python scripts/cnn_modes.py [PNG]

A second picture, to be looked at, is written where a path is given.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

PICTURE = Path(__file__).parents[1] / "docs/images/cnn_modes.svg"
INK, GRADIENTS, WEIGHTS, HOST = "#333333", "#b5482a", "#2a62b5", "#eeeeee"
WIDE, TALL = 2.3, 0.75

Point = tuple[float, float]


class Panel:
    """One mode's picture, ten units wide and six high.

    Args:
        axes: to draw on.
        title: the mode.
        about: what is sent, in a line.
    """

    def __init__(self, axes: Any, title: str, about: str) -> None:
        self._axes = axes
        axes.set_xlim(0, 10)
        axes.set_ylim(0, 6)
        axes.axis("off")
        axes.set_title(title, fontsize=10, family="monospace", color=INK, loc="left")
        axes.text(0, -0.1, about, fontsize=8, color=INK, va="top")

    def host(self, left: float, right: float, name: str) -> None:
        """A host, from the left to the right."""
        shape = FancyBboxPatch(
            (left, 0.25), right - left, 5.4, boxstyle="round,pad=0.1", fc=HOST, ec="none"
        )
        self._axes.add_patch(shape)
        self._axes.text(left + 0.05, 5.3, name, fontsize=8, color=INK)

    def box(self, at: Point, lines: Sequence[str], fill: str = "white") -> None:
        """A device or a task, around a point."""
        x, y = at
        shape = FancyBboxPatch(
            (x - WIDE / 2, y - TALL / 2), WIDE, TALL, boxstyle="round,pad=0.1", fc=fill, ec=INK
        )
        self._axes.add_patch(shape)
        self._axes.text(x, y, "\n".join(lines), fontsize=7, color=INK, ha="center", va="center")

    def arrow(self, start: Point, end: Point, color: str, bend: float = 0.0) -> None:
        """What travels."""
        self._axes.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="-|>",
                mutation_scale=9,
                color=color,
                lw=1.4,
                connectionstyle=f"arc3,rad={bend}",
                shrinkA=0,
                shrinkB=0,
            )
        )


def devices(panel: Panel, places: Sequence[Point], text: str, first: int = 0) -> None:
    for number, place in enumerate(places, first):
        panel.box(place, [f"device {number}", text.format(number)])


SQUARE = ((2.5, 4.5), (7.5, 4.5), (7.5, 1.5), (2.5, 1.5))


def ring(panel: Panel) -> None:
    """From each corner of the square to the next."""
    half, low = WIDE / 2 + 0.15, TALL / 2 + 0.15
    panel.arrow((2.5 + half, 4.5), (7.5 - half, 4.5), GRADIENTS)
    panel.arrow((7.5, 4.5 - low), (7.5, 1.5 + low), GRADIENTS)
    panel.arrow((7.5 - half, 1.5), (2.5 + half, 1.5), GRADIENTS)
    panel.arrow((2.5, 1.5 + low), (2.5, 4.5 - low), GRADIENTS)


def independent(axes: Any) -> None:
    panel = Panel(axes, "independent", "Nothing is sent, and weights drift apart.")
    devices(panel, SQUARE, "weights {}")


def replicated(axes: Any) -> None:
    panel = Panel(axes, "replicated", "Each device sends 2 (N-1)/N G.")
    devices(panel, SQUARE, "weights")
    ring(panel)


def parameter_server(axes: Any) -> None:
    panel = Panel(
        axes,
        "parameter_server",
        "Each device receives G of weights; the devices sum gradients,\n2 (N-1)/N G each, and one "
        "sends G home.",
    )
    panel.box((5, 5), ["home", "weights, slots"], fill=HOST)
    places = [(1.4, 1.7), (5, 1.7), (8.6, 1.7)]
    devices(panel, places, "copies")
    top, under = 1.7 + TALL / 2 + 0.15, 5 - TALL / 2 - 0.15
    for x, _ in places:
        panel.arrow((5 + 0.18 * (x - 5), under), (x + 0.15, top), WEIGHTS)
    panel.arrow((0.7, top), (3.7, 5), GRADIENTS, bend=-0.25)
    half = WIDE / 2 + 0.15
    for left, right in ((1.4, 5), (5, 8.6)):
        panel.arrow((left + half, 1.7), (right - half, 1.7), GRADIENTS)
    low = 1.7 - TALL / 2 - 0.15
    panel.arrow((8.6, low), (1.4, low), GRADIENTS, bend=-0.12)


def collective_all_reduce(axes: Any) -> None:
    panel = Panel(
        axes,
        "collective_all_reduce",
        "Each device sends 2 (N-1)/N G, over all hosts' devices;\n"
        "distributed_all_reduce: by --all_reduce_spec.",
    )
    panel.host(0.9, 4.7, "host 0")
    panel.host(5.3, 9.1, "host 1")
    devices(panel, [SQUARE[0], SQUARE[3]], "weights")
    devices(panel, [SQUARE[1], SQUARE[2]], "weights", first=2)
    ring(panel)


def servers(axes: Any) -> None:
    panel = Panel(
        axes,
        "distributed_replicated",
        "Each worker sends G of gradients, a share to each server, and receives\n"
        "G of weights; all at a barrier. parameter_server over hosts: or each by itself.",
    )
    panel.host(0.9, 4.7, "host 0")
    panel.host(5.3, 9.1, "host 1")
    low, top = 1.5 + TALL / 2 + 0.15, 4.5 - TALL / 2 - 0.15
    for number, x in enumerate((2.75, 7.25)):
        panel.box((x, 4.5), [f"ps {number}", "weights, half"], fill="white")
        panel.box((x, 1.5), [f"worker {number}", "copies"])
        for to in (2.75, 7.25):
            side = 0.0 if to == x else (0.3 if to > x else -0.3)
            panel.arrow((x + side - 0.12, low), (to - side - 0.12, top), GRADIENTS)
            panel.arrow((to - side + 0.12, top), (x + side + 0.12, low), WEIGHTS)


def main() -> None:
    """Write the picture."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "drumline"})
    figure = Figure(figsize=(8.4, 9.2))
    places = figure.subplots(3, 2)
    drawn = [independent, replicated, parameter_server, collective_all_reduce, servers]
    for axes, draw in zip(places.flat, drawn, strict=False):
        draw(axes)
    legend = places.flat[5]
    legend.set_xlim(0, 10)
    legend.set_ylim(0, 6)
    legend.axis("off")
    for y, color, text in ((4.5, GRADIENTS, "gradients"), (3.7, WEIGHTS, "weights")):
        legend.plot([1, 2.4], [y, y], color=color, lw=1.6)
        legend.text(2.7, y, text, fontsize=8, color=INK, va="center")
    legend.text(1, 2.8, "N devices; G bytes of gradients, or of weights", fontsize=8, color=INK)
    figure.tight_layout(h_pad=2.0)
    figure.savefig(PICTURE, metadata={"Date": None})
    for path in sys.argv[1:]:
        figure.savefig(path, dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
