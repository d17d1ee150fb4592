"""A plugin of pytest: compiles for a TPU every program that tests run on replicas.

    python -m pytest -p tests.compiled_for_tpus.twins --twins FILE TESTS ...

runs the tests on CPU devices as ever. Each program of several replicas that they run, of `fit`,
`evaluate`, `predict`, `strategy.run` and `dl.function`, is exported for TPUs as well. When the
tests have ended, those that differ are compiled for as many chips of a TPU that is not there, and
FILE gets a line of JSON for each: a test that runs it, and what the compiled program consists of,
or why there is none. The environment of `tpu_environment` has to be set.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.compiled_for_tpus.facts import facts_of

TOPOLOGY = "v5e:2x4"
_OURS = [export.DisabledSafetyCheck.custom_call(name) for name in ("Sharding",)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--twins", type=Path, required=True, help="the file of lines of JSON")


class _Recorder:
    """The programs of one process, each once."""

    def __init__(self) -> None:
        self.test = ""
        self.programs: dict[str, dict[str, Any]] = {}
        self._seen: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()

    def run(self, kind: str, compiled: Any, arguments: tuple[Any, ...]) -> Any:
        """Run a compiled program, and note it if it is new."""
        noted = self._note(kind, compiled, arguments)
        try:
            return compiled(*arguments)
        except BaseException:
            if noted is not None:  # there is no such program
                self.programs.pop(noted, None)
            raise

    def _note(self, kind: str, compiled: Any, arguments: tuple[Any, ...]) -> str | None:
        leaves, structure = jax.tree.flatten(arguments)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return None
        key = (structure, tuple((np.shape(x), jax.dtypes.result_type(x)) for x in leaves))
        seen = self._seen.setdefault(compiled, set())
        if key in seen:
            return None
        seen.add(key)
        said: dict[str, Any] = {"test": self.test, "kind": kind}
        try:
            exported = export.export(compiled, platforms=["tpu"], disabled_checks=_OURS)(*arguments)
        except Exception as error:  # said, and judged by the test that reads the file
            said["not_exported"] = f"{type(error).__name__}: {error}"
            text = f"{kind} {said['not_exported']}"
        else:
            if exported.nr_devices == 1:
                return None
            given = jax.tree.leaves(arguments[0])
            said |= {
                # Its gradient would keep what the program was traced from.
                "exported": dataclasses.replace(exported, _get_vjp=None),
                "replicas": exported.nr_devices,
                "given": sum(leaf.size * leaf.dtype.itemsize for leaf in given),
            }
            text = exported.mlir_module()
        name = hashlib.sha256(text.encode()).hexdigest()
        if name in self.programs:
            return None
        self.programs[name] = said
        return name


_recorder = _Recorder()


def _recording(kind: str, compiled: Any) -> Callable[..., Any]:
    @functools.wraps(compiled)
    def run(*arguments: Any) -> Any:
        return _recorder.run(kind, compiled, arguments)

    for name in ("lower", "trace"):
        setattr(run, name, getattr(compiled, name))
    return run


@pytest.fixture(autouse=True, scope="session")
def _recorded() -> Iterator[None]:
    from drumline.distribute.step.compiled_step import NumberedPrograms
    from drumline.keras.step.train_step import GlobalBatchStep

    made = GlobalBatchStep._compiled

    def recorded_alone(self: NumberedPrograms, *arguments: Any) -> Any:
        owner = getattr(self._program, "__self__", None)  # a CompiledStep of `run` or `function`
        kind = self._program.__name__ if owner is None else type(owner).__name__
        return _recorder.run(kind, self._alone, arguments)

    def recorded_step(self: GlobalBatchStep, name: str, *where: Any) -> Any:
        groups = "_".join(self._groups)
        return _recording(f"{name} of {groups}", made(self, name, *where))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(NumberedPrograms, "alone", recorded_alone)
        patched.setattr(GlobalBatchStep, "_compiled", recorded_step)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _recorder.test = item.nodeid


def pytest_sessionfinish(session: pytest.Session) -> None:
    from drumline.plan.planned_strategy import tpu_topology

    if not _recorder.programs:  # of workers' controller
        return
    devices = tpu_topology(TOPOLOGY)
    jax.config.update("jax_enable_x64", True)  # programs have the types that they have
    with session.config.getoption("--twins").open("a") as file:
        for said in _recorder.programs.values():
            exported = said.pop("exported", None)
            if exported is not None:
                said |= _compiled(exported, devices)
            file.write(json.dumps(said) + "\n")
            file.flush()


def _compiled(exported: export.Exported, devices: tuple[jax.Device, ...]) -> dict[str, Any]:
    """What is said of an exported program, compiled for the first of `devices`."""
    from drumline.plan import jax_internals

    mesh = Mesh(np.array(devices[: exported.nr_devices]), ("replica",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    given = [
        jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding or everywhere)
        for shape, sharding in zip(exported.in_avals, exported.in_shardings_jax(mesh), strict=True)
    ]
    (arguments, _) = jax.tree.unflatten(exported.in_tree, given)
    out = exported.out_shardings_jax(mesh)
    if not given:  # nothing else says where the program runs
        out = [each or everywhere for each in out]
    left = jax.tree.unflatten(exported.out_tree, out)
    try:
        program = jax.jit(
            lambda *arguments: exported.call(*arguments), donate_argnums=0, out_shardings=left
        )
        lowered = program.lower(*arguments)
        started = time.process_time()
        with jax_internals.without_cache():
            found = facts_of(lowered.compile())
    except Exception as error:
        return {"not_compiled": f"{type(error).__name__}: {error}"}
    return {
        **found,
        "asked": _asked(exported.mlir_module()),
        "seconds": round(time.process_time() - started, 1),
    }


def _asked(module: str) -> list[tuple[str, list[str]]]:
    """The collectives that a traced program has, with the types of what they are given."""
    return [
        (kind, re.findall(r"tensor<([^>]*)>", types))
        for kind, types in re.findall(
            r'"stablehlo\.(all_\w+|reduce_scatter|collective_\w+)".*?: \(([^)]*)\) -> ',
            module,
            re.DOTALL,
        )
    ]
