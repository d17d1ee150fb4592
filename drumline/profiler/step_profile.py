"""Making a step profile: epochs of a recorder's events, measured hardware, and other processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from drumline import _recorder
from drumline._core import count_sums, sum_counters
from drumline._extras import import_extra
from drumline._local_path import local_path
from drumline._recorder import COMMUNICATION, COMPUTING, PROFILER, Place, StepRecorder
from drumline.profiler import communication, hardware, prometheus
from drumline.profiler.device_trace import DeviceTrace
from drumline.profiler.epoch_profile import EpochProfile

_COMPILING_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)
_SAMPLED_STEPS = (4, 7)
_TRACING = "a trace of some steps, once"
_MEASURING = "measuring the hardware's peak, once"
_listening = False


def _listen() -> None:
    """Have JAX tell of tracing and compiling, once in a process."""
    global _listening
    if not _listening:
        _listening = True
        jax.monitoring.register_event_duration_secs_listener(_heard)


def _heard(event: str, duration_secs: float, **_: Any) -> None:
    recorder = _recorder.active
    if recorder is not None and event in _COMPILING_EVENTS:
        recorder.compiled(duration_secs)


class StepProfile:
    """Where the time of a training goes, epoch by epoch; made by `profile_steps`.

    Attributes:
        epochs: an `EpochProfile` for each epoch that has ended.

    Example:
        >>> import jax
        >>> step = jax.jit(lambda x: x.sum())
        >>> with dl.profile_steps() as profile:
        ...     for batch in np.ones((3, 4, 2), np.float32):
        ...         profile.step(step(batch), rows=len(batch))
        >>> profile.total.steps, profile.total.rows
        (3, 12)
    """

    def __init__(
        self, *, trace: str | os.PathLike[str] | None = None, steps: tuple[int, int] = (10, 12)
    ) -> None:
        self.epochs: list[EpochProfile] = []
        self._trace = None if trace is None else DeviceTrace(trace, steps)
        self._recorder: StepRecorder | None = None
        self._flops: dict[int, tuple[Counter[str], int] | None] = {}
        self._first = self._sums = (0, 0, 0.0, 0.0)
        self._recording = 0.0
        self._steps_before = 0
        self._sample: DeviceTrace | None = None
        self._coordinators = communication.Coordinators()

    # Making it.

    def start(self) -> None:
        """Record the calling thread from now on.

        Raises:
            RuntimeError: another step profile is being made in this process.
        """
        if _recorder.active is not None:
            raise RuntimeError(
                "A step profile is being made in this process already, and there can be one at a "
                "time: end it first, or leave out StepProfiler or profile_steps here."
            )
        _listen()
        count_sums(True)
        self._first = self._sums = sum_counters()
        self._recorder = _recorder.active = StepRecorder()
        self._recording, self._steps_before = 0.0, 0
        self._recorder.on_coordinator = self._coordinators.begin
        self._recorder.on_step = self._step_started

    def measure_peak(self, devices: Sequence[jax.Device], dtype: str) -> None:
        """Measure what devices can compute, before the training keeps them busy; once in a process.

        Where this is not called, they are measured when the first epoch ends.

        Args:
            devices: of this process; none of parameter servers' chief.
            dtype: in which the model computes.
        """
        if self._recorder is not None and devices:
            with self._recorder.at(PROFILER, _MEASURING):
                hardware.peak_of(devices, dtype)

    def stop(self) -> None:
        """Record no more. What was recorded since the last epoch is dropped."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        _recorder.active = None
        count_sums(False)
        for trace in (self._trace, self._sample):
            if trace is not None:
                trace.stop()
        recorder.close()

    @property
    def is_running(self) -> bool:
        """Whether it records."""
        return self._recorder is not None

    def end_epoch(self) -> EpochProfile:
        """End an epoch here: what was recorded since the last one is its profile.

        Where the training spans processes, all of them call this together.

        Returns:
            The epoch's profile, which is the last of `epochs` as well.

        Raises:
            RuntimeError: the profile is not being made any more.
        """
        recorder = self._recorder
        if recorder is None:
            raise RuntimeError("The step profile has ended: call end_epoch() within its block.")
        with recorder.at(PROFILER):
            epoch = self._epoch(recorder)
            self.epochs.append(epoch)
        return epoch

    def step(self, results: Any, rows: int = 0) -> None:
        """Note a step of a loop that drumline does not run, such as one of plain `jax.jit`.

        Args:
            results: what the step returned, arrays of JAX's among it. They are not waited for.
            rows: how many rows of input the step took.
        """
        if self._recorder is not None:
            self._recorder.taken = rows
            self._recorder.returned(results, self._recorder.clock())

    # Reading it.

    @property
    def total(self) -> EpochProfile:
        """All epochs together.

        Raises:
            ValueError: there is none yet.
        """
        if not self.epochs:
            raise ValueError("No epoch has ended yet, so there is no total.")
        return _together(self.epochs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.epochs)) or "no epoch has ended yet"

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw a stacked bar for each epoch, as a PNG.

        Raises:
            ImportError: matplotlib is not installed; the extra ``profile`` brings it.
        """
        save_picture(self.epochs, local_path(path, "plot", "the picture"))

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write all epochs as JSON."""
        text = json.dumps([epoch.as_dict() for epoch in self.epochs], indent=1)
        Path(local_path(path, "save_json", "the profile")).write_text(text)

    def prometheus(self) -> str:
        """Return the profile in Prometheus's text format, to be served or written to a file."""
        return prometheus.as_text(self.epochs)

    # Inside.

    def _step_started(self, array: Any) -> None:
        recorder = self._recorder
        assert recorder is not None
        trace = self._trace
        if trace is None:
            # Collectives within programs that nothing counts are seen in a trace of a few steps.
            if self._steps_before + recorder.steps < _SAMPLED_STEPS[0]:
                return
            if self._sample is None:
                self._sample = DeviceTrace(None, (0, _SAMPLED_STEPS[1] - _SAMPLED_STEPS[0]))
                self._sample.is_over = not communication.within_programs(
                    recorder.strategies
                ) or bool(self._since_start()[0])
            trace = self._sample
        if trace.is_over:
            recorder.on_step = None
            return
        with recorder.at(PROFILER, _TRACING):
            trace.step_started(array)

    def _epoch(self, recorder: StepRecorder) -> EpochProfile:
        began, ended, places = recorder.take()
        steps, recorder.steps = recorder.steps, 0
        self._steps_before += steps
        rows, recorder.rows = recorder.rows, 0
        counted = communication.in_programs(recorder.strategies, self._since_last())
        known = self._split_computing(places, counted, recorder)
        remote = self._coordinators.since_last(recorder.coordinators)
        if remote is not None:
            remote.split(places)
            steps = steps or remote.steps
        parts, details = _parts(places)
        before, self._recording = self._recording, recorder.own_seconds
        epoch = EpochProfile(
            number=len(self.epochs),
            seconds=ended - began,
            steps=steps,
            rows=rows,
            parts=parts,
            details=details,
            stage=_busiest(recorder),
            flops=self._flops_of(recorder, steps, rows),
            peak=self._peak(recorder),
            host_bytes=hardware.host_peak_bytes(),
            device_bytes=hardware.device_peak_bytes(_devices(recorder)),
            communicated=counted.nbytes if counted is not None else None,
            communication_known=known,
            profiler_seconds=parts[PROFILER] + self._recording - before,
        )
        if remote is not None:
            return communication.named(epoch, remote.shares)
        return communication.exchange(recorder.strategies, epoch)

    def _since_start(self) -> tuple[int, ...]:
        return tuple(
            int(now - before) for now, before in zip(sum_counters(), self._first, strict=True)
        )

    def _since_last(self) -> tuple[int, int, float, float]:
        now, before = sum_counters(), self._sums
        self._sums = now
        return (now[0] - before[0], now[1] - before[1], now[2] - before[2], now[3] - before[3])

    def _split_computing(
        self,
        places: dict[Place, float],
        counted: communication.Counted | None,
        recorder: StepRecorder,
    ) -> bool:
        """Move the time of collectives within programs from computing; whether it is known."""
        seconds: float | None = None if counted is None else counted.seconds
        name = communication.ALL_REDUCE
        if seconds is None:
            if not communication.within_programs(recorder.strategies):
                return True
            share = self._communication_share()
            if share is None:
                return False
            seconds = share * places.get((COMPUTING, ""), 0.0)
        seconds = min(seconds, places.get((COMPUTING, ""), 0.0))
        if seconds:
            places[COMPUTING, ""] -= seconds
            place = (COMMUNICATION, name)
            places[place] = places.get(place, 0.0) + seconds
        return True

    def _communication_share(self) -> float | None:
        """The share of computing that is communication, as seen in a trace; None if in none."""
        for trace in (self._trace, self._sample):
            if trace is not None and trace.communication_share is not None:
                return trace.communication_share
        return None

    def _flops_of(self, recorder: StepRecorder, steps: int, rows: int) -> float | None:
        """The FLOPs of all steps: those of the program with most, per row where rows are known."""
        for key, (program, arguments, taken) in recorder.programs_seen.items():
            if key not in self._flops:
                self._flops[key] = _counted(program, arguments, taken)
        found = [each for each in self._flops.values() if each is not None]
        if not found or not steps:
            return None
        flops, taken = max(found, key=lambda each: each[0].total())
        if taken and rows:
            return float(flops.total()) * rows / taken
        return float(flops.total()) * steps

    def _peak(self, recorder: StepRecorder) -> float | None:
        found = [each for each in self._flops.values() if each is not None]
        types: Counter[str] = Counter()
        for flops, _ in found:
            types += flops
        if not types:
            return None
        with recorder.at(PROFILER, _MEASURING):
            return hardware.peak_of(_devices(recorder), types.most_common(1)[0][0])


