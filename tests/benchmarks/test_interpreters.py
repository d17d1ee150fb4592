import sys

import pytest

from benchmarks.harness.interpreters import choose, missing_modules


@pytest.fixture(autouse=True)
def fresh():
    missing_modules.cache_clear()


def test_the_first_interpreter_that_has_everything_is_chosen():
    assert choose([sys.executable, "/no/such/python"], ("json", "numpy")) == (sys.executable, "")


def test_what_is_missing_is_named():
    python, reason = choose([sys.executable], ("json", "no_such_module_here"))
    assert python is None
    assert reason == "no_such_module_here not installed"


def test_a_contender_without_requirements_runs_anywhere():
    assert choose([sys.executable], ()) == (sys.executable, "")


def test_an_interpreter_that_does_not_run_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="does not work as a Python interpreter"):
        choose([str(tmp_path / "python")], ("json",))
