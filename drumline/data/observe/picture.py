"""A profile as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from drumline.data.observe.profile import Profile


def save_picture(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Bars of the seconds that each stage worked and was waited for, the bottleneck in red."""
    stages = list(profile.stages)
    figure = Figure(figsize=(9, 1.2 + 0.45 * len(stages)), layout="constrained")
    axes = figure.subplots()
    places = range(len(stages))
    busy = [stage.busy for stage in stages]
    colors = ["tab:red" if stage is profile.bottleneck else "tab:blue" for stage in stages]
    axes.barh(places, busy, color=colors, label="busy")
    axes.barh(places, [s.waiting for s in stages], left=busy, color="lightgray", label="waited for")
    axes.set_yticks(places, ["  " * stage.depth + stage.name for stage in stages])
    axes.invert_yaxis()
    axes.set_xlabel(f"seconds, of {profile.seconds:.3f} (summed over workers)")
    axes.set_title(
        f"{profile.throughput:,.0f} elements a second; bottleneck: {profile.bottleneck.name}"
    )
    axes.legend(loc="lower right")
    figure.savefig(path, format="png", dpi=120)
