"""The report lists every change: what it does not list, nothing of drumline's has changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import drumline as dl
from drumline import _changes
from drumline.config import ChangeReport

COMPARE = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import atexit, json, logging, signal, sys, threading, warnings
import jax, keras, numpy
import jax.interpreters.batching, jax.interpreters.mlir, jax.extend.core
from jax._src.interpreters import mlir

OF = {"keras": "Keras", "jax": "JAX", "jaxlib": "JAX"}

def attributes():
    "Every attribute of the modules and classes of Keras and JAX, by its full name."
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in OF or not hasattr(module, "__dict__"):
            continue
        for key, value in list(vars(module).items()):
            found[f"{name}.{key}"] = value
            if isinstance(value, type) and value.__module__.partition(".")[0] in OF:
                owner = f"{value.__module__}.{value.__qualname__}"
                for attribute, method in list(vars(value).items()):
                    found[f"{owner}.{attribute}"] = method
    return found

def process():
    return {
        "environment": dict(os.environ),
        "sys.excepthook": sys.excepthook,
        "threading.excepthook": threading.excepthook,
        "filters": list(warnings.filters),
        "signals": {n: signal.getsignal(n) for n in signal.valid_signals()},
        "handlers": list(logging.getLogger().handlers),
        "level": logging.getLogger().level,
        "meta_path": list(sys.meta_path),
        "jax": dict(jax.config.values),
        "atexit": atexit._ncallbacks(),
        "default pickles": dict(__import__("copyreg").dispatch_table),
    }

for _ in range(2):  # what Keras and JAX themselves set when they are first used is no change
    jax.jit(lambda x: x + 1)(1.0)
before, process_before = attributes(), process()
owners = {name.rpartition(".")[0] for name in before}
tables = {table: dict(getattr(mlir, table).get("cpu", {})) for table in
          ("_platform_specific_lowerings",)}

import drumline as dl
for name in dl.__all__:
    getattr(dl, name)
EXTRA

after, process_after = attributes(), process()
changed = sorted(
    name for name, value in before.items() if name in after and after[name] is not value
)
changed += sorted(
    name for name in after.keys() - before.keys()
    if not isinstance(after[name], type(sys)) and name.rpartition(".")[0] in owners
)
cpu = mlir._platform_specific_lowerings["cpu"]
rules = sorted(p.name for p, rule in cpu.items()
               if tables["_platform_specific_lowerings"].get(p) is not rule)
differs = sorted(k for k in process_before if process_before[k] != process_after[k])
environment = sorted(
    f"{k}={v}" for k, v in process_after["environment"].items()
    if process_before["environment"].get(k) != v
)
print(json.dumps({
    "changed": changed, "rules": rules, "process": differs, "environment": environment,
    "report": [change._asdict() for change in dl.config.report(show=False)],
}))
"""


def compared(extra: str = "") -> dict[str, Any]:
    """What differs in a fresh process after drumline was imported, and what its report says."""
    done = subprocess.run(
        [sys.executable, "-c", COMPARE.replace("EXTRA", extra)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


CPU_RULES = 'jax._src.interpreters.mlir._platform_specific_lowerings["cpu"]'


def changed(found: dict[str, Any]) -> set[str]:
    """What is not as it was in Keras and JAX."""
    return {*found["changed"], *(f"{CPU_RULES}[{rule}]" for rule in found["rules"])}


def listed(found: dict[str, Any], *of: str) -> set[str]:
    """What the report says of some of the three."""
    return {row["what"] for row in found["report"] if row["of"] in of}


@pytest.fixture(scope="module")
def imported() -> dict[str, Any]:
    return compared()


def test_it_lists_what_has_changed_in_keras_and_jax_and_nothing_else(
    imported: dict[str, Any],
) -> None:
    assert changed(imported) - listed(imported, "Keras", "JAX") == set()
    assert listed(imported, "Keras") - changed(imported) == set()
    assert len(listed(imported, "Keras")) > 50 and len(imported["rules"]) == 2


def test_it_lists_what_has_changed_in_the_process(imported: dict[str, Any]) -> None:
    assert {"meta_path"} <= set(imported["process"]) <= {"atexit", "meta_path"}
    for key, named in (("meta_path", "sys.meta_path"), ("atexit", "atexit: ")):
        assert key not in imported["process"] or any(
            what.startswith(named) for what in listed(imported, "process")
        )


def test_every_row_says_where_why_and_how_not_to_have_it(imported: dict[str, Any]) -> None:
    root = Path(dl.__file__).parents[1]
    for row in imported["report"]:
        path, _, line = row["where"].partition(":")
        source = (root / path).read_text().splitlines()[int(line) - 1]
        assert source.strip() and row["why"] and row["off"], row


def test_a_change_without_a_note_is_found() -> None:
    patch = """
import keras.src.layers.core.dense as dense
dense.Dense.call = lambda self, x: x
dense.Dense.of_drumline = 1
keras.ops.added = len
jax.numpy.sin = jax.numpy.cos
import jax._src.interpreters.batching as batching
batching.moveaxis = len
os.environ["SET_BY_DRUMLINE"] = "1"
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
"""
    found = compared(patch)
    assert changed(found) - listed(found, "Keras", "JAX") >= {
        "keras.src.layers.core.dense.Dense.call",
        "keras.src.layers.core.dense.Dense.of_drumline",
        "keras.ops.added",
        "jax.numpy.sin",
        "jax._src.interpreters.batching.moveaxis",
    }
    assert {"environment", "signals"} <= set(found["process"])
    assert found["environment"] == ["SET_BY_DRUMLINE=1"]


def test_what_is_taken_back_is_listed_no_longer() -> None:
    found = compared("dl.config.set_cpu_kernels(False)")
    assert not {what for what in changed(found) | listed(found, "JAX") if what.startswith("jax.")}


def test_it_is_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    report = dl.config.report()
    printed = capsys.readouterr().out
    assert isinstance(report, ChangeReport) and "What drumline has changed" in printed
    assert "KERAS_BACKEND=jax" in printed and "drumline/_backend.py" in printed
    assert "KERAS_BACKEND=jax" in str(report) and not capsys.readouterr().out
    assert {row.of for row in report.of("process")} == {"process"}


def test_a_second_note_of_the_same_thing_replaces_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_changes, "_noted", {})
    _changes.note("process", "something", "once", "no setting")
    _changes.note("process", "something", "again", "no setting")
    assert [change.why for change in _changes.changes()] == ["again"]
    _changes.forget("process", "something")
    _changes.forget("process", "something else")
    assert _changes.changes() == ()


def test_it_lists_what_the_interface_of_tensorflow_changes() -> None:
    found = compared("from drumline.compat import tf; tf.keras.layers.Dense, tf.data.Dataset")
    assert changed(found) - listed(found, "Keras", "JAX") == set()
    assert listed(found, "Keras") - changed(found) == set()
    assert any(what.endswith(".Array.numpy") for what in listed(found, "JAX"))
    assert "keras.src.losses.loss.Loss.__call__" in listed(found, "Keras")
