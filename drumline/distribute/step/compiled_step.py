"""A step over the replicas that is traced, compiled, and run with the variables it uses.

Where a step runs within a larger program, it is compiled for each place there, with collective
channels of its own (`NumberedPrograms`).
`InFlight` bounds how many programs of a strategy run at once.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import jax
import numpy as np

from drumline import _recorder
from drumline._interrupts import signals_held_back
from drumline.data.elements.precision import (
    any_wide,
    in_32_bits,
    in_64_bits,
    keeping_64_bits,
    require_fits,
)
from drumline.distribute.collectives.collective_channels import (
    ChannelAllocator,
    ChannelRange,
    channels_here,
)
from drumline.distribute.collectives.devices import is_local
from drumline.distribute.global_arrays import RepeatedMoves
from drumline.distribute.process_group import watch_pending, watchdog
from drumline.distribute.process_group.host_collectives import joint_actions
from drumline.distribute.step.arguments import ArgumentSpec
from drumline.distribute.step.cut_rows import CutScope, give_back, owner_of_cut, values_taken
from drumline.distribute.variable import broadcast_initial_values
from drumline.training.cut_values import is_cut
from drumline.training.jax_internals import current_trace, has_gradient_as_a_whole, is_staged
from drumline.training.keras_internals import Variable, get_stateless_scope, thread_state
from drumline.training.outbox import Parcels, collecting
from drumline.training.state_scope import (
    NewVariables,
    StateScope,
    WideVariables,
    assign_values,
    current_values,
    initialize_created,
    keeps_64_bits,
    refuse_created,
    refusing_wide,
)
from drumline.training.tape.recording import CapturedValueError
from drumline.training.tape.session import compiles_functions, read_unconverted
from drumline.training.variable_buffer import VariableBuffer

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_log = logging.getLogger("drumline")


def in_flight_of(variable: Any) -> InFlight | None:
    """What says when programs that use a variable of several devices, and of no strategy, start."""
    found: InFlight | None = vars(variable).get("_drumline_in_flight")
    return found


def sends_parcels(strategy: Strategy) -> bool:
    """Whether what a strategy's steps deliver is sent by this process, as it has replica 0."""
    first = strategy.replica_devices[0]
    return not strategy.spans_processes or is_local(first)


class NotPlannedError(BaseException):
    """What a script does cannot be planned; the message says what, and what to do.

    Not an `Exception`, so that no handler of the script's takes it.
    """


class StepPlanner(Protocol):
    """What a strategy asks in the place of running, if its devices are not there.

    A strategy has one as ``_planner``, or None.
    """

    def saw_input(self, dataset: Any) -> None:
        """Note the dataset that the next steps' batches come from; None if it is none."""

    def divided(self, strategy: Strategy, batch: Any) -> Any:
        """The values for the replicas of a global batch."""

    def from_shares(self, strategy: Strategy, batches: Sequence[Any]) -> Any:
        """The values for the replicas of batches of which each replica takes one."""

    def training_step(self, step: Any, state: Any, batch: Any) -> Any:
        """What a call of a `TrainStep` returns."""

    def other_step(self, step: Any, state: Any, batch: Any) -> Any:
        """What a call of a `GlobalBatchStep` of `evaluate` or `predict` returns."""

    def run_step(self, step: CompiledStep, arrays: Sequence[Any]) -> Any:
        """What the program of a step returns, its outputs alone."""