def _counted(program: Any, arguments: Any, rows: int) -> tuple[Counter[str], int] | None:
    try:
        return hardware.model_flops(program, arguments), rows
    except Exception as error:  # of the user's function, if it has to be traced again
        reason = traceback.format_exception_only(error)[-1].strip()
        warnings.warn(
            f"The FLOPs of a step are not known, since it cannot be traced again: {reason}",
            stacklevel=2,
        )
        return None


def _devices(recorder: StepRecorder) -> list[jax.Device]:
    """Those of this process on which steps ran."""
    devices: dict[jax.Device, None] = {}
    for strategy in recorder.strategies:
        devices |= dict.fromkeys(getattr(strategy, "local_replica_devices", ()))
    if not devices and recorder.last_array is not None:
        devices = dict.fromkeys(recorder.last_array.sharding.addressable_devices)
    return list(devices)


def _busiest(recorder: StepRecorder) -> str:
    """The stage of the pipeline that worked longest, of those that were read."""
    found = [pipeline.busiest() for pipeline in recorder.pipelines]
    recorder.pipelines = [each for each in recorder.pipelines if not each.ended]
    name, seconds = max(found, key=lambda each: each[1], default=("", 0.0))
    return name if seconds else ""


def _parts(places: dict[Place, float]) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    parts = dict.fromkeys(_recorder.PARTS, 0.0)
    details: dict[str, dict[str, float]] = {}
    for (part, name), seconds in places.items():
        parts[part] += seconds
        if name:
            named = details.setdefault(part, {})
            named[name] = named.get(name, 0.0) + seconds
    return parts, details


