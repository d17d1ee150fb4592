"""Scripts planned on CPU devices, which stand for hardware that is not there."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import drumline as dl
from drumline.distribute.step.compiled_step import NotPlannedError
from drumline.distribute.strategy import Strategy
from drumline.plan import report
from drumline.plan.hardware import group_of
from drumline.plan.plan import Plan, ScriptError, plan_script
from tests.plan.training_scripts import FIT, FROM_FUNCTION, LOOP, MIRRORED, script

PARAMETERS = 20 * 64 + 64 + 64 * 10 + 10
CPUS = group_of("cpu-2x2")


def planned(directory: Path, text: str, *arguments: str, **options: Any) -> Plan:
    path = directory / "train.py"
    path.write_text(text)
    return plan_script(path, arguments, options.pop("group", CPUS), **options)


def part(plan: Plan, name: str) -> float:
    return dict(plan.memory.parts)[name].value


def test_fit_is_planned_up_to_its_first_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = planned(tmp_path, script(FIT))
    out = capfd.readouterr().out
    assert "evaluated [0.0, 0.0]" in out and "NEVER" not in out
    assert plan.what.startswith("fit of model 'sequential")
    assert (plan.rows, plan.replicas) == (64, 4)
    assert part(plan, "parameters") == 4 * PARAMETERS
    assert part(plan, "optimizer") == 4 * (2 * PARAMETERS + 2), "slots, iterations, learning rate"
    assert part(plan, "batch") == 16 * (20 + 1) * 4
    assert plan.batch_bytes.value == 64 * (20 + 1) * 4
    assert plan.memory.fits is None and plan.step is None, "nothing is known of this machine"
    reduced = sum(each.bytes for each in plan.collectives if each.kind == "all-reduce")
    assert 4 * PARAMETERS <= reduced <= 4 * PARAMETERS + 100, "gradients, loss and metric"
    assert all(each.group == 4 for each in plan.collectives)
    assert Strategy._stand_in is None
    assert type(dl.distribute.MirroredStrategy(["cpu:0"])) is dl.distribute.MirroredStrategy


@pytest.mark.parametrize("kind", ["run", "function", "staged"])
def test_a_custom_loop_is_planned_up_to_its_first_step(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = planned(tmp_path, script(LOOP), kind)
    out = capfd.readouterr().out
    assert "tested 0.0 0.0" in out and "NEVER" not in out
    assert (plan.rows, plan.replicas) == (64, 4)
    assert part(plan, "parameters") == 4 * PARAMETERS
    assert part(plan, "optimizer") == 4 * 2 * PARAMETERS
    assert part(plan, "batch") - 16 * 21 * 4 in (0, 1), "a loop's total is no part of it"
    assert any("test_step, which came before, was not run" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("strategy", "replicas"),
    [
        (MIRRORED.replace("()", "(['gpu:0', 'gpu:1'])"), 4),
        ("dl.distribute.OneDeviceStrategy('gpu:0')", 1),
        ("dl.distribute.MultiWorkerMirroredStrategy()", 4),
        ("dl.distribute.experimental.CentralStorageStrategy()", 4),
        ("type('Own', (dl.distribute.MirroredStrategy,), {'mark': 1})()", 4),
    ],
)
def test_whichever_strategy_the_script_makes(
    strategy: str, replicas: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    name = strategy.partition("(")[0].rpartition(".")[2]
    check = f"assert isinstance(strategy, {strategy.partition('(')[0]})" if name != "type" else ""
    text = script(FIT, strategy).replace("rows = 16", f"{check}\nrows = 16")
    plan = planned(tmp_path, text)
    assert (plan.replicas, plan.rows) == (replicas, 16 * replicas)


def test_what_the_input_makes_here_is_measured(tmp_path: Path) -> None:
    """Batches of 32 rows of which each takes 10 ms: at most 3,200 rows a second."""
    slow = """
import time

def batches():
    while True:
        time.sleep(0.01)
        yield data[0][:32], data[1][:32]