class InFlight:
    """What a strategy's devices are computing.

    XLA's CPU client runs the programs of all its devices on one pool of max(cores, devices)
    threads. A program that waits in a collective blocks its thread; with as many devices as
    threads and several steps under way, the threads end up blocked by programs whose partners
    find none, and after 40 s XLA aborts the process (seen with 2 devices on 2 cores). On several
    CPU devices a program therefore starts when the one before has ended. Fetching the next batch
    and the callbacks still overlap with it.

    On the accelerators of several processes one program may run while the next one is started. The
    wait for the one before that is where the process notices that a peer is lost, or that a step
    takes too long.

    Args:
        devices: the devices of a strategy's replicas.
        timeout_seconds: how long a program of several processes may take; None for no limit.
    """

    def __init__(
        self, devices: Sequence[jax.Device], *, timeout_seconds: float | None = None
    ) -> None:
        self._spans = not all(map(is_local, devices))
        on_cpus = len(devices) > 1 and devices[0].platform == "cpu"
        self._most = 1 if on_cpus else 2 if self._spans else 0
        self.timeout_seconds = timeout_seconds
        self._under_way: deque[tuple[float, int, list[jax.Array]]] = deque()
        if self._spans:
            watch_pending(self._oldest, timeout_seconds)

    def wait(self) -> None:
        """Return when the next program may start.

        Raises:
            PeerLostError: if one failed because another process is gone.
        """
        while self._most and len(self._under_way) >= self._most:
            _, number, arrays = self._under_way[0]
            try:
                with watchdog(number) if self._spans else contextlib.nullcontext():
                    kept = [array for array in arrays if not array.is_deleted()]
                    if not kept and len(self._under_way) > 1:  # the next one has used them up
                        kept = [a for a in self._under_way[1][2] if not a.is_deleted()]
                    jax.block_until_ready(kept)  # all at once: each wait lets other threads run
            finally:  # the error of a program is raised once
                self._under_way.popleft()

    def started(self, outputs: Any) -> None:
        """Note the outputs of a program that has been started."""
        if self._most:
            arrays = jax.tree.leaves(outputs)
            if self._spans and arrays and not arrays[0].is_fully_addressable:
                joint_actions.programs += 1
            self._under_way.append((time.monotonic(), joint_actions.programs, arrays))

    def _oldest(self) -> tuple[float, int] | None:
        """When the oldest program that has not ended was started, and its number."""
        for since, number, arrays in tuple(self._under_way):
            if not all(map(_has_ended, arrays)):
                return since, number
        return None


def _has_ended(array: jax.Array) -> bool:
    """Whether the program that computes `array` has ended; asked in a thread of its own."""
    try:
        return array.is_deleted() or bool(array.is_ready())  # type: ignore[attr-defined]
    except RuntimeError:  # deleted between the two
        return True


