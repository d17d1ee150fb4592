"""A pytest plugin that runs the tests which Keras's package brings, in one of three ways.

``KERAS_SUITE_WAY`` says which: ``plain`` is Keras alone; ``imported`` has drumline imported, and no
strategy; ``replicated`` runs each test in the scope of a `MirroredStrategy` of two replicas, so
that every model, optimizer and metric that the test makes belongs to it. All three have two CPU
devices. ``KERAS_SUITE_SHARE=10`` runs every tenth test, chosen by its name.
"""

from __future__ import annotations

import builtins
import gc
import json
import os
import sys
import types
import unittest
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import jax
import pytest

WAY = os.environ["KERAS_SUITE_WAY"]
SHARE = int(os.environ.get("KERAS_SUITE_SHARE", "1"))
RESULTS = os.environ["KERAS_SUITE_RESULTS"]
COMPILED = os.environ.get("KERAS_SUITE_COMPILED")

jax.config.update("jax_num_cpu_devices", 2)
if COMPILED:
    jax.config.update("jax_compilation_cache_dir", COMPILED)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

if WAY != "plain":
    import drumline as dl


def is_in_share(name: str, share: int) -> bool:
    """Whether the test, by its name from ``keras/src/`` on, is among every `share`-th."""
    return zlib.crc32(name[name.index("keras/src/") :].encode()) % share == 0


def _skip_if_backend(backend: str, reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(backend == "jax", reason=reason)


# Keras's tests import this from a file of its repository that its package leaves out.
_conftest: Any = types.ModuleType("conftest")
_conftest.skip_if_backend = _skip_if_backend
sys.modules["conftest"] = _conftest

_import = builtins.__import__


class _Absent(types.ModuleType):
    """Stands for a framework that is not installed, in test modules that import it for a few of
    their tests: what uses it is skipped. Keras itself does not see it.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise unittest.SkipTest(f"needs {self.__name__}")


def _import_for_tests(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    try:
        return _import(name, globals, locals, fromlist, level)
    except ModuleNotFoundError:
        framework = name.partition(".")[0]
        asks = (globals or {}).get("__name__", "")
        if framework not in ("tensorflow", "torch", "grain") or not asks.endswith("_test"):
            raise
        absent = _Absent(framework)
        if fromlist or framework != name:
            raise unittest.SkipTest(f"needs {name}") from None
        return absent


builtins.__import__ = _import_for_tests

_results: dict[str, dict[str, str]] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SHARE > 1:
        chosen = [item for item in items if is_in_share(item.nodeid, SHARE)]
        config.hook.pytest_deselected(items=[i for i in items if i not in set(chosen)])
        items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    if WAY != "replicated":
        return (yield)
    with dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).scope():
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Give the programs of a file back after it: those of all files take many gigabytes."""
    if nextitem is None or nextitem.path != item.path:
        jax.clear_caches()
        gc.collect()


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _results[report.nodeid] = {"outcome": "failed", "message": report.longreprtext}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    before = _results.get(report.nodeid, {}).get("outcome", "passed")
    if before == "passed":
        _results[report.nodeid] = {"outcome": report.outcome, "message": report.longreprtext}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        Path(RESULTS).write_text(json.dumps(_results))
