"""A profile as a picture."""

from __future__ import annotations

import os
import textwrap
from typing import IO, TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from drumline.data.observe.table import label

if TYPE_CHECKING:
    from drumline.data.observe.profile import Profile, StageProfile


_WIDEST = 44
_LINES = 2


def save_picture(profile: Profile, path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Bars of the seconds that each stage worked and was waited for, the bottleneck in red."""
    stages = list(profile.stages)
    figure = Figure(figsize=(9, 1.8 + 0.45 * len(stages)), layout="constrained")
    axes = figure.subplots()
    busy = [stage.busy for stage in stages]
    slowest = profile.bottleneck if profile.delivered and profile.conclusive else None
    colors = ["tab:red" if stage is slowest else "tab:blue" for stage in stages]
    places = range(len(stages))
    axes.barh(places, busy, color=colors)
    axes.barh(places, [stage.waiting for stage in stages], left=busy, color="lightgray")
    axes.set_yticks(places, list(map(_label, stages)))
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xlabel(
        f"seconds, summed over a stage's workers; {profile.seconds:.3f} s went by meanwhile"
    )
    rate = profile.throughput
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    limit = profile.bottleneck.name if profile.conclusive else "not known, most was made before"
    found = f"{shown} elements a second; bottleneck: {limit}"
    axes.set_title(found if profile.delivered else "the dataset is empty")
    meanings = {"busy": "tab:blue", "busy, the bottleneck": "tab:red", "waited for": "lightgray"}
    handles = [Patch(color=color, label=label) for label, color in meanings.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    figure.savefig(path, format="png", dpi=120)


def _label(stage: StageProfile) -> str:
    """What the stage is, so that two maps can be told apart."""
    what = label(stage)
    text = what if what != stage.name else f"{stage.name}: {stage.how}"
    return textwrap.fill(text, _WIDEST, max_lines=_LINES, placeholder=" ...")
