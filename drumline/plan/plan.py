"""`plan_script`: a script run up to its first step, and what that step takes on other hardware."""

from __future__ import annotations

import dataclasses
import runpy
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np

from drumline.data import Dataset
from drumline.distribute.step.compiled_step import NotPlannedError
from drumline.plan.changes.suggestions import Suggestion, by_formula, planned
from drumline.plan.changes.variant import AS_WRITTEN, Variant
from drumline.plan.compiled.program_text import Collective, CompiledProgram
from drumline.plan.estimate import StepEstimate, estimate_text
from drumline.plan.hardware import ChipGroup, Known
from drumline.plan.jax_internals import seeing
from drumline.plan.memory import Memory, memory_of, out_of_memory
from drumline.plan.planner import FoundStep, Planner, StepFound
from drumline.plan.stand_ins import plan_strategies
from drumline.plan.targets import CompilerMissingError, devices_of

SECONDS_AN_HOUR = 3600.0
INPUT_SECONDS = 3.0


class ScriptError(Exception):
    """The script came to no step; the message says why, with where it was."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a step of a script takes on hardware that is not there.

    Attributes:
        what: the step.
        group: the hardware.
        replicas: on how many devices the step runs.
        rows: of the global batch.
        memory: what it takes of a chip's.
        step: its time; None where the compiler says nothing of time, or finds no room.
        collectives: in the order of the program.
        operations: FLOP of a device and step; value 0 where the compiler does not say.
        batch_bytes: of the global batch.
        input_rows: rows a second that the script's dataset makes here; None if it is no `Dataset`.
        largest_rows: the largest global batch that fits; None where that was not asked.
        price: of a chip and hour; None where it was not given.
        rows_of_epoch: of which an epoch consists; None where it was not given.
        measured: rates of a chip that were measured, by the number of chips.
        notes: what the reader must know.
        seconds: of this process for lowering and compiling.
        suggestions: what to change, with what that would do.
        were_planned: whether the suggestions were, each by itself.
        trains: whether the step writes a trainable variable.
    """

    what: str
    group: ChipGroup
    replicas: int
    rows: int
    memory: Memory
    step: StepEstimate | None
    collectives: tuple[Collective, ...]
    operations: Known
    batch_bytes: Known
    input_rows: Known | None
    largest_rows: Known | None
    price: float | None
    rows_of_epoch: int | None
    measured: Mapping[int, float]
    notes: tuple[str, ...]
    seconds: Known
    suggestions: tuple[Suggestion, ...] = ()
    were_planned: bool = False
    trains: bool = True


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A step compiled for so many rows.

    Attributes:
        memory: what it takes.
        text: of the program; "" if there is no room for it.
        operations: FLOP of a device.
    """

    memory: Memory
    text: str
    operations: float


def plan_script(
    script: Path,
    arguments: Sequence[str],
    group: ChipGroup,
    *,
    rows: int | None = None,
    price: float | None = None,
    rows_of_epoch: int | None = None,
    measured: Mapping[int, float] | None = None,
    search: bool = False,
    variant: Variant = AS_WRITTEN,
    suggest: bool = False,
    measure_input: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> Plan:
    """Run a script up to its first training step, and plan that.

    `prepare_environment` came before JAX started in this process, which is of no other use after.

    Args:
        script: of the user.
        arguments: its command line.
        group: what to plan for.
        rows: of the global batch, in the place of the script's.
        price: of a chip and hour, in any currency.
        rows_of_epoch: of which an epoch consists.
        measured: rates of a chip that were measured, by the number of chips.
        search: whether to search for the largest batch, by compiling for several.
        variant: what is planned otherwise than the script says.
        suggest: whether to plan what might be changed, too, each by a compilation in a process of
            its own. What formulas say of it costs nothing, and is there in any case.
        measure_input: whether to measure how many rows a second the input makes here.
        say: is called with what happens.

    Raises:
        CompilerMissingError: if nothing compiles for the group.
        NotPlannedError: if what the script does cannot be planned.
        ScriptError: if the script raises, or ends without a step.
    """
    found, planner = find_step(script, arguments, group, rows, variant)
    started = time.perf_counter()
    say(f"Compiling {found.what} for {group.name}, {found.rows:,} rows a step")
    compiled = compile_step(found, found.rows, group)
    notes = _notes(found, planner, group)
    step = None
    collectives: tuple[Collective, ...] = ()
    if compiled.text:
        collectives = CompiledProgram(compiled.text).summary().collectives
        try:
            step = estimate_text(compiled.text, group, group.slices)
        except ValueError as error:
            notes.append(str(error))
    operations = Known(compiled.operations, "FLOP", "compiled", "the compiler's count, of a device")
    if step is not None and not operations.value:
        operations = Known(step.products, "FLOP", "model", "the products in the program's text")
    if step is not None and operations.value and group.chip.peak.value:
        share = step.share_of_peak(operations.value).value
        if share > 1:
            notes.append(
                f"{share:.0%} of the peak is more than a chip can: the time is far too short"
            )
    largest = None
    if search and found.rows:
        largest = largest_batch(found, compiled, group, say)
    elif compiled.text and found.rows:
        largest = guessed_largest(found, compiled, group)
    batch = [each for each in found.arguments(found.rows) if each.kind == "batch"]
    size = sum(_size(each) for each in batch)
    suggestions: tuple[Suggestion, ...] = ()
    seconds = Known(time.perf_counter() - started, "s", "measured", "this process")
    if found.trains and variant == AS_WRITTEN:
        suggestions = by_formula(found, compiled.memory, largest, planner.policy)
        if suggest:
            suggestions = planned(
                found, suggestions, planner.policy, script, arguments, group, rows, say
            )
    return Plan(
        found.what,
        group,
        found.strategy.num_replicas_in_sync,
        found.rows,
        compiled.memory,
        step,
        collectives,
        operations,
        Known(size, "B", "model", "shapes of the batch"),
        _measured_input(planner.dataset, notes) if measure_input else None,
        largest,
        price,
        rows_of_epoch,
        dict(measured or {}),
        tuple(notes),
        seconds,
        suggestions,
        suggest,
        found.trains,
    )


def _measured_input(dataset: Any, notes: list[str]) -> Known | None:
    """How many rows a second a dataset makes on this machine."""
    if not isinstance(dataset, Dataset):
        return None
    try:
        rows = np.shape(jax.tree.leaves(next(iter(dataset)))[0])[0]
        profile = dataset.profile(seconds=INPUT_SECONDS)
    except Exception as error:  # whatever the user's functions raise
        notes.append(f"the dataset could not be measured: {type(error).__name__}: {error}")
        return None
    if not profile.throughput:
        return None
    return Known(
        profile.throughput * rows,
        "rows/s",
        "measured",
        f"Dataset.profile() for {INPUT_SECONDS:g} s on this machine; '{profile.bottleneck.name}' "
        "limits it",
    )


def find_step(
    script: Path,
    arguments: Sequence[str],
    group: ChipGroup,
    rows: int | None = None,
    variant: Variant = AS_WRITTEN,
) -> tuple[FoundStep, Planner]:
    """Run a script up to its first step that trains, or to its end.

    Raises:
        NotPlannedError: if what the script does cannot be planned.
        ScriptError: if the script raises, or ends without a step.
    """
    planner = Planner(rows, variant)
    plan_strategies(lambda: devices_of(group), planner, variant)
    variant.start()
    before, path = sys.argv, list(sys.path)
    sys.argv, sys.path[0:1] = [str(script), *arguments], [str(script.resolve().parent)]
    ended: int | str | None = None
    # Of CPU devices there are as many as are planned for, whatever the script asks for.
    warnings.filterwarnings("ignore", message="set_logical_devices.* overrules")
    try:
        runpy.run_path(str(script), run_name="__main__")
    except StepFound:
        pass
    except SystemExit as error:
        ended = error.code
    except (NotPlannedError, CompilerMissingError):
        raise
    except Exception as error:
        if not planner.others:
            raise ScriptError(_told(error, script)) from error
        planner.raised = f"{type(error).__name__}: {error}".splitlines()[0]
    finally:
        plan_strategies(None)
        planner.policy = keras.config.dtype_policy().name
        sys.argv, sys.path[:] = before, path
    found = planner.found or next(iter(planner.others.values()), None)
    if found is not None:
        return found, planner
    if ended not in (None, 0):
        raise ScriptError(f"{script} ended with the exit code {ended} before any step of training.")
    raise ScriptError(
        f"{script} ended without a step of training: there was no `fit` of a model that was made "
        "in a strategy's scope, and no `strategy.run`. Give the arguments with which it trains "
        "behind its name."
    )


def compile_step(found: FoundStep, rows: int, group: ChipGroup) -> Compiled:
    """Compile a step for so many rows of the global batch."""
    arguments = found.arguments(rows)
    with seeing(found.strategy.replica_devices):
        lowered = found.lower(rows)
    try:
        program = found.strategy.compiled(lowered)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise NotPlannedError(
                f"The compiler for {group.name} refuses {found.what}: {str(error)[:2000]}"
            ) from error
        memory = out_of_memory(str(error), lowered.as_text(), arguments, group)
        return Compiled(memory, "", 0.0)
    text = program.as_text() or ""
    costs = program.cost_analysis() or {}
    operations = max(0.0, float(costs.get("flops", 0.0)))
    return Compiled(memory_of(program, text, arguments, group), text, operations)


def guessed_largest(found: FoundStep, compiled: Compiled, group: ChipGroup) -> Known | None:
    """The rows for which memory would just do if all but the state grows with the rows."""
    memory = compiled.memory
    if not memory.available.value:
        return None
    replicas = found.strategy.num_replicas_in_sync
    parts = dict(memory.parts)
    fixed = sum(
        known.value
        for name, known in parts.items()
        if name in ("parameters", "optimizer", "other variables", "the program itself")
    )
    grows = memory.total.value - fixed
    if grows <= 0:
        return None
    rows = int(found.rows * (memory.available.value - fixed) / grows)
    return Known(
        float(max(0, rows - rows % replicas)),
        "rows",
        "model",
        "all but the state grows with the rows; --largest-batch compiles to find it",
    )


MOST_COMPILATIONS = 8


def largest_batch(
    found: FoundStep, compiled: Compiled, group: ChipGroup, say: Callable[[str], None]
) -> Known | None:
    """The largest global batch that fits, by compiling for several, at most `MOST_COMPILATIONS`.

    Batches are multiples of the replicas; the answer is right to an eighth of it.
    """
    replicas = found.strategy.num_replicas_in_sync
    each = max(1, found.rows // replicas)
    fits = each if compiled.memory.fits else 0
    fails = 0 if compiled.memory.fits else each
    guess = guessed_largest(found, compiled, group) if compiled.text else None
    tried = int(guess.value) // replicas if guess else max(1, each // 2)
    for _ in range(MOST_COMPILATIONS):
        if fails and fails - fits <= max(1, fits // 8):
            break
        if not fits < tried or (fails and not tried < fails):
            tried = fits * 2 if not fails else (fits + fails) // 2
        say(f"Compiling for {tried * replicas:,} rows")
        try:
            ok = compile_step(found, tried * replicas, group).memory.fits
        except (
            Exception,
            NotPlannedError,
        ) as error:  # what the script's step does with other shapes
            return Known(
                float(fits * replicas),
                "rows",
                "compiled",
                f"the largest that was tried: {tried * replicas} rows cannot be compiled "
                f"({type(error).__name__})",
            )
        if ok is None:
            return None
        fits, fails = (tried, fails) if ok else (fits, tried)
        tried = fits * 2 if not fails else (fits + fails) // 2
    above = f"; {fails * replicas:,} do not fit" if fails else "; more were not tried"
    return Known(float(fits * replicas), "rows", "compiled", f"bisection{above}")


def _notes(found: FoundStep, planner: Planner, group: ChipGroup) -> list[str]:
    notes = []
    if not found.trains:
        notes.append(f"{found.what} writes no trainable variable; no step that does came first")
    if planner.raised:
        notes.append(
            f"the script raised {planner.raised[:200]} after steps whose results were taken as "
            "zeros, before one that trains"
        )
    notes += [
        f"{other.what}, which came before, was not run: its results were taken as zeros"
        for other in planner.others.values()
        if other is not found
    ]
    if group.chip.cores > 1:
        notes.append(f"a chip has {group.chip.cores} cores, each of which is a replica")
    return notes


def _size(argument: Any) -> float:
    size = argument.dtype.itemsize
    for side in argument.shape:
        size *= side
    return float(size)


def _told(error: Exception, script: Path) -> str:
    """What a script raised, with its own part of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "drumline/plan" not in frame.filename]
    own = [frame for frame in own if "runpy" not in frame.filename]
    lines = traceback.format_list(own[-6:]) + traceback.format_exception_only(error)
    hint = ""
    if isinstance(error, FileNotFoundError):
        hint = (
            "\nThe script is run here up to its first step, so it needs its input here, too: as "
            "much as its first batch takes."
        )
    return f"{script} raised before its first step:\n{''.join(lines).rstrip()}{hint}"