class NumberedPrograms:
    """A program over the replicas, compiled: of a step for `Strategy.run`, or of Keras's trainer.

    The first argument is what the program writes; by itself it gives its buffers away.

    Args:
        program: traced once for each set of channels that its sums take, see `ChannelRange`.
        compiler_options: for XLA, where the program runs by itself.
        shardings: ``in_shardings`` and ``out_shardings`` of `jax.jit`, for what does not come
            placed.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        *,
        compiler_options: dict[str, Any] | None = None,
        **shardings: Any,
    ) -> None:
        self._program = program
        self._shardings = shardings
        self._alone = jax.jit(
            ChannelRange(program, ChannelAllocator()),
            donate_argnums=0,
            compiler_options=compiler_options,
            **shardings,
        )
        self._inside: dict[ChannelAllocator | None, tuple[ChannelRange, Any]] = {}

    def alone(self, *arguments: Any) -> Any:
        """Run it by itself; the buffers of the first argument are given away."""
        recorder = _recorder.active
        if recorder is not None and recorder.is_here():
            recorder.describes(self._alone, arguments)
        return self._alone(*arguments)

    def lowered(self, *arguments: Any) -> jax.stages.Lowered:
        """The program of `alone` for shapes that say where the arrays lie; nothing runs."""
        lowered: jax.stages.Lowered = self._alone.lower(*arguments)
        return lowered

    def jaxpr(self, *arguments: Any) -> Any:
        """The program as `inside` would run it outside of all programs."""
        return self._numbered(None)[1].trace(*arguments).jaxpr.jaxpr

    def _numbered(self, first: ChannelAllocator | None) -> tuple[ChannelRange, Any]:
        if first not in self._inside:
            numbered = ChannelRange(self._program, first)
            self._inside[first] = numbered, jax.jit(numbered, **self._shardings)
        return self._inside[first]

    def inside(self, *arguments: Any) -> Any:
        """Run it as part of the program that is being traced."""
        channels = channels_here()
        first = channels.first if channels is not None else None
        numbered, compiled = self._numbered(first)
        outputs = compiled(*arguments)
        if channels is not None:
            channels.first = channels.first.after(numbered.end)
        return outputs


def representable(
    fn: Callable[..., Any], arrays: Sequence[Any], *, keep_64_bits: bool
) -> Sequence[Any]:
    """The arrays of a step's arguments, those of numpy's 64-bit numbers in 64 bits or checked.

    Raises:
        OverflowError: if an integer does not fit, see `require_fits`.
    """
    if keep_64_bits:
        kept: Sequence[Any] = in_64_bits(list(arrays))
        return kept
    for array in arrays:
        if isinstance(array, (np.ndarray, np.generic)):
            require_fits(
                array,
                f"An argument of {getattr(fn, '__qualname__', fn)}",
                "pass `options=dl.distribute.RunOptions(keep_64_bits=True)` to `strategy.run`, or "
                "compile with `dl.function(keep_64_bits=True)`",
            )
    return arrays


class CompiledStep:
    """``fn`` for all replicas, for arguments of one form.

    The variables that `fn` reads and writes are found by tracing it once for shapes alone. They
    become inputs and outputs of one function, which is compiled with the old values donated.
    Inside another trace the step becomes part of that.

    Args:
        strategy: whose replicas run.
        fn: the step.
        form: its arguments but for their arrays.
        keep_64_bits: whether numpy's 64-bit numbers among the arrays stay such. Else integers that
            do not fit into 32 bits are refused.

    Attributes:
        taking_part: the strategies whose steps became part of this one.
        may_be_left: whether its trace may end early, see `StateScope`.
        is_one_because: why it is not divided where variables live on another device, if that is
            to be said.
    """

    may_be_left = False
    is_one_because: str | None = None

    def __init__(
        self,
        strategy: Strategy,
        fn: Callable[..., Any],
        form: ArgumentSpec,
        *,
        keep_64_bits: bool = False,
    ) -> None:
        self._keep_64_bits = keep_64_bits
        self._reads_64_bits = False
        self.strategy = strategy
        self.fn = fn
        self.form = form
        self.written: list[Variable] = []
        self.read: list[Variable] = []
        self._bank: VariableBuffer | None = None
        self._guards: list[InFlight] = []
        self._mover: Strategy | None = None
        self._placed_read: RepeatedMoves | None = None
        self.taking_part: list[Strategy] = []
        self._is_one_because = self.is_one_because
        self._compiled: NumberedPrograms | None = None
        self._with_gradient: dict[Any, bool] = {}

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Run the step on the arrays of its arguments, and return what the replicas return.

        Raises:
            OverflowError: if an integer does not fit, see `require_fits`.
        """
        arrays = representable(self.fn, arrays, keep_64_bits=self._keep_64_bits)
        # An interrupt may come when a context was entered and its block has not begun: nothing
        # leaves it then. What a trace has entered ends here.
        scope = get_stateless_scope()
        try:
            return contextvars.copy_context().run(self._in_own_precision, arrays)
        except BaseException:
            thread_state()["stateless_scope"] = scope
            raise

    def _in_own_precision(self, arrays: Sequence[Any]) -> Any:
        if self._reads_64_bits or any_wide(arrays):
            return self._run_in_64_bits(arrays)
        try:
            with refusing_wide(True):
                return self._run_traced(arrays)
        except WideVariables:
            return self._run_in_64_bits(arrays)

    def _run_in_64_bits(self, arrays: Sequence[Any]) -> Any:
        self._reads_64_bits = True
        if not jax.config.read("jax_enable_x64"):  # what was not to be kept is as in other steps
            arrays = [in_32_bits(array) for array in arrays]
        with keeping_64_bits(), refusing_wide(False):
            return self._run_traced(arrays)

    def _run_traced(self, arrays: Sequence[Any]) -> Any:
        if self._compiled is None:
            self._compile(arrays)
        try:
            return self.finish(self._run(arrays))
        except NewVariables:
            self._compile(arrays)
            return self.finish(self._run(arrays))

    def jaxpr(self, arrays: Sequence[Any]) -> Any:
        """The program, of a step that has run, for arrays of these shapes."""
        with keeping_64_bits(self._reads_64_bits):
            return self._programs.jaxpr(
                current_values(self.written), current_values(self.read), list(arrays)
            )

    def rows_of(self, arrays: Sequence[Any]) -> int:
        """How many rows of input a call takes, by its first array, for step profiles."""
        return _recorder.rows_of(arrays)

    def discover(self, arrays: Sequence[Any]) -> StateScope:
        """Trace `fn` for shapes alone, and return the scope that saw the variables it uses."""
        raise NotImplementedError

    @property
    def takes_rows(self) -> bool:
        """Whether the program can take variables that are cut over replicas as rows."""
        return self.strategy._cuts_slots

    def program(self, written: Any, read: Any, arrays: Any) -> tuple[Any, Any, Parcels]:
        """Traced: what the replicas return, what written variables are to hold, and parcels."""
        raise NotImplementedError

    def place(self, arrays: Sequence[Any]) -> list[Any]:
        """Put the arrays of the arguments on the devices that compute with them."""
        raise NotImplementedError

    def finish(self, outputs: Any) -> Any:
        """Turn what `program` returned into what the caller of the step gets."""
        raise NotImplementedError

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """In which variables that the step creates get their values."""
        return self.strategy.scope()

    def in_flight(self) -> list[InFlight]:
        """What must have come to its end before the step may start."""
        return [self.strategy._in_flight]

    def moving(self) -> Strategy | None:
        """The strategy whose variables the program takes otherwise than they live, if any.

        Global arrays of several processes, or copies of what lives on another device.
        """
        variables = [*self.written, *self.read]
        return self.strategy if self.strategy._arrays.moves(variables) else None

    @property
    def _planner(self) -> StepPlanner | None:
        """Of the strategies whose replicas the step runs on, if their devices are not there."""
        strategies = (self.strategy, *self.taking_part)
        return next((each._planner for each in strategies if each._planner is not None), None)

    @property
    def _spans_processes(self) -> bool:
        return self._mover is not None and self._mover.spans_processes

    @property
    def _parcels_sharding(self) -> Any:
        """Where parcels of several dimensions lie; None leaves it to the compiler."""
        return self._mover._arrays.program_sharding if self._spans_processes else None  # type: ignore[union-attr]

    def _run(self, arrays: Sequence[Any]) -> Any:
        scope = get_stateless_scope()
        read = values_taken(self.read)
        if scope is not None:
            if isinstance(scope, StateScope):
                scope.taking_part.append(self.strategy)
            self._refuse_cut()
            written = values_taken(self.written)
            outputs, new, parcels = self._programs.inside(written, read, list(arrays))
            give_back(self.written, new)
            parcels.send()
            return outputs
        staged = is_staged(current_trace())
        if staged or any(isinstance(array, jax.core.Tracer) for array in arrays):
            return self._run_in_trace(read, arrays, staged)
        planner = self._planner
        if planner is not None:
            return planner.run_step(self, arrays)
        for device_programs in self._guards:
            device_programs.wait()
        if compiles_functions() and self._is_interpreted_by_tapes:
            with contextlib.suppress(CapturedValueError):
                found = self._run_in_tape(arrays)
                if found is not None:
                    return found[0]
        recorder = _recorder.active
        if recorder is None or not recorder.is_here():
            return self.execute(read, arrays)
        return self._recorded(recorder, read, arrays)

    def _recorded(self, recorder: _recorder.StepRecorder, read: Any, arrays: Sequence[Any]) -> Any:
        """As `execute`, for a step profile."""
        began = recorder.begins(self.rows_of(arrays), self.strategy)
        try:
            outputs = self.execute(read, arrays)
            recorder.returned((outputs, () if self._bank is None else self._bank.values), began)
        finally:
            recorder.leave()
        return outputs

    @property
    def _is_interpreted_by_tapes(self) -> bool:
        if self._mover is not None or self.taking_part:
            return False
        return not any(map(is_cut, (*self.written, *self.read)))

    def execute(self, read: Any, arrays: Sequence[Any]) -> Any:
        """Run the compiled step when its devices are free; return what `program` calls outputs.

        Args:
            read: what the variables hold that it only reads.
            arrays: of the arguments.
        """
        if self._bank is None or self._bank.ended:
            self._bank = self.new_bank()
        bank, read, placed = self._bank, self.place_read(read), self.place(arrays)
        with signals_held_back:
            outputs, new, parcels = self._programs.alone(bank.take(), read, placed)
            bank.put(new)
        for device_programs in self._guards:
            device_programs.started((outputs, new))
        if sends_parcels(self._mover or self.strategy):
            parcels.send()
        return outputs

    def _run_in_tape(self, arrays: Sequence[Any]) -> tuple[Any] | None:
        """Run it compiled under a tape that interprets operations, for which it is one operation.

        Returns:
            The outputs; None if the program has parts without a gradient of their own, such as
            loops, which a tape differentiates as it interprets them.

        Raises:
            CapturedValueError: the program holds what the tape watches as a constant.
        """
        values = list(map(read_unconverted, [*self.written, *self.read]))
        written, read = values[: len(self.written)], values[len(self.written) :]
        placed = self.place(arrays)
        with jax.disable_jit(False):
            kind = tuple((np.shape(each), getattr(each, "dtype", type(each))) for each in placed)
            if kind not in self._with_gradient:
                jaxpr = self._programs.jaxpr(written, read, placed)
                self._with_gradient[kind] = has_gradient_as_a_whole(jaxpr)
            if not self._with_gradient[kind]:
                return None
            try:
                outputs, new, parcels = self._programs.inside(written, read, placed)
            except CapturedValueError:
                self._with_gradient[kind] = False
                raise
        with signals_held_back:
            assign_values(self.written, new)
        parcels.send()
        return (outputs,)

    @property
    def _programs(self) -> NumberedPrograms:
        assert self._compiled is not None
        return self._compiled

    def place_read(self, values: list[Any]) -> list[Any]:
        """What the variables hold that the program only reads, as it takes them."""
        if self._mover is None:
            return values
        arrays = self._mover._arrays
        if self._mover.spans_processes:
            return [arrays.for_program(value) for value in values]
        if self._placed_read is None:
            self._placed_read = RepeatedMoves(lambda value, variable: arrays.for_program(value))
        place = self._placed_read
        return [place(value, each) for value, each in zip(values, self.read, strict=True)]

    def new_bank(self) -> VariableBuffer:
        """The written variables' values, in a bank for this program."""
        if self._mover is None:
            cuts = any(map(is_cut, self.written))
            return VariableBuffer(self.written, leave=as_held if cuts else None)
        arrays = self._mover._arrays
        leave: Callable[[Any, Any], Any] = arrays.from_program
        if not self._mover.spans_processes:
            leave = RepeatedMoves(leave)
            self._report_copies()
        return VariableBuffer(
            self.written,
            # A variable that the step created may get its first value in the program.
            enter=lambda variable, value: value if value is None else arrays.for_program(value),
            leave=lambda variable, value: (
                as_held(variable, value) if is_cut(variable) else leave(value, variable)
            ),
        )

    def _report_copies(self) -> None:
        """Say once that the program takes copies of variables that live on another device."""
        reason, self._is_one_because = self._is_one_because, None
        if self.written and reason is not None:
            _log.info(
                "%s: its variables are copied to each compute device, an optimizer's among them, "
                "since %s",
                getattr(self.fn, "__qualname__", self.fn),
                reason,
            )

    def _run_in_trace(self, read: Any, arrays: Sequence[Any], staged: bool) -> Any:
        refused = [*self.written, *(self.read if staged else ())]
        if refused:
            names = ", ".join(repr(variable.path) for variable in refused[:3])
            raise RuntimeError(
                "A step ran inside a function that jax.jit, jax.grad or another of JAX's "
                f"transformations traces, and uses the variable(s) {names}: their "
                "values would become constants of the compiled function, and what the step "
                "writes would be lost. Compile with `dl.function` instead of jax.jit, and take "
                "gradients inside of the step."
            )
        outputs, _, parcels = self._programs.inside([], read, list(arrays))
        parcels.send()
        return outputs

    def _compile(self, arrays: Sequence[Any]) -> None:
        before = [*self.written, *self.read]
        try:
            scope = self.discover(arrays)
        except BaseException:
            # Layers that were built before it failed keep their variables: those have values from
            # now on, as where the function runs as Python next.
            if get_stateless_scope() is None:
                with self.scope():
                    initialize_created()
            raise
        if get_stateless_scope() is None:
            self._initialize_created(first=self._compiled is None)
        written = {id(variable) for variable in scope.written}
        used = scope.discovered
        self.written = [variable for variable in used if id(variable) in written]
        self.read = [variable for variable in used if id(variable) not in written]
        known = {id(variable) for variable in before}
        self._refuse_cut()
        for variable in used:
            if id(variable) not in known:
                self.strategy._adopt_variable(variable)
        if not self._reads_64_bits and any(map(keeps_64_bits, used)):
            raise WideVariables()
        self._bank = None
        self._with_gradient = {}
        self.taking_part = scope.taking_part
        self._guards = self.in_flight()
        self._mover, self._placed_read = self.moving(), None
        owner = self._mover or self.strategy
        spanning = owner if owner.spans_processes else None
        if spanning is not None and get_stateless_scope() is None:
            broadcast_initial_values(spanning, used)
        self._compiled = NumberedPrograms(self.program)

    def _refuse_cut(self) -> None:
        variables = [variable for variable in (*self.written, *self.read) if is_cut(variable)]
        if not variables:
            return
        if get_stateless_scope() is not None and not isinstance(get_stateless_scope(), CutScope):
            where, instead = "within a function that Keras or JAX traces", "outside of it"
        elif not self.takes_rows:
            where, instead = f"of {self.strategy!r}", "of the variables' own strategy"
        else:
            return
        raise ValueError(
            f"A step {where} uses {variables[0].path!r} and {len(variables) - 1} more variable(s) "
            f"that are cut over the replicas by `shard=`. Call `strategy.run` {instead}; or make "
            "model and optimizer in the scope of a strategy without `shard`."
        )

    def _initialize_created(self, first: bool) -> None:
        with self.scope():
            created = initialize_created()
        if created and not first:
            refuse_created(self.fn, created)


