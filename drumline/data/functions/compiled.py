"""A traced function compiled for blocks of one length, with checks and a digest of its content.

XLA clamps indexes that are out of bounds and divides integers by zero without an error; Python and
numpy raise. The checks are computed beside the program, a flag per row. Floats that become bytes
are truncated first, which XLA does not always do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from drumline._core import want_results_at
from drumline._lazy import jax, jex, jnp
from drumline._memory import ALIGNMENT, BufferPool, address_of
from drumline.data.elements import precision
from drumline.data.elements.block import Block
from drumline.data.elements.errors import at_element
from drumline.data.elements.spec import ElementSpec
from drumline.data.functions.call import OneByOne, Position
from drumline.data.functions.elementwise import ElementwiseResult, elementwise_results
from drumline.data.functions.programs import (
    Computed,
    Constant,
    Passed,
    Route,
    block_length,
    calls_python,
    gathered_rows,
    inner_consts,
    inner_programs,
    left_to_xla,
    plain_array,
    same_at_any_length,
    subjaxprs,
)
from drumline.data.functions.trace import Trace, UserFunction
from drumline.data.plan.digest import text_in_digests

_DIVISIONS = ("remainder", "floor_divide", "fmod", "mod")
_IMAGES = "/drumline/image/"
_NOT_THE_USERS = ("/jax/", "/drumline/data/", _IMAGES)
_CALLS = ("jit", "pjit", "closed_call")


@dataclasses.dataclass
class Guards:
    """The checks a program carries: flag value k stands for ``messages[k - 1]``."""

    messages: list[tuple[type[Exception], str]] = dataclasses.field(default_factory=list)

    def add(self, kind: type[Exception], message: str) -> int:
        """The flag value for a message."""
        if (kind, message) not in self.messages:
            self.messages.append((kind, message))
        return self.messages.index((kind, message)) + 1


def row_error(guards: Guards, flag: int) -> Exception:
    """The exception for a row's flag."""
    kind, message = guards.messages[flag - 1]
    return kind(message)


def guarded(
    closed: jex.ClosedJaxpr, inputs: Sequence[Any], guards: Guards
) -> tuple[list[Any], Any]:
    """Evaluates a program and, beside its outputs, an int32 flag: 0, or which check failed."""
    evaluation = _Evaluation(guards)
    outputs = evaluation.run(closed.jaxpr, closed.consts, inputs)
    return outputs, evaluation.flag


