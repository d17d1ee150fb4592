import sys
import time

import pytest

from benchmarks.harness.process import (
    Failure,
    choose_interpreter,
    missing_modules,
    run_by_turns,
    run_child,
    run_command,
)
from benchmarks.workloads import WORKLOADS
from tests import processes


def python(code, timeout_s=60.0):
    return run_command([sys.executable, "-c", code], timeout_s)


def test_the_last_line_is_the_result(make):
    line = make(elements=7).to_json()
    run = python(f"import sys; print('a library says hello'); print({line!r})")
    assert run.outcome.elements == 7
    assert run.process_s > 0


def test_a_crash_is_reported_with_the_tail_of_its_standard_error():
    run = python("import sys; print('x\\n' * 50, 'the reason', file=sys.stderr); sys.exit(3)")
    assert run.outcome.kind == "crash"
    assert "exit code 3" in run.outcome.detail
    assert run.outcome.tail.endswith("the reason")
    assert len(run.outcome.tail.splitlines()) == 20


def test_a_signal_is_named():
    run = python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (run.outcome.kind, run.outcome.detail) == ("crash", "ended by signal SIGKILL")


def test_a_run_without_a_result_is_reported():
    run = python("print('done')")
    assert isinstance(run.outcome, Failure)
    assert run.outcome.kind == "noise"
    assert "done" in run.outcome.detail


def test_a_hang_is_ended_together_with_its_workers(tmp_path):
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid_file)!r}, 'w').write(str(worker.pid))\n"
        "print('stuck here', file=sys.stderr, flush=True)\n"
        "time.sleep(600)\n"
    )
    run = python(code, timeout_s=3.0)
    assert run.outcome == Failure("hang", "no result within 3 s", "stuck here")
    assert gone(int(pid_file.read_text()))


def gone(pid, tries=100):
    """Whether a process has ended, or is only waiting to be reaped by whoever inherited it."""
    for _ in range(tries):
        if processes.gone(pid):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("workload", ["shuffle_batch", "map_batch", "range_filter"])
def test_numpy_does_the_work_of_the_input_workloads_in_a_process(workload):
    run = run_child(sys.executable, [workload, "numpy", "--quick"], 120.0)
    described = WORKLOADS[workload]
    assert run.outcome.elements == described.quick.elements
    assert described.check(described.quick, {"numpy": run.outcome}) == {}


def test_contenders_take_turns_in_one_process():
    runs = run_by_turns(sys.executable, "range_filter", ["drumline", "numpy"], ["--quick"], 120.0)
    quick = WORKLOADS["range_filter"].quick
    assert [run.outcome.elements for run in runs.values()] == [quick.elements] * 2


def test_contenders_in_one_process_fail_together():
    runs = run_by_turns(sys.executable, "range_filter", ["numpy", "no such"], ["--quick"], 120.0)
    assert [run.outcome.kind for run in runs.values()] == ["crash", "crash"]
    assert "no contender 'no such'" in runs["numpy"].outcome.tail


@pytest.fixture(autouse=True)
def fresh_probes():
    missing_modules.cache_clear()


def test_the_first_interpreter_that_has_everything_is_chosen():
    assert choose_interpreter([sys.executable, "/no/such/python"], ("json", "numpy")) == (
        sys.executable,
        "",
    )


def test_what_is_missing_is_named():
    python, reason = choose_interpreter([sys.executable], ("json", "no_such_module_here"))
    assert python is None
    assert reason == "no_such_module_here not installed"


def test_a_contender_without_requirements_runs_anywhere():
    assert choose_interpreter([sys.executable], ()) == (sys.executable, "")


def test_an_interpreter_that_does_not_run_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="does not work as a Python interpreter"):
        choose_interpreter([str(tmp_path / "python")], ("json",))