class WholeProgram(CompiledStep):
    """A step that is traced once, with each variable's one value for all replicas."""

    def call(self, arrays: Sequence[Any]) -> Any:
        """Traced: call the function on the arrays of its arguments, in a scope of variables."""
        raise NotImplementedError

    def discover(self, arrays: Sequence[Any]) -> StateScope:
        scopes: list[StateScope] = []

        def trace(arrays: Sequence[Any]) -> Any:
            scopes.append(CutScope(for_shapes=True))
            scopes[-1].may_be_left = self.may_be_left
            with scopes[-1], collecting():
                return self.call(arrays)

        jax.eval_shape(trace, list(arrays))
        return scopes[-1]

    def program(self, written: Any, read: Any, arrays: Any) -> tuple[Any, Any, Parcels]:
        scope = CutScope([*self.written, *self.read], [*written, *read], sealed=True)
        with scope, collecting() as outbox:
            outputs = self.call(arrays)
            new = [self.left(scope, variable) for variable in self.written]
            return outputs, new, outbox.parcels(self._parcels_sharding)

    def left(self, scope: CutScope, variable: Variable) -> Any:
        """Traced: what `variable` holds at the end, of one that is cut the rows."""
        if not is_cut(variable):
            return scope.value_of(variable)
        sharding = owner_of_cut(variable).sharding_of(variable)
        return jax.lax.with_sharding_constraint(scope.rows_of(variable), sharding)


def as_held(variable: Variable, value: Any) -> Any:
    """What `variable`, which may be cut, holds for what a program left of it."""
    if value is None or not is_cut(variable):
        return value
    return owner_of_cut(variable)._arrays.cut_value(value, variable)
