import json
import os
import sys

import pytest

from benchmarks import cli
from benchmarks.harness.process import Failure, Run
from benchmarks.workloads import WORKLOADS


def run_numpy(tmp_path, *options):
    return cli.main(
        ["range_filter", "--quick", "--contenders", "numpy", "--out", str(tmp_path), *options]
    )


def test_a_trial_writes_every_form_of_the_report(tmp_path, capsys):
    assert run_numpy(tmp_path) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "range_filter.json",
        "README.md",
        "results.png",
    }
    stored = json.loads((tmp_path / "range_filter.json").read_text())
    assert stored["summary"]["quick"] is True
    assert [entry["name"] for entry in stored["summary"]["contenders"]] == ["numpy"]
    assert "range_filter 1/1 numpy: first" in capsys.readouterr().out


def test_a_failure_is_named_and_makes_the_exit_code(tmp_path, capsys, monkeypatch):
    failure = Failure("crash", "ended with exit code 1", "ValueError: the reason")
    monkeypatch.setattr(cli, "run_child", lambda *arguments: Run(failure, 0.1))
    assert run_numpy(tmp_path) == 1
    out = capsys.readouterr().out
    assert "numpy: crash: ended with exit code 1" in out
    assert "ValueError: the reason" in out


def test_contenders_that_take_turns_are_run_once_a_round(tmp_path, monkeypatch):
    asked = []

    def run(python, workload, contenders, options, timeout_s):
        asked.append((workload, *contenders))
        return dict.fromkeys(contenders, Run(Failure("crash", "not now"), 0.1))

    monkeypatch.setattr(cli, "run_by_turns", run)
    assert cli.main(["step_profiler", "--quick", "--out", str(tmp_path)]) == 1
    assert asked == [("step_profiler", "drumline", "without a profile")]


def test_wrong_work_makes_the_exit_code(tmp_path, capsys, monkeypatch, make):
    wrong = make(evidence={"batches": [27], "epochs": [{"order": "x", "dtypes": ["int64"]}]})
    monkeypatch.setattr(cli, "run_child", lambda *arguments: Run(wrong, 0.1))
    assert run_numpy(tmp_path) == 1
    assert "numpy: wrong: did not give the expected batches in order" in capsys.readouterr().out


def test_a_missing_package_is_stated_and_harmless(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        cli, "choose_interpreter", lambda pythons, modules: (None, "numpy not installed")
    )
    assert run_numpy(tmp_path) == 0
    assert "skipping numpy: numpy not installed" in capsys.readouterr().out


def test_peers_prefer_another_interpreter_and_ours_stays_here(tmp_path, monkeypatch):
    asked = {}

    def choose(pythons, modules):
        asked[modules] = list(pythons)
        return None, "not now"

    monkeypatch.setattr(cli, "choose_interpreter", choose)
    cli.main(["range_filter", "--quick", "--peer-python", "/peer", "--out", str(tmp_path)])
    assert asked[("tensorflow",)] == ["/peer", sys.executable]
    assert asked[("drumline", "jax")] == [sys.executable]


def test_the_report_can_be_written_anew(tmp_path):
    run_numpy(tmp_path)
    (tmp_path / "README.md").unlink()
    assert cli.main(["--render", "--out", str(tmp_path)]) == 0
    assert "divisible" not in (tmp_path / "README.md").read_text()
    assert WORKLOADS["range_filter"].title in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no_such"], "no workload no_such"),
        (["--contenders", "nobody"], "no contender nobody"),
        (["--runs", "0"], "--runs must be at least 1"),
    ],
)
def test_senseless_arguments_are_explained(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_the_list_names_workloads_and_contenders(capsys):
    assert cli.main(["--list"]) == 0
    out = capsys.readouterr().out
    for workload in WORKLOADS.values():
        assert workload.name in out
        assert all(contender.name in out for contender in workload.contenders)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a choice of processors")
def test_a_run_is_confined_to_the_cores_asked_for(tmp_path, monkeypatch, capsys):
    confined = []

    def run(*arguments):
        confined.append(len(os.sched_getaffinity(0)))
        return Run(Failure("crash", "not now"), 0.1)

    monkeypatch.setattr(cli, "run_child", run)
    before = os.sched_getaffinity(0)
    run_numpy(tmp_path, "--cores", "1")
    assert confined == [1]
    assert os.sched_getaffinity(0) == before
    with pytest.raises(SystemExit):
        run_numpy(tmp_path, "--cores", str(len(before) + 1))
    assert f"--cores must be 1 to {len(before)}" in capsys.readouterr().err
