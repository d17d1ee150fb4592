"""Variables that are planned by their shapes: large ones, and those that are cut over replicas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import pytest

from drumline.keras.step.train_step import TrainStep
from drumline.plan import stand_ins
from drumline.plan.hardware import group_of
from drumline.plan.plan import Plan, find_step, plan_script
from drumline.training.cut_values import row_length
from tests.plan.training_scripts import FIT, LOOP, MIRRORED, script

CPUS = group_of("cpu-2x2")
SIZES = (20 * 64, 64, 64 * 10, 10)


def planned(directory: Path, text: str, *arguments: str) -> Plan:
    (directory / "train.py").write_text(text)
    return plan_script(directory / "train.py", arguments, CPUS)


def parts(plan: Plan) -> dict[str, float]:
    return {name: known.value for name, known in plan.memory.parts}


@pytest.mark.parametrize("shard", ["optimizer", "parameters"])
def test_what_is_cut_counts_a_part_on_each_chip(shard: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, script(FIT, MIRRORED.replace("()", f"(shard={shard!r})")))
    found, row = parts(plan), 4 * sum(row_length(size, 4) for size in SIZES)
    assert found["optimizer"] == 2 * row + 4 + 4, "slots, iterations, learning rate"
    assert found["parameters"] == (row if shard == "parameters" else 4 * sum(SIZES))
    # What the compiler says of the step's arguments is what the shapes say.
    assert "padding of these on the chip" not in found
    kinds = {each.kind for each in plan.collectives}
    assert {"reduce-scatter", "all-gather"} <= kinds


@pytest.mark.parametrize("shard", [None, "optimizer", "parameters"])
def test_the_planned_program_is_the_one_that_a_real_step_runs(
    shard: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_ins, "LARGEST_VALUE", 0)
    options = "()" if shard is None else f"(shard={shard!r})"
    text = script(FIT, MIRRORED.replace("()", options))
    (tmp_path / "train.py").write_text(text)
    found, _ = find_step(tmp_path / "train.py", (), CPUS)
    program = found.lower(found.rows).as_text()

    lowered: list[str] = []

    def run(step: TrainStep, state: Any, batch: Any) -> Any:
        lowered.append(step.lowered(state, batch).as_text())
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainStep, "__call__", run)
    devices = [f"cpu:{number}" for number in range(4)]
    text = text.replace(MIRRORED.replace("()", options), options.replace("(", f"X({devices}, "))
    with pytest.raises(KeyboardInterrupt):
        exec(text.replace("X(", "dl.distribute.MirroredStrategy("), {})
    assert program == lowered[0]


@pytest.mark.parametrize("kind", ["run", "function", "staged", "fit"])
def test_without_any_values_all_is_as_with_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    keras.utils.clear_session()  # it numbers models
    text = script(FIT if kind == "fit" else LOOP)
    before = planned(tmp_path, text, kind)
    keras.utils.clear_session()
    monkeypatch.setattr(stand_ins, "LARGEST_VALUE", 0)
    # A script may read a variable, assign it, and save the model: these are zeros.
    reads = (
        "import os\nweights = model.get_weights()\nassert not np.any(weights[0])\n"
        "model.set_weights(weights)\nmodel.layers[0].kernel.assign(weights[0] + 1)\n"
        "model.save_weights(os.path.join(os.path.dirname(__file__), 'a.weights.h5'))\n"
    )
    after = planned(tmp_path, text.replace("\nrows =", f"\n{reads}\nrows ="), kind)
    assert "NEVER" not in capfd.readouterr().out
    assert after.what == before.what and parts(after) == parts(before)
    assert after.collectives == before.collectives


def test_small_variables_keep_their_values(tmp_path: Path) -> None:
    check = "assert np.all(model.layers[0].kernel.numpy() != 0)\nrows ="
    assert planned(tmp_path, script(FIT).replace("\nrows =", f"\n{check}", 1)).rows == 64


_LARGE = """
import drumline as dl, keras, numpy as np

strategy = dl.distribute.MirroredStrategy(shard="parameters")
with strategy.scope():
    wide = 62_000
    model = keras.Sequential([keras.Input((wide,)), keras.layers.Dense(wide, "relu"),
                              keras.layers.Dense(wide)])
    model.compile("adam", "mse")
x = np.zeros((strategy.num_replicas_in_sync, wide), "float32")
print("evaluated", model.evaluate(x, x, verbose=0))
model.fit(x, x, batch_size=len(x), verbose=0)
"""
_MEASURED = """
import sys
from pathlib import Path
from drumline_command import run
sys.argv[0] = "drumline"
try:
    run()
finally:
    # Not that of `resource`, in which a process inherits the peak of the one that started it.
    print("PEAK", Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def test_a_model_of_31_gb_is_planned_in_one(tmp_path: Path) -> None:
    """Its slots take twice as much again; the largest variable alone 15 GB."""
    (tmp_path / "train.py").write_text(_LARGE)
    command = [sys.executable, "-c", _MEASURED, "plan", "--on", "cpu-4x2", "--json", "plan.json"]
    done = subprocess.run(
        [*command, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    peak = 1024 * int(done.stdout.rpartition("PEAK")[2])
    assert peak < 1.5e9, f"{peak:,} bytes"
    page = json.loads((tmp_path / "plan.json").read_text())
    memory = next(each for each in page["sections"] if each["title"] == "Memory of a chip")
    found = {row["name"]: row["value"] for row in memory["rows"]}
    weights = 4 * 2 * (62_000**2 + 62_000)
    assert weights > 30e9
    assert found["parameters"] == pytest.approx(weights / 8, rel=1e-3)
    assert found["optimizer"] == pytest.approx(2 * weights / 8, rel=1e-3)
