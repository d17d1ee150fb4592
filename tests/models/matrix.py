"""The matrix: cases crossed with ways to run them, each against one device."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl
from tests.distribute.process_group.clusters import Cluster, running
from tests.models.exceptions import EXCEPTIONS
from tests.models.running import (
    WAYS,
    Case,
    Facts,
    Setting,
    Way,
    differences,
    run,
    run_in,
    run_reference,
    with_another_row,
)

_MEMBER = "tests.models.matrix:member"
_SECONDS = 600
"""For a case in several processes, on a machine that is busy with other things, too."""
PROCESSES = "2 processes"


def crossed(cases: Mapping[str, Case]) -> pytest.MarkDecorator:
    """Parametrize a test by `name` and `way`: all cases in all ways."""
    parameters = []
    for name, case in cases.items():
        for way in WAYS:
            marks = [] if way in case.quick else [pytest.mark.thorough]
            cause = EXCEPTIONS.get((name, way)) or EXCEPTIONS.get((name, "all"))
            if cause:
                marks.append(pytest.mark.xfail(strict=True, reason=cause))
            parameters.append(pytest.param(name, way, marks=marks, id=f"{name}: {way}"))
    return pytest.mark.parametrize(("name", "way"), parameters)


class Matrix:
    """What the cases of one table give, each reference computed once.

    Args:
        table: where the table is, as ``"package.module:NAME"``.
        folder: an empty directory.
        in_processes: the cases to run in several processes, all of them in one cluster.
        same_compile: whether the reference is compiled with the way's options: they change what
            callbacks are told, and round up the steps that are asked for.
    """

    def __init__(
        self, table: str, folder: Path, in_processes: list[str], *, same_compile: bool = False
    ) -> None:
        self._table = table
        self._cases = _cases(table)
        self._folder = folder
        self._in_processes = in_processes
        self._same_compile = same_compile
        self._references: dict[tuple[str, Way], Facts] = {}
        self._started = False

    def reference(self, name: str, way_name: str) -> Facts:
        """What plain Keras gives on one device."""
        case = self._cases[name]
        way = WAYS[way_name]
        if not self._same_compile:
            way = dataclasses.replace(way, steps_per_execution=1)
        if not case.reference:
            way = dataclasses.replace(way, replicas=1, processes=False)
        key = name, way
        if key not in self._references:
            place = self._place(f"{name} on one device {len(self._references)}")
            self._references[key] = run_reference(case, way, place)
        return self._references[key]

    def check(self, name: str, way: str) -> None:
        """Require that a case gives in a way what it gives on one device."""
        expected = self.reference(name, way)
        tolerance = self._cases[name].tolerance
        for found in self._found(name, way):
            off = differences(found, expected, tolerance)
            assert not off, "\n".join([f"{name} in {way}, to {tolerance}:", *off])

    def check_sight(self, name: str) -> None:
        """Require that a training with another row in its data is seen to be another one."""
        case = self._cases[name]
        place = self._place(f"{name} with another row")
        other = run_reference(case, WAYS["2 replicas"], place, with_another_row(case.data()))
        assert differences(other, self.reference(name, "2 replicas"), case.tolerance)

    def _found(self, name: str, way: str) -> list[Facts]:
        if not WAYS[way].processes:
            return [run(self._cases[name], WAYS[way], self._place(f"{name} {way}"))]
        if not self._started:
            self._started = True
            _run_processes(self._table, self._in_processes, self._folder)
        return [_load(self._folder, name, rank) for rank in range(WAYS[way].replicas)]

    def _place(self, name: str) -> Path:
        path = self._folder / name.replace("/", " ")
        path.mkdir()
        return path


def matrix(
    request: pytest.FixtureRequest, folder: Path, table: str, *, same_compile: bool = False
) -> Matrix:
    """The matrix of the module that asks for it."""
    chosen = [
        item.callspec.params["name"]
        for item in request.session.items
        if getattr(item, "module", None) is request.module
        and hasattr(item, "callspec")
        and item.callspec.params.get("way") == PROCESSES
    ]
    return Matrix(table, folder, chosen, same_compile=same_compile)


def _cases(table: str) -> dict[str, Case]:
    module, _, name = table.partition(":")
    found: dict[str, Case] = getattr(importlib.import_module(module), name)
    return found


def _run_processes(table: str, names: list[str], folder: Path) -> None:
    arguments: dict[str, Any] = {"table": table, "names": names, "folder": str(folder)}
    cluster = Cluster("processes", _MEMBER, arguments, env={"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"})
    with running(folder, [cluster]) as run:
        for name in names:  # each may take its time, however many there are
            for process in run.names:
                run.wait_until(process, _done(name), _SECONDS)
        run.wait_for(*run.names)
        ends = run.ended("processes")
    for end in ends:
        assert end.status == 0, end.log[-4000:]


def member(table: str, names: list[str], folder: str) -> None:
    """In a process of a cluster: run cases one after another, and write what comes out."""
    strategy = dl.distribute.MultiWorkerMirroredStrategy()
    rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    for name in names:
        place = Path(folder, f"{name} in processes".replace("/", " "))
        if rank == 0:
            place.mkdir()
        strategy.barrier()
        target = _file(Path(folder), name, rank)
        try:
            facts = run_in(_cases(table)[name], Setting(strategy, {}, place))
        except Exception:
            target.with_suffix(".error").write_text(traceback.format_exc())
        else:
            np.savez(target, **{str(number): value for number, value in enumerate(facts.values())})
            target.with_suffix(".names").write_text(json.dumps(list(facts)))
        print(_done(name), end="", file=sys.stderr, flush=True)


def _done(name: str) -> str:
    """What a process says when a case has run."""
    return f"done: {name}\n"


def _load(folder: Path, name: str, rank: int) -> Facts:
    target = _file(folder, name, rank)
    error = target.with_suffix(".error")
    assert not error.exists(), f"process {rank}: {error.read_text()[-4000:]}"
    with np.load(target) as found:
        names = json.loads(target.with_suffix(".names").read_text())
        return {name: found[str(number)] for number, name in enumerate(names)}


def _file(folder: Path, name: str, rank: int) -> Path:
    return folder / f"{name} by {rank}.npz".replace("/", " ")
