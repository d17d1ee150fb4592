"""Scripts planned for TPUs that are not there, by libtpu; each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plan.training_scripts import FIT, LOOP, script

pytest.importorskip("libtpu", reason="needs libtpu: pip install 'drumline[plan]'")

PARAMETERS = 20 * 64 + 64 + 64 * 10 + 10


def plan(directory: Path, text: str, on: str, *arguments: str, options: Any = ()) -> dict[str, Any]:
    (directory / "train.py").write_text(text)
    command = [sys.executable, "-m", "drumline_command", "plan", "--on", on, *options]
    command += ["--json", "plan.json", "train.py", *arguments]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=600, env=os.environ
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((directory / "plan.json").read_text())
    return found


def rows(found: dict[str, Any], title: str) -> dict[str, dict[str, Any]]:
    (part,) = (each for each in found["sections"] if each["title"].startswith(title))
    return {row["name"]: row for row in part["rows"]}


def test_fit_on_a_slice(tmp_path: Path) -> None:
    found = plan(
        tmp_path, script(FIT), "tpu-v5e-8", options=("--epoch-rows", "1024", "--price", "2")
    )
    assert (found["replicas"], found["rows"], found["fits"]) == (8, 128, True)
    head, step = rows(found, "fit of"), rows(found, "A step on")
    assert step["computing"]["how"] == "compiler's cycles" and 0 < step["computing"]["value"] < 1e-3
    seconds = 1024 / 128 * step["step"]["value"]
    assert head["an epoch, at best"]["value"] == pytest.approx(seconds)
    assert head["cost of an epoch, at best"]["value"] == pytest.approx(seconds / 3600 * 8 * 2)
    assert 0 < head["share of the chips' peak"]["value"] < 0.1
    assert head["largest batch that fits"]["value"] > 1e6
    (reduced,) = rows(found, "Collectives")
    assert reduced.startswith("all-reduce, ") and "Ring" in reduced
    scaling = rows(found, "Scaling efficiency")
    assert len(scaling) == 11 and scaling["1 chips"]["value"] == 1
    assert any("last" in name and "backward" in name for name in rows(found, "Slowest layers"))


def test_a_custom_loop_that_does_not_fit_names_what_fills_memory(tmp_path: Path) -> None:
    text = script(LOOP).replace("Dense(64,", "Dense(8192,")
    found = plan(tmp_path, text, "tpu-v5e-4", "run", options=("--batch", "4000000"))
    assert found["fits"] is False and found["rows"] == 4_000_000
    memory = rows(found, "Memory")
    assert memory["together"]["value"] > memory["a chip has"]["value"] > 15e9
    assert memory["parameters"]["value"] == 4 * (20 * 8192 + 8192 + 81920 + 10)
    largest = next(iter(rows(found, "Largest arrays").items()))
    assert "f32[1000000,8192]" in largest[0] and largest[1]["value"] == 4e6 * 8192


def test_attention_is_planned_with_the_kernel_that_a_tpu_gets(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "published" / "maxtext_layer.py").read_text()
    found = plan(tmp_path, text, "tpu-v5e-1", "small")
    slowest = " ".join(rows(found, "Slowest layers"))
    assert "splash_mha" in slowest
    assert found["replicas"] == 1 and found["fits"]
    (part,) = (each for each in found["sections"] if each["title"].startswith("A step on"))
    computing = next(row for row in part["rows"] if row["name"] == "computing")
    assert "attention's kernels by their operations" in computing["source"]


def test_a_whole_step_of_maxtext_s_passes_through(tmp_path: Path) -> None:
    """Embedding, decoders, logits, loss, update and collectives: no term is added by hand."""
    text = (Path(__file__).parent / "published" / "maxtext_model.py").read_text()
    found = plan(tmp_path, text, "tpu-v5e-4", "small")
    width, hidden, words = 256, 1024, 512
    layer = 4 * width * width + 3 * width * hidden
    weights = 4 * (2 * layer + 2 * words * width)
    memory = rows(found, "Memory")
    assert memory["parameters"]["value"] == weights / 4, "cut over 4 chips"
    assert memory["optimizer"]["value"] == pytest.approx(2 * weights / 4, abs=16)
    gathers = [name for name in rows(found, "Collectives") if name.startswith("all-gather")]
    assert len(gathers) >= 2, "for the loss, and again for its gradient"
    assert all(" of bf16, " in name for name in gathers), "rounded before they travel"
    slowest = rows(found, "Slowest layers")
    assert any("decoder_1" in name and "backward" in name for name in slowest)
    assert any("adam" in name for name in slowest)
    computing = rows(found, "A step on")["computing"]
    assert "attention's kernels by their operations" in computing["source"]


def test_two_slices_have_a_part_between_them(tmp_path: Path) -> None:
    found = plan(tmp_path, script(FIT).replace("Dense(64,", "Dense(4096,"), "tpu-v5e-2x4")
    assert found["replicas"] == 8
    names = list(rows(found, "Collectives"))
    assert any("between slices" in name for name in names), names
