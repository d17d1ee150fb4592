"""A step profile of every epoch of `fit`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import keras

from drumline._local_path import local_path
from drumline.keras.resuming.fit_run import run_of
from drumline.keras.state import is_on_servers, strategy_of
from drumline.profiler import EpochProfile, StepProfile
from drumline.profiler.prometheus import MetricsServer


class StepProfiler(keras.callbacks.Callback):
    """Split the time of every epoch of `fit` into parts, and say which process is slow.

    After each epoch it prints one line, such as ``epoch 2: 12.4 s, 87 % computing, 9 % input: map
    parse, 4 % all-reduce; 1,290 rows/s; 41 % of peak; worker:3 is slow``. The parts (computing,
    communication, input, compiling, checkpointing, validation, Python, the profiler itself) add up
    to the wall time. Steps are not waited for, and what is computed is the same with it as without.
    ``docs/training/step_profiler.md`` says how each number is known.

    Of several processes each makes its profile, and all of them need the callback; the first one
    prints. On parameter servers it belongs to the chief's `fit`, which asks the workers.

    Args:
        verbose: 1 to print a line after each epoch, 0 to print nothing.
        trace: a directory for a trace of the devices, which XProf, TensorBoard's profile plugin and
            Perfetto show; None for none.
        steps: the first step that is traced, counted from 0, and the one that is not any more.
        prometheus: a port of this machine's own address at which ``/metrics`` are served while
            `fit` runs (0 for any that is free, see `port`), or a file that is replaced after each
            epoch; None for neither.

    Attributes:
        profile: a `StepProfile` of the training under way, or of the last one. It can be drawn
            (``profile.plot("profile.png")``) and saved (``profile.save_json("profile.json")``).

    Raises:
        ValueError: if `steps` are not two numbers in order, or `verbose` is neither 0 nor 1.

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> profiler = dl.keras.callbacks.StepProfiler(verbose=0)
        >>> x, y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
        >>> history = model.fit(x, y, batch_size=4, verbose=0, callbacks=[profiler])
        >>> epoch = profiler.profile.epochs[0]
        >>> epoch.steps, epoch.rows
        (2, 8)
        >>> bool(abs(sum(epoch.parts.values()) - epoch.seconds) < 1e-6)
        True
    """

    after_others = 1

    def __init__(
        self,
        verbose: Literal[0, 1] = 1,
        trace: str | os.PathLike[str] | None = None,
        steps: tuple[int, int] = (10, 12),
        prometheus: int | str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__()
        if verbose not in (0, 1):
            raise ValueError(f"StepProfiler: verbose must be 0 or 1, got {verbose!r}.")
        self._verbose = bool(verbose)
        self._options: dict[str, Any] = {"trace": trace, "steps": steps}
        self._prometheus = prometheus
        self._server: MetricsServer | None = None
        self.profile = StepProfile(**self._options)

    @property
    def port(self) -> int | None:
        """Where metrics are served; None while they are not."""
        return None if self._server is None else self._server.port

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Begin a profile."""
        self.profile = StepProfile(**self._options)
        self.profile.start()
        self.profile.measure_peak(_devices_of(self.model), self.model.compute_dtype)
        run = run_of(self.model)
        if run is not None:
            run.profile = self.profile
            run.at_end.append(self.end)  # also where it raises, which callbacks do not see
        if isinstance(self._prometheus, int) and self._is_chief:
            self._server = MetricsServer(self.profile.prometheus, self._prometheus)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Profile the epoch that ends, and print its line."""
        found = self.profile.end_epoch()
        if not self._is_chief:
            return
        self._report(found)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """End the profile."""
        self.end()

    def end(self) -> None:
        """Record and serve no more; what was profiled stays."""
        self.profile.stop()
        server, self._server = self._server, None
        if server is not None:
            server.close()

    @property
    def _is_chief(self) -> bool:
        strategy = strategy_of(self.model)
        return strategy is None or not strategy.spans_processes or strategy.process_index == 0

    def _report(self, epoch: EpochProfile) -> None:
        if self._verbose:
            print(epoch, flush=True)
        if self._prometheus is not None and not isinstance(self._prometheus, int):
            replace_text(self._prometheus, self.profile.prometheus())


def _devices_of(model: keras.Model) -> Sequence[jax.Device]:
    """Those of this process that train the model; none for the chief of parameter servers."""
    if is_on_servers(model):
        return ()
    strategy = strategy_of(model)
    return jax.local_devices()[:1] if strategy is None else strategy.local_replica_devices


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file that a collector reads at any moment: it sees the old one or the new one."""
    target = Path(local_path(path, "StepProfiler", "the metrics"))
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.write_text(text)
    os.replace(beside, target)