def as_traced(program: jex.ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    """The inputs in the types the program was traced for: 32 bits, where it has no others."""
    pairs = zip(inputs, program.in_avals, strict=True)
    return [jax.lax.convert_element_type(value, aval.dtype) for value, aval in pairs]


class _Evaluation:
    def __init__(self, guards: Guards):
        self.guards = guards
        self.flag: Any = jnp.int32(0)

    def run(self, jaxpr: jex.Jaxpr, consts: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {}

        def read(var: Any) -> Any:
            return var.val if isinstance(var, jex.Literal) else values[var]

        values.update(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, inputs, strict=True))
        for eqn in jaxpr.eqns:
            operands = [read(var) for var in eqn.invars]
            outputs = self._apply(eqn, operands)
            values.update(zip(eqn.outvars, outputs, strict=True))
        return [read(var) for var in jaxpr.outvars]

    def _apply(self, eqn: jex.JaxprEqn, operands: list[Any]) -> Sequence[Any]:
        name = eqn.primitive.name
        inner = eqn.params.get("jaxpr")
        if name in _CALLS and inner is not None:
            if eqn.params.get("name") in _DIVISIONS:
                self._check_division(eqn, operands)
            return self.run(inner.jaxpr, inner.consts, operands)
        if name in ("div", "rem"):
            operands = self._divisible(eqn, operands)
        elif name == "dynamic_slice" and _from_indexing(eqn):
            self._check_slice(eqn, operands)
        elif name == "gather" and "PROMISE" in str(eqn.params["mode"]):
            self._check_gather(eqn, operands)
        elif name == "convert_element_type" and _to_bytes(eqn):
            operands = [jnp.trunc(operands[0])]
        return _bind(eqn, operands)

    def _fail_where(self, bad: Any, kind: type[Exception], message: str, eqn: jex.JaxprEqn) -> None:
        line = _user_line(eqn)
        flag = self.guards.add(kind, f"{message} at {line}" if line else message)
        self.flag = jnp.where((self.flag == 0) & jnp.any(bad), jnp.int32(flag), self.flag)

    def _check_division(self, eqn: jex.JaxprEqn, operands: list[Any]) -> Any:
        """Where the divisor is zero; None if it is nowhere."""
        divisor = operands[1]
        aval: Any = eqn.invars[1].aval
        if not np.issubdtype(aval.dtype, np.integer):
            return None
        if not isinstance(divisor, jax.core.Tracer) and np.all(np.asarray(divisor) != 0):
            return None
        is_zero = divisor == 0
        self._fail_where(is_zero, ZeroDivisionError, "integer division by zero", eqn)
        return is_zero

    def _divisible(self, eqn: jex.JaxprEqn, operands: list[Any]) -> list[Any]:
        """The operands of a division, checked.

        Where the divisor is zero the row has failed, and its results are dropped. XLA's
        compiler divides what is constant, and ends the process at a zero.
        """
        is_zero = self._check_division(eqn, operands)
        if is_zero is None:
            return operands
        dividend, divisor = operands
        return [dividend, jnp.where(is_zero, jnp.ones_like(divisor), divisor)]

    def _check_slice(self, eqn: jex.JaxprEqn, operands: list[Any]) -> None:
        array, starts = operands[0], operands[1:]
        for axis, (start, size) in enumerate(zip(starts, eqn.params["slice_sizes"], strict=True)):
            if not isinstance(start, jax.core.Tracer):
                continue
            most = array.shape[axis] - size
            message = f"index out of bounds for axis {axis} with size {array.shape[axis]}"
            self._fail_where((start < 0) | (start > most), IndexError, message, eqn)

    def _check_gather(self, eqn: jex.JaxprEqn, operands: list[Any]) -> None:
        array, starts = operands
        if not isinstance(starts, jax.core.Tracer):
            return
        for i, axis in enumerate(eqn.params["dimension_numbers"].start_index_map):
            start = starts[..., i]
            most = array.shape[axis] - eqn.params["slice_sizes"][axis]
            message = f"index out of bounds for axis {axis} with size {array.shape[axis]}"
            self._fail_where((start < 0) | (start > most), IndexError, message, eqn)


def _bind(eqn: jex.JaxprEqn, operands: list[Any]) -> Sequence[Any]:
    bound = eqn.primitive.get_bind_params(eqn.params)
    # Before JAX 0.10 functions among the parameters came apart from the others.
    subfuns, params = bound if isinstance(bound, tuple) else ((), bound)
    with eqn.ctx.manager:
        result = eqn.primitive.bind(*subfuns, *operands, **params)
    return result if eqn.primitive.multiple_results else [result]


def _to_bytes(eqn: jex.JaxprEqn) -> bool:
    """Whether floats become integers of 8 bits.

    After a reduction XLA's kernels for the CPU round them to the nearest, instead of towards zero.
    """
    have: Any = eqn.invars[0].aval
    to = np.dtype(eqn.params["new_dtype"])
    return to.kind in "iu" and to.itemsize == 1 and jnp.issubdtype(have.dtype, jnp.floating)


def _frames(eqn: jex.JaxprEqn) -> list[Any]:
    traceback = getattr(eqn.source_info, "traceback", None)
    return [] if traceback is None else list(traceback.frames)


def _from_indexing(eqn: jex.JaxprEqn) -> bool:
    """Whether ``x[i]`` made the slice.

    ``lax.dynamic_slice`` itself clamps by contract, ``x.at[i].get()`` does what its mode says.
    Parts of images are as ``x[i:j]``.
    """
    if any(_IMAGES in f.file_name.replace("\\", "/") for f in _frames(eqn)):
        return True
    frames = [f for f in _frames(eqn) if "numpy" in f.file_name]
    explicit = any(f.function_name.split(".")[-1] == "get" for f in frames)
    return not explicit and any("index" in f.function_name + f.file_name for f in frames)


def _user_line(eqn: jex.JaxprEqn) -> str:
    for frame in _frames(eqn):
        path = frame.file_name.replace("\\", "/")
        if not any(part in path for part in _NOT_THE_USERS) and not path.startswith("<"):
            return f"{path.rsplit('/', 1)[-1]}:{frame.line_num}"
    return ""


_HOST = "callback"
"""The parameter of JAX's callbacks that holds the function they call."""


def content(trace: Trace) -> tuple[Any, ...]:
    """A digest of programs, and what no text of a program shows.

    These are native operations with what they look up, and Python functions that JAX calls back.
    """
    programs = [p for p in (trace.narrow, trace.wide) if p is not None]
    called = [function for program in programs for function in _called_back(program.jaxpr)]
    constants = [route.value for step in trace.natives for route in _constants(step.arguments)]
    operations = [step.operation for step in trace.natives]
    return _programs_text(trace), operations, constants, called


def _programs_text(trace: Trace) -> str:
    """A digest of programs, their constants, native operations and where each output comes from."""
    found = hashlib.sha256()
    for route in trace.routes:
        if isinstance(route, Constant):
            _add(found, route.value)
        else:
            found.update(repr(route).encode())
    for step in trace.natives:
        found.update(text_in_digests(repr(step)))
    for program in (trace.narrow, trace.wide):
        if program is None:
            found.update(b"none")
            continue
        found.update(text_in_digests(str(program.jaxpr)))
        for constant in [*program.consts, *inner_consts(program.jaxpr)]:
            _add(found, plain_array(constant))
    return found.hexdigest()


def _add(found: Any, value: np.ndarray) -> None:
    content = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
    found.update(f"{value.dtype}{value.shape}".encode() + content)


def _constants(routes: Sequence[Route]) -> list[Constant]:
    return [route for route in routes if isinstance(route, Constant)]


def _called_back(jaxpr: jex.Jaxpr) -> list[Any]:
    found = [eqn.params[_HOST] for eqn in jaxpr.eqns if _HOST in eqn.params]
    for inner in inner_programs(jaxpr):
        found += _called_back(inner)
    return found


Key = tuple[bool, int]
"""Of a result: whether the program with 64-bit types computes it, and which of its outputs."""

_MOST_BUFFERS = 8
"""Of a size, kept for results: about what a pipeline has under way, and no rare peak of it."""

_WORTH_ALIGNING = 1 << 14
"""JAX copies smaller inputs as quickly."""


class CompiledFunction:
    """Runs a trace on the CPU, always on blocks of ``block_length`` rows.

    Shorter blocks are padded with their first row (a row that the function can handle): the length
    a program is compiled for can show in the last bits of its results, so it never varies.
    """

    ragged: bool | None = None
    varying: bool | None = None

    def __init__(
        self,
        function: UserFunction,
        spec: ElementSpec,
        trace: Trace,
        most: int = 1 << 30,
        elementwise: Mapping[Key, ElementwiseResult] = MappingProxyType({}),
    ):
        """Compiles a trace over elements of ``spec`` for at most ``most`` rows at once.

        The results in ``elementwise`` are computed without XLA.
        """
        self._function = function
        self._spec = spec
        self._trace = trace
        programs = _programs(trace)
        leaves = [*spec.leaves, *trace.spec.leaves]
        lengths = (block_length(leaves, program.jaxpr) for program in programs)
        self.block_length = min(most, min(lengths, default=1024))
        self._row_nbytes = max(1, sum(leaf.nbytes or 0 for leaf in leaves))
        self._elementwise = elementwise
        self._programs = [
            _Program(trace, wide, self.block_length, elementwise)
            for wide, program in ((False, trace.narrow), (True, trace.wide))
            if program is not None and _needs_xla(trace, wide, program, elementwise)
        ]

    @cached_property
    def _pool(self) -> BufferPool:
        return BufferPool(_MOST_BUFFERS)

    def content(self) -> tuple[Any, ...]:
        """All that it computes, for fingerprints."""
        return content(self._trace)

    def for_single_rows(self) -> CompiledFunction:
        """Compiled for a row, or itself where the length it is compiled for may show."""
        exact = all(same_at_any_length(program.jaxpr) for program in _programs(self._trace))
        return CompiledFunction(self._function, self._spec, self._trace, 1) if exact else self

    @cached_property
    def with_native_arithmetic(self) -> CompiledFunction:
        """The same, and the same bits, with what the Rust core can compute computed by it."""
        found = elementwise_results(self._trace)
        if not found:
            return self
        length = self.block_length
        return CompiledFunction(self._function, self._spec, self._trace, length, found)

    @cached_property
    def one_by_one(self) -> OneByOne:
        return OneByOne(self, self.for_single_rows())

    def limit(self, wanted: int) -> int:
        return wanted

    def at_once(self, size: int) -> int:
        """Whole numbers of ``size`` rows, which then need not be copied, if memory allows."""
        if not self._programs:
            # Nothing is padded.
            rows = gathered_rows(size, 1, self._row_nbytes)
            if rows >= self.block_length // 2:
                return rows
        return gathered_rows(size, self.block_length, self._row_nbytes)

    def __call__(self, block: Block, position: Position) -> Block:
        n, failure = block.n, None
        results = self._memory(n)
        if n and self._programs:
            n, failure = self._compute(block, results)
        for key, result in self._elementwise.items():
            result(block.columns[result.leaf][:n], results[key][:n])
        columns = [self._column(route, block, results, n) for route in self._trace.routes]
        if failure is None:
            return Block(columns, n, block.error)
        return Block(columns, n, at_element(failure, position(n), self._function.where))

    def _memory(self, n: int) -> dict[Key, np.ndarray]:
        """Where results go: recycled memory of whole blocks, so that its sizes are few."""
        rows = -(-n // self.block_length) * self.block_length
        return {
            (route.wide, route.output): self._pool.empty((rows, *route.shape), route.dtype)
            for route in self._trace.routes
            if isinstance(route, Computed)
        }

    def _compute(
        self, block: Block, results: dict[Key, np.ndarray]
    ) -> tuple[int, Exception | None]:
        """How many rows were computed before the first that failed, and its error."""
        failed = np.zeros(block.n, np.int32)
        for program in self._programs:
            with program.mode():
                for start in range(0, block.n, self.block_length):
                    rows = slice(start, min(start + self.block_length, block.n))
                    inputs = [
                        self._padded(block.columns[i], rows, used)
                        for i, used in zip(self._trace.inputs, program.uses, strict=True)
                    ]
                    flags = program(inputs, results, start)[: rows.stop - start]
                    # Their memory is written again for the next rows while it is in the cache.
                    del inputs
                    if program.guards.messages:
                        np.maximum(failed[rows], flags, out=failed[rows])
        if not failed.any():
            return block.n, None
        row = int(np.argmax(failed != 0))
        return row, row_error(self._guards(), int(failed[row]))

    def _guards(self) -> Guards:
        return next(program.guards for program in self._programs if program.guards.messages)

    def _padded(self, column: np.ndarray, which: slice, used: bool = True) -> np.ndarray:
        """Rows of a column, filled up to a block, where XLA can read them in place."""
        rows = column[which]
        whole = len(rows) == self.block_length
        if whole and (not used or rows.nbytes < _WORTH_ALIGNING or _is_aligned(rows)):
            return rows
        if not used:
            return np.broadcast_to(rows[:1], (self.block_length, *rows.shape[1:]))
        out = self._pool.empty((self.block_length, *column.shape[1:]), column.dtype)
        out[: len(rows)] = rows
        if not whole:
            out[len(rows) :] = rows[0]
        return out

    def _column(
        self, route: Route, block: Block, results: dict[Key, np.ndarray], n: int
    ) -> np.ndarray:
        if isinstance(route, Passed):
            return block.columns[route.leaf][:n]
        if isinstance(route, Constant):
            return np.broadcast_to(route.value, (n, *route.value.shape))
        column = results[route.wide, route.output][:n]
        if 4 * n <= self.block_length:
            # A view of few rows would keep a whole block's memory.
            column = column.copy()
        column.flags.writeable = False
        return column

    def how(self) -> str:
        """How it runs, without its name."""
        kinds = " and ".join(
            "64-bit" if program.wide else "default types" for program in self._programs
        )
        found = [f"compiled for blocks of {self.block_length} ({kinds})"] if kinds else []
        if self._elementwise:
            found.append(f"native arithmetic ({len(self._elementwise)} of its results)")
        return ", ".join(found) or "no computation"

    def describe(self) -> str:
        return f"{self._function.name}: {self.how()}"


def _needs_xla(
    trace: Trace, wide: bool, program: jex.ClosedJaxpr, elementwise: Mapping[Key, ElementwiseResult]
) -> bool:
    """Whether a program computes or checks something that ``elementwise`` does not."""
    routes = [route for route in trace.routes if isinstance(route, Computed) and route.wide == wide]
    others = any((wide, route.output) not in elementwise for route in routes)
    return others or bool(left_to_xla(program, []))


def _programs(trace: Trace) -> list[jex.ClosedJaxpr]:
    return [program for program in (trace.narrow, trace.wide) if program is not None]


class _Program:
    """One compiled program: from whole input columns to the outputs that routes refer to."""

    def __init__(
        self, trace: Trace, wide: bool, length: int, elementwise: Mapping[Key, ElementwiseResult]
    ):
        self.wide = wide
        self.guards = Guards()
        closed = trace.wide if wide else trace.narrow
        assert closed is not None
        self._mode = precision.wide if wide else precision.narrow
        self._length = length
        self._outputs = sorted(
            {
                (r.output, r.dtype)
                for r in trace.routes
                if isinstance(r, Computed) and r.wide == wide
                if (r.wide, r.output) not in elementwise
            },
            key=lambda pair: pair[0],
        )
        run = _with_outputs(closed, self._outputs, self.guards)
        self._compiled = jax.jit(jax.vmap(run, axis_size=length))
        # JAX copies none to the device that is not used.
        outvars = [closed.jaxpr.outvars[output] for output, _ in self._outputs]
        left = left_to_xla(closed, outvars)
        used = {var for eqn in left for var in eqn.invars if isinstance(var, jex.Var)}
        used.update(var for var in outvars if isinstance(var, jex.Var))
        self.uses = [var in used for var in closed.jaxpr.invars]
        self._device = _device(closed.jaxpr)
        self._has_run = False

    def mode(self) -> contextlib.AbstractContextManager[None]:
        """In which it is called."""
        return self._mode(self._device)

    def __call__(
        self, inputs: Sequence[np.ndarray], results: dict[Key, np.ndarray], start: int
    ) -> np.ndarray:
        """Write the results for a block to rows ``start`` and following, up to the last row.

        Returns:
            Which check failed, int32, for each row.
        """
        whole = [results[self.wide, output] for output, _ in self._outputs]
        rows = [column[start : start + self._length] for column in whole]
        fits = all(len(part) == self._length for part in rows)
        places = [part.reshape(-1).view(np.uint8) for part in rows] if fits else []
        values, failed = self._run(inputs, places)
        found, wanted = [*map(address_of, values)], [*map(address_of, places)]
        if found == wanted:
            return failed
        if not set(wanted).isdisjoint(found):
            # Some lie in each other's place: nothing is written before all is read.
            values = [np.array(value) for value in values]
        for part, value in zip(rows, values, strict=True):
            part[...] = value[: len(part)]
        return failed

    def _run(
        self, inputs: Sequence[np.ndarray], places: list[np.ndarray]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        try:
            want_results_at(places)
            try:
                outputs, failed = self._compiled(*inputs)
            finally:
                want_results_at([])
            found = [np.asarray(value) for value in outputs], np.asarray(failed)
        except BaseException as error:
            # It may not be over, if an interrupt came: no other call must get this memory.
            _abandoned.extend(places)
            if self._has_run or self._device is None or not isinstance(error, Exception):
                raise
            # A constant that lies on a device, for example: the program cannot have another.
            self._device = None
            with self.mode():
                return self._run(inputs, [])
        self._has_run = True
        return found


_abandoned: list[np.ndarray] = []


_PRODUCTS = frozenset(("dot_general", "conv_general_dilated", "fft"))
"""What takes long enough for XLA's threads to be worth having."""


def _device(jaxpr: jex.Jaxpr) -> jax.Device | None:
    """Where a program runs; ``None`` for JAX's own device."""
    if calls_python(jaxpr):
        # A callback in the thread that calls waits for itself in older releases of JAX.
        return None
    return precision.calling_thread(shared=not _PRODUCTS.isdisjoint(_operations(jaxpr)))


def _operations(jaxpr: jex.Jaxpr) -> Iterator[str]:
    """The names of the operations of a program, at any depth."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in subjaxprs(eqn.params):
            yield from _operations(inner)


def _is_aligned(array: np.ndarray) -> bool:
    return address_of(array) % ALIGNMENT == 0 and array.flags.c_contiguous


def _with_outputs(
    closed: jex.ClosedJaxpr, outputs: Sequence[tuple[int, np.dtype]], guards: Guards
) -> Any:
    def run(*inputs: Any) -> tuple[list[Any], Any]:
        values, failed = guarded(closed, as_traced(closed, inputs), guards)
        return [jax.lax.convert_element_type(values[i], dtype) for i, dtype in outputs], failed

    return run