def _together(epochs: list[EpochProfile]) -> EpochProfile:
    parts = dict.fromkeys(_recorder.PARTS, 0.0)
    details: dict[str, dict[str, float]] = {}
    for epoch in epochs:
        for part, seconds in epoch.parts.items():
            parts[part] += seconds
        for part, named in epoch.details.items():
            own = details.setdefault(part, {})
            for name, seconds in named.items():
                own[name] = own.get(name, 0.0) + seconds
    flops = [epoch.flops for epoch in epochs]
    known = [each for each in flops if each is not None]
    return dataclasses.replace(
        epochs[-1],
        name=f"{len(epochs)} epochs",
        seconds=sum(epoch.seconds for epoch in epochs),
        steps=sum(epoch.steps for epoch in epochs),
        rows=sum(epoch.rows for epoch in epochs),
        parts=parts,
        details=details,
        flops=sum(known) if len(known) == len(flops) else None,
        profiler_seconds=sum(epoch.profiler_seconds for epoch in epochs),
    )


_COLORS = {
    "computing": "tab:green",
    "communication": "tab:orange",
    "input": "tab:red",
    "compiling": "tab:purple",
    "checkpointing": "tab:brown",
    "validation": "tab:olive",
    "Python": "tab:blue",
    "profiler": "tab:gray",
}