signature = (dl.TensorSpec((32, 20), "float32"), dl.TensorSpec((32,), "int32"))
dataset = dl.data.Dataset.from_generator(batches, output_signature=signature)
model.compile("""
    text = script(FIT).replace("\nmodel.compile(", slow)
    plan = planned(tmp_path, text)
    assert plan.rows == 32 and plan.input_rows is not None
    assert plan.input_rows.how == "measured" and 0 < plan.input_rows.value <= 3200
    arrays = text.replace("model.fit(dataset, ", "model.fit(*data, batch_size=32, ")
    assert planned(tmp_path, arrays).input_rows is None, "arrays are no dataset"


def test_a_dataset_from_a_function(tmp_path: Path) -> None:
    plan = planned(tmp_path, script(FROM_FUNCTION))
    assert (plan.rows, plan.replicas) == (64, 4)


def test_another_batch_than_the_script_s(tmp_path: Path) -> None:
    for text, arguments in ((script(FIT), ()), (script(LOOP), ("run",))):
        small, large = (planned(tmp_path, text, *arguments, rows=rows) for rows in (None, 4096))
        assert (small.rows, large.rows) == (64, 4096)
        assert part(large, "batch") == 64 * part(small, "batch")
        assert part(large, "arrays made in the step") > 8 * part(small, "arrays made in the step")


def test_what_cannot_be_planned_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotPlannedError, match=r"of 30 rows does not .* --batch 28 or --batch 32"):
        planned(tmp_path, script(FIT).replace("batch(rows,", "batch(30,"))
    with pytest.raises(NotPlannedError, match=r"--batch of 3 rows .* Take --batch 4\."):
        planned(tmp_path, script(LOOP), "run", rows=3)
    with pytest.raises(NotPlannedError, match="trains in no strategy's scope"):
        planned(tmp_path, script(FIT).replace("with strategy.scope()", "if True"))
    with pytest.raises(NotPlannedError, match="step by step as Python"):
        planned(
            tmp_path,
            script(FIT).replace('compile("adam",', 'compile("adam", run_eagerly=True, loss='),
        )
    with pytest.raises(ScriptError, match="ended without a step of training"):
        planned(tmp_path, "print('hello')")
    with pytest.raises(ScriptError, match="ended with the exit code 3 before any step"):
        planned(tmp_path, "import sys; sys.exit(3)")
    with pytest.raises(ScriptError, match=r'train.py", line 1, (?s:.)*ZeroDivisionError'):
        planned(tmp_path, "1 / 0")
    with pytest.raises(ScriptError, match="No such file(?s:.)* needs its input here, too"):
        planned(tmp_path, "open('/no/such/file')")
    with pytest.raises(NotPlannedError, match="ParameterServerStrategy trains with parameter"):
        planned(tmp_path, script(FIT, "dl.distribute.ParameterServerStrategy(None)"))
    assert Strategy._stand_in is None


def test_a_script_that_only_evaluates_is_planned_and_said_to(tmp_path: Path) -> None:
    text = script(LOOP).replace("kind = sys.argv[1]", "sys.exit()")
    plan = planned(tmp_path, text)
    assert plan.what == "run of test_step"
    assert any("writes no trainable variable" in note for note in plan.notes)


def test_zeros_on_which_a_script_raises_are_said_to_be_the_plan_s(tmp_path: Path) -> None:
    text = script(LOOP).replace("kind = sys.argv[1]", "assert tested > 0, 'nothing was learned'")
    plan = planned(tmp_path, text)
    assert plan.what == "run of test_step"
    assert any("raised AssertionError: nothing was learned" in note for note in plan.notes)


def test_a_variable_with_a_value_for_each_replica(tmp_path: Path) -> None:
    each = "dl.Variable(0.0, trainable=False, synchronization='on_read', aggregation='sum')"
    text = script(LOOP).replace("seen = keras.metrics.Mean()", f"seen = {each}")
    text = text.replace("seen.update_state(", "seen.assign_add(0 * ").replace(
        "[0])))", "[0])).mean())"
    )
    text = text.replace("seen.result()", "seen.value")
    plan = planned(tmp_path, text, "run")
    assert plan.what == "run of train_step" and plan.replicas == 4


def test_the_page_in_all_forms(tmp_path: Path) -> None:
    plan = planned(tmp_path, script(FIT))
    page = report.sections(plan)
    text, read = report.markdown(page), json.loads(report.as_json(plan))
    assert (read["hardware"], read["rows"], read["replicas"], read["fits"]) == (
        "cpu-2x2",
        64,
        4,
        None,
    )
    for section in read["sections"]:
        assert section["title"] in text
        assert all(row["how"] and row["source"] for row in section["rows"])
        assert all(math.isfinite(row["value"]) for row in section["rows"])
    report.write_picture(plan, tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def command(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drumline_command", "plan", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_the_command_prints_and_writes_the_plan(tmp_path: Path) -> None:
    text = "import drumline as dl\ndl.config.set_logical_devices('cpu', 2)\n" + script(LOOP)
    (tmp_path / "train.py").write_text(text)
    done = command(
        tmp_path, *("--on", "cpu-4x2", "--json", "a.json", "--markdown", "a.md", "train.py", "run")
    )
    assert done.returncode == 0, done.stderr
    assert "run of train_step on cpu-4x2" in done.stdout and "all-reduce" in done.stdout
    read = json.loads((tmp_path / "a.json").read_text())
    assert (read["replicas"], read["rows"]) == (8, 128)
    assert "Memory of a chip" in (tmp_path / "a.md").read_text()


def test_the_command_refuses_before_it_runs_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('RAN')")
    for arguments, message in (
        (("--on", "tpu-v9-8", "train.py"), "Kinds: tpu-v4, tpu-v5e"),
        (("--on", "cpu-4x2", "none.py"), "There is no script none.py"),
        (("--on", "cpu-4x2", "--json", "no/a.json", "train.py"), "there is no directory no"),
    ):
        done = command(tmp_path, *arguments)
        assert done.returncode == 2 and message in done.stderr, done.stderr
        assert "RAN" not in done.stdout and "Traceback" not in done.stderr
    done = command(tmp_path, "--on", "cpu-4x2", "train.py")
    assert done.returncode == 1 and "RAN" in done.stdout and "Traceback" not in done.stderr
    assert "ended without a step of training" in done.stderr


def test_ctrl_c_ends_it_with_a_word(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise KeyboardInterrupt")
    done = command(tmp_path, "--on", "cpu-4x2", "train.py")
    assert done.returncode == 130 and "Traceback" not in done.stderr
    assert "Interrupted: nothing was planned" in done.stderr
