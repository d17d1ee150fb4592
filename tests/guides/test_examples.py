"""The examples in README and in the documentation, each page as one program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from drumline.cli import app

ROOT = Path(__file__).parents[2]
RUN = [
    "docs/training/checkpoints.md",
    "docs/training/custom_loops.md",
    "docs/data/index.md",
    "docs/data/named_datasets.md",
    "docs/training/estimators.md",
    "docs/index.md",
    "docs/inside/extending.md",
    "docs/distribution/model_parallel.md",
    "docs/data/preprocessing.md",
    "docs/reference/changes.md",
    "docs/start/from_grain.md",
    "docs/start/from_pytorch.md",
    "docs/start/from_tensorflow.md",
    "docs/start/tour.md",
    "docs/training/step_profiler.md",
    "docs/training/summaries.md",
    "docs/tensorflow/scripts.md",
    "docs/distribution/tpus.md",
]
NOT_RUN = {
    "docs/inside/architecture.md": "shows no program",
    "docs/concepts/map_segments.md": "shows a function that needs a file of records",
    "docs/distribution/cpu.md": "shows settings",
    "docs/data/performance.md": "shows parts of programs",
    "docs/data/service.md": "needs a Ray cluster",
    "docs/tensorflow/differences.md": "shows parts of programs",
    "docs/jobs/index.md": "needs a script, and starts a supervisor; tests/jobs runs the like",
    "docs/jobs/tutorial.md": "is followed by tests/jobs/test_jobs_tutorial.py",
    "docs/jobs/launch.md": "shows commands",
    "docs/distribution/multi_worker.md": "needs several processes; tests/examples runs the like",
    "docs/distribution/plan.md": "shows commands",
    "docs/distribution/parameter_servers.md": "needs processes; tests/guides runs the tutorial",
    "docs/security.md": "shows settings",
}


def blocks(page: str) -> list[str]:
    """Return the blocks of Python on a page that are to be run."""
    text = (ROOT / page).read_text()
    found = re.findall(r"(<!-- not run: [^>]+-->\s*)?^ *```python\n(.*?)^ *```", text, re.S | re.M)
    return [block for left_out, block in found if not left_out]


def run(code: str, folder: Path) -> None:
    """Run a program as a reader of the page does: on a machine that has one CPU device."""
    program = folder / "program.py"
    program.write_text(code)  # control flow is converted by its source
    done = subprocess.run(
        [sys.executable, program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", RUN)
def test_the_examples_of_a_page_run(page: str, tmp_path: Path) -> None:
    examples = blocks(page)
    assert examples
    run("\n".join(examples), tmp_path)


def test_every_page_with_a_program_is_listed() -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    with_python = {page for page in pages if "```python" in (ROOT / page).read_text()}
    assert with_python <= set(RUN) | set(NOT_RUN)
    assert set(RUN) | set(NOT_RUN) <= pages
    assert not set(RUN) & set(NOT_RUN)


def test_the_examples_of_readme_run(tmp_path: Path) -> None:
    data, training, profile = blocks("README.md")
    run(data, tmp_path)
    learns = """
history = model.history.history
assert history["loss"][0] < 3 and history["accuracy"][-1] > 0.94, history
assert strategy.num_replicas_in_sync == 2
"""
    shows = """
epoch = profiler.profile.epochs[-1]
assert abs(sum(epoch.parts.values()) - epoch.seconds) < 1e-6 and epoch.communication_known
assert epoch.parts["computing"] > 0 and epoch.parts["communication"] > 0, epoch
assert 0 < epoch.profiler_seconds < epoch.seconds
assert str(epoch).endswith(" % for the profile itself")
"""
    run(training + learns + profile + shows, tmp_path)


def test_commands_of_readme_are_at_the_top_of_install() -> None:
    install = (ROOT / "README.md").read_text().partition("## Install\n\n")[2]
    first, second = install.splitlines()[:2]
    assert first.startswith("    make demo ") and second.startswith("    make test ")


def test_the_reference_lists_all_commands() -> None:
    page = (ROOT / "docs" / "reference" / "index.md").read_text().partition("## Commands")[2]
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    listed = [name for cell in cells for name in re.findall(r"`(?:drumline )?([a-z-]+)`", cell)]
    group: Any = get_command(app)
    assert sorted(listed) == sorted(group.commands)


def test_lines_of_readme_fit() -> None:
    assert max(len(line) for line in (ROOT / "README.md").read_text().splitlines()) <= 100