def save_picture(epochs: Sequence[EpochProfile], path: str | os.PathLike[str]) -> None:
    """Bars of the seconds of each part, an epoch a bar, with its rate written above.

    Raises:
        ImportError: matplotlib is not installed; the extra ``profile`` brings it.
        ValueError: no epoch has ended yet.
    """
    if not epochs:
        raise ValueError("plot: no epoch has ended yet, so there is nothing to draw.")
    figure_class = import_extra(
        "matplotlib.figure", "profile", "The picture of a step profile"
    ).Figure
    figure = figure_class(figsize=(4.5 + 0.5 * min(20, len(epochs)), 4.2), layout="constrained")
    axes = figure.subplots()
    places = [epoch.number + 1 for epoch in epochs]
    below = [0.0] * len(epochs)
    for part in _recorder.PARTS:
        seconds = [epoch.parts.get(part, 0.0) for epoch in epochs]
        if sum(seconds) < 1e-3 * sum(epoch.seconds for epoch in epochs):
            continue
        axes.bar(places, seconds, 0.7, bottom=below, color=_COLORS[part], label=part)
        below = [base + more for base, more in zip(below, seconds, strict=True)]
    for epoch, top in zip(epochs, below, strict=True):
        axes.text(
            epoch.number + 1,
            top,
            f"{100 * epoch.goodput:.0f} %" + (f"\n{epoch.slow}" if epoch.slow else ""),
            ha="center",
            va="bottom",
            fontsize="small",
        )
    axes.margins(y=0.12)
    axes.set_xlabel("epoch; above it its goodput")
    axes.set_ylabel("seconds")
    axes.xaxis.get_major_locator().set_params(integer=True)
    figure.legend(loc="outside right upper")
    figure.savefig(path, format="png", dpi=120)


@contextlib.contextmanager
def profile_steps(
    *,
    trace: str | os.PathLike[str] | None = None,
    steps: tuple[int, int] = (10, 12),
) -> Iterator[StepProfile]:
    """Profile the steps that run within a block, in the thread that enters it.

    Each moment of the thread belongs to one part, so that the parts add up to the wall time:
    computing, communication, waiting for input, compiling, checkpointing, validation, Python, and
    the profiler itself. No step is waited for. `docs/training/step_profiler.md` says how
    each is known.

    An epoch ends where `StepProfile.end_epoch` is called; what follows the last call is another one
    when the block ends, if steps ran in it. Keras's `fit` has
    `drumline.keras.callbacks.StepProfiler` in the place of this.

    Args:
        trace: a directory for a trace of devices, which XProf and Perfetto show; None for none.
        steps: the first step that is traced, counted from 0, and the one that is not any more.

    Returns:
        What gives a `StepProfile`.

    Raises:
        RuntimeError: another step profile is being made in this process.
        ValueError: `steps` are not two numbers in order.

    Example:
        >>> strategy = dl.distribute.MirroredStrategy(["cpu:0"])
        >>> dataset = dl.data.Dataset.from_tensor_slices(np.ones((8, 4), np.float32)).batch(4)
        >>> with dl.profile_steps() as profile:
        ...     for epoch in range(2):
        ...         for batch in dataset:
        ...             total = strategy.run(lambda x: (x @ x.T).sum(), args=(batch,))
        ...         ended = profile.end_epoch()
        >>> [epoch.steps for epoch in profile.epochs]
        [2, 2]
    """
    profile = StepProfile(trace=trace, steps=steps)
    profile.start()
    try:
        yield profile
        recorder = profile._recorder
        if recorder is not None and recorder.steps:
            profile.end_epoch()
    finally:
        profile.stop()
