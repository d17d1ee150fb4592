"""What a traced program tells: native calls, checks, purity, dependences, block length, routes.

The block length is part of a dataset's plan: results do not depend on how blocks are scheduled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from drumline._lazy import jax, jex
from drumline.data.elements.spec import TensorSpec
from drumline.data.functions.native.symbol import Call, native


@dataclasses.dataclass(frozen=True)
class Passed:
    """Value ``leaf``, an input leaf or a native operation's result, untouched by XLA."""

    leaf: int


@dataclasses.dataclass(frozen=True)
class Constant:
    """The same value for every element."""

    value: np.ndarray


@dataclasses.dataclass(frozen=True)
class Computed:
    """Output ``output`` of a compiled program, converted to ``dtype``.

    Attributes:
        wide: whether the program traced with 64-bit types computes it.
        output: the position among that program's outputs.
        dtype: what the column has.
        shape: of one element.
    """

    wide: bool
    output: int
    dtype: np.dtype
    shape: tuple[int, ...]


Route = Passed | Constant | Computed


TARGET_BYTES = 4 << 20
LONGEST = 1024
LONGEST_SCALARS = 16_384
LONGEST_WITH_LOOP = 8
MOST_OPERATIONS = 1 << 24

_LOOPS = ("scan", "while")


def block_length(leaves: Iterable[TensorSpec], jaxpr: jex.Jaxpr) -> int:
    """A power of two, from the specs of what the function reads and writes and its program alone.

    Blocks of one to four megabytes were fastest for every element size measured: smaller ones pay
    for dispatch, larger ones for memory that was never touched. It never depends on timing, thread
    counts or what follows, since for some functions the length shows in the last bits of the
    result. Loops, and programs of very many operations, get shorter blocks: the first element
    must not wait for a second's work. Where Python is called for each row there is no other row:
    it must not run for rows that only fill a block up.
    """
    specs = list(leaves)
    nbytes = sum(leaf.nbytes or 64 for leaf in specs)
    longest = LONGEST_SCALARS if all(leaf.shape == () for leaf in specs) else LONGEST
    if has_loop(jaxpr):
        longest = LONGEST_WITH_LOOP
    if any(_for_each_row(jaxpr)):
        longest = 1
    longest = min(longest, max(1, MOST_OPERATIONS // max(1, operations(jaxpr))))
    return min(_power_of_two(longest), _power_of_two(TARGET_BYTES / max(1, nbytes)))


MOST_GATHERED_BYTES = 64 << 20
"""A batch of this size and more is put together from blocks: several of it would fill memory."""

_PADDED = 1.125
_MOST_BATCHES = 16
_MOST_TASK_BYTES = 16 << 20


def gathered_rows(size: int, length: int, row_nbytes: int) -> int:
    """How many rows to compute at once where they are put together by ``size``.

    Whole batches, which then need not be copied together, if they are nearly whole blocks of
    ``length`` rows and not too large; else a block. Several are one task if they are small.
    """
    found = None
    for batches in range(1, _MOST_BATCHES + 1):
        rows = batches * size
        padded = -(-rows // length) * length
        if padded > _PADDED * rows:
            continue
        most = TARGET_BYTES if found is not None else _MOST_TASK_BYTES
        if padded * row_nbytes > (MOST_GATHERED_BYTES if batches == 1 else most):
            break
        found = rows
    return found or length


def whole_batches(rows: int, size: int) -> int:
    """Return `rows`, or the whole batches of `size` rows in it if there are any.

    A first block that ended within a batch would have every later block end so, and a batch of each
    be copied together.
    """
    return rows - rows % size if rows > size else rows


def _power_of_two(limit: float) -> int:
    return 1 << max(0, int(math.log2(max(1.0, limit))))


def subjaxprs(params: dict[str, Any]) -> Iterator[jex.Jaxpr]:
    """The programs inside an equation's parameters."""
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, jex.ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, jex.Jaxpr):
                yield item


def has_loop(jaxpr: jex.Jaxpr) -> bool:
    """Whether the program contains a ``scan`` or ``while`` at any depth."""
    return any(
        eqn.primitive.name in _LOOPS or any(has_loop(sub) for sub in subjaxprs(eqn.params))
        for eqn in jaxpr.eqns
    )


def calls_python(jaxpr: jex.Jaxpr) -> bool:
    """Whether a program calls Python, at any depth."""
    return next(_callbacks(jaxpr), None) is not None


def _callbacks(jaxpr: jex.Jaxpr) -> Iterator[jex.JaxprEqn]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name.endswith("callback"):
            yield eqn
        for inner in subjaxprs(eqn.params):
            yield from _callbacks(inner)


def _for_each_row(jaxpr: jex.Jaxpr) -> Iterator[bool]:
    """For each callback, whether a block of rows is a call for each of them."""
    return (eqn.params.get("vmap_method") == "sequential" for eqn in _callbacks(jaxpr))


def operations(jaxpr: jex.Jaxpr) -> int:
    """A rough count of arithmetic operations for one element (loops count once)."""
    return sum(_operations_of(eqn) for eqn in jaxpr.eqns)


def _operations_of(eqn: jex.JaxprEqn) -> int:
    inside = sum(operations(sub) for sub in subjaxprs(eqn.params))
    if inside:
        return inside
    size = sum(math.prod(_shape(var)) for var in eqn.outvars)
    if eqn.primitive.name == "dot_general":
        (contracting, _), _ = eqn.params["dimension_numbers"]
        return 2 * size * math.prod(_shape(eqn.invars[0])[axis] for axis in contracting)
    if eqn.primitive.name == "conv_general_dilated":
        kernel = _shape(eqn.invars[1])
        features = kernel[eqn.params["dimension_numbers"].rhs_spec[0]]
        return 2 * size * math.prod(kernel) // max(1, features)
    return size


def _shape(var: Any) -> tuple[int, ...]:
    return tuple(getattr(var.aval, "shape", ()))


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EXACT = _names(
    "abs and bitcast_convert_type broadcast_in_dim ceil clamp clz concatenate convert_element_type "
    "copy copy_p dynamic_slice dynamic_update_slice eq expand_dims floor gather ge gt iota "
    "is_finite le lt max min ne neg not or pad population_count reshape rev round select_n "
    "shift_left shift_right_arithmetic shift_right_logical sign slice squeeze transpose xor"
)
"""They move values, compare them, or have results that no rounding touches."""

_WHOLE = _names(
    "add argmax argmin cummax cummin cumsum div dot_general integer_pow mul reduce_and reduce_max "
    "reduce_min reduce_or reduce_prod reduce_sum reduce_xor rem sort sub threefry2x32"
)
"""Of whole numbers they are the same in any order."""

_ROUNDING = frozenset(("add", "sub", "mul", "sqrt"))
_CALLS = frozenset(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"))
_TYPES = frozenset(map(np.dtype, (np.float32, np.float64)))


def same_at_any_length(program: jex.Jaxpr) -> bool:
    """Whether the length of its blocks cannot show in the last bits of a program's results.

    XLA divides sums and products of many numbers by their shapes, and what it makes one of, a
    product and a sum perhaps, depends on what is beside it. So not more than one operation may
    round; what is not known is taken to show.
    """
    return roundings(program.eqns) <= 1


def roundings(equations: Iterable[jex.JaxprEqn]) -> int:
    """How many operations round; at least two where one may depend on the length."""
    return sum(map(_of, equations))


def _of(equation: jex.JaxprEqn) -> int:
    """How many roundings there are; many where nothing is known of them."""
    name = equation.primitive.name
    if name in _EXACT:
        return 0
    if name in _CALLS:
        inside = list(subjaxprs(equation.params))
        return sum(roundings(program.eqns) for program in inside) if inside else 2
    results: list[Any] = [value.aval for value in equation.outvars]
    if name in _WHOLE and all(map(_is_whole, [*results, *(v.aval for v in equation.invars)])):
        return 0
    # By a number, XLA multiplies with its reciprocal: for any length, if it is one number.
    divides = name == "div" and isinstance(equation.invars[1], jex.Literal)
    rounds_once = name in _ROUNDING or divides
    return 1 if rounds_once and all(aval.dtype in _TYPES for aval in results) else 2


def _is_whole(aval: Any) -> bool:
    return aval.dtype.kind in "iub"


_INLINED = ("jit", "pjit", "closed_call")

Source = Passed | int
"""Where a value comes from: a value as it is, or an output of the program over numbers."""


@dataclasses.dataclass
class Extracted:
    """A program over numbers, and the calls that stand between its parts.

    Values are the element's leaves and, behind them, the results of the calls in order.

    Attributes:
        program: over the values that are numbers; what it takes of calls' results and what these
            take of it makes it no function that could run at once.
        calls: in the order of the user's function.
        operands: for each call, where the arguments that are not fixed come from.
        results: where the user's results come from.
    """

    program: jex.ClosedJaxpr
    calls: list[Call]
    operands: list[list[Source]]
    results: list[Source]


class MisplacedCall(Exception):
    """A native operation stands where no program can be divided; the message says where."""


def native_calls(jaxpr: jex.Jaxpr) -> Iterator[jex.JaxprEqn]:
    """Equations that call native operations, at any depth."""
    for eqn in jaxpr.eqns:
        if eqn.primitive is native():
            yield eqn
        for inner in subjaxprs(eqn.params):
            yield from native_calls(inner)


def extracted(closed: jex.ClosedJaxpr, leaves: Sequence[TensorSpec]) -> Extracted:
    """Takes the calls out of a program whose inputs stand for an element's leaves.

    Raises:
        MisplacedCall: one stands inside of a loop, a branch or the like.
    """
    flat = _Flat(closed)
    numbers = [
        var for var, leaf in zip(closed.jaxpr.invars, leaves, strict=True) if not leaf.is_symbolic
    ]
    positions = {var: i for i, var in enumerate(closed.jaxpr.invars)}
    calls: list[Call] = []
    operands: list[list[Source]] = []
    outputs: list[Any] = []

    def source(atom: Any) -> Source:
        if isinstance(atom, jex.Var) and atom in positions:
            return Passed(positions[atom])
        outputs.append(atom)
        return len(outputs) - 1

    for eqn in flat.eqns:
        if eqn.primitive is not native():
            continue
        call = eqn.params["call"]
        calls.append(call)
        operands.append([source(atom) for atom in eqn.invars])
        for var, leaf in zip(eqn.outvars, call.results.leaves, strict=True):
            positions[var] = len(positions)
            if not leaf.is_symbolic:
                numbers.append(var)
    results = [source(atom) for atom in flat.outvars]
    jaxpr = jex.Jaxpr(
        list(flat.consts),
        numbers,
        outputs,
        [eqn for eqn in flat.eqns if eqn.primitive is not native()],
        closed.jaxpr.effects,
        unnamed(closed.jaxpr),
    )
    program = jex.ClosedJaxpr(jaxpr, list(flat.consts.values()))
    return Extracted(program, calls, operands, results)


def unnamed(jaxpr: jex.Jaxpr) -> Any:
    """The program's origin, for messages of JAX's, without names of arguments and results."""
    return jaxpr.debug_info._replace(arg_names=None, result_paths=None)


class _Flat:
    """A program in which jitted functions that call native operations are written out."""

    def __init__(self, closed: jex.ClosedJaxpr):
        self.consts: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        self.eqns: list[jex.JaxprEqn] = []
        self.outvars = self._run(closed.jaxpr, {}, renamed=False)

    def _run(self, jaxpr: jex.Jaxpr, names: dict[Any, Any], renamed: bool) -> list[Any]:
        def atom(item: Any) -> Any:
            return item if isinstance(item, jex.Literal) else names.get(item, item)

        for eqn in jaxpr.eqns:
            operands = [atom(item) for item in eqn.invars]
            if _divides(eqn):
                names.update(zip(eqn.outvars, self._inside(eqn, operands), strict=True))
                continue
            if renamed:
                names.update((var, jex.Var(var.aval)) for var in eqn.outvars)
            made = [atom(var) for var in eqn.outvars]
            self.eqns.append(eqn.replace(invars=operands, outvars=made))
        return [atom(item) for item in jaxpr.outvars]

    def _inside(self, eqn: jex.JaxprEqn, operands: list[Any]) -> list[Any]:
        inner = eqn.params["jaxpr"]
        names = dict(zip(inner.jaxpr.invars, operands, strict=True))
        for var, value in zip(inner.jaxpr.constvars, inner.consts, strict=True):
            names[var] = jex.Var(var.aval)
            self.consts[names[var]] = value
        return self._run(inner.jaxpr, names, renamed=True)


def _divides(eqn: jex.JaxprEqn) -> bool:
    """Whether an equation is a jitted function that calls native operations.

    Raises:
        MisplacedCall: it is another one with programs inside that do.
    """
    inside = (call for sub in subjaxprs(eqn.params) for call in native_calls(sub))
    found = next(inside, None)
    if found is None:
        return False
    if eqn.primitive.name not in _INLINED:
        raise MisplacedCall(
            f"it calls dl.{found.params['call']!r} inside of jax's {eqn.primitive.name}, where it "
            "cannot be compiled"
        )
    return True


def left_to_xla(closed: jex.ClosedJaxpr, outvars: Sequence[Any]) -> list[jex.JaxprEqn]:
    """Return the equations of a program that ``outvars`` need, and those that have checks."""
    needed = {var for var in outvars if isinstance(var, jex.Var)}
    left: list[jex.JaxprEqn] = []
    for equation in reversed(closed.jaxpr.eqns):
        if may_fail(equation) or not needed.isdisjoint(equation.outvars):
            left.append(equation)
            needed.update(var for var in equation.invars if isinstance(var, jex.Var))
    return left[::-1]


def may_fail(equation: jex.JaxprEqn) -> bool:
    """Whether a check may be computed beside an equation, as `guarded` does."""
    inner = equation.params.get("jaxpr")
    if equation.primitive.name in _INLINED and inner is not None:
        return any(map(may_fail, inner.jaxpr.eqns))
    if equation.primitive.name in ("div", "rem"):
        divisor: Any = equation.invars[1].aval
        return bool(np.issubdtype(divisor.dtype, np.integer))
    return equation.primitive.name in ("dynamic_slice", "gather")


@contextlib.contextmanager
def random_states_kept() -> Iterator[None]:
    """Puts Python's and numpy's global random states back afterwards: tracing is not a use."""
    python, legacy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)


def same_program(a: jex.ClosedJaxpr, b: jex.ClosedJaxpr) -> bool:
    """Whether two traces are one program with equal constants."""
    return (
        str(a.jaxpr) == str(b.jaxpr)
        and _calls(a.jaxpr) == _calls(b.jaxpr)
        and same_values(a.consts, b.consts)
        and same_values(inner_consts(a.jaxpr), inner_consts(b.jaxpr))
    )


def _calls(jaxpr: jex.Jaxpr) -> list[Call]:
    """What no text of a program tells apart: operations with their arguments."""
    return [eqn.params["call"] for eqn in native_calls(jaxpr)]


def same_values(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two lists of arrays agree in dtypes, shapes and bits."""
    return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(a: Any, b: Any) -> bool:
    x, y = plain_array(a), plain_array(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype == object:
        return bool((x == y).all())
    return x.tobytes() == y.tobytes()


def plain_array(value: Any) -> np.ndarray:
    """A constant as numpy has it; random keys as their data."""
    if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def inner_consts(jaxpr: jex.Jaxpr) -> list[Any]:
    """The constants of programs inside a program."""
    found: list[Any] = []
    for inner in _closed_or_not(jaxpr):
        if isinstance(inner, jex.ClosedJaxpr):
            found += inner.consts
        found += inner_consts(_opened(inner))
    return found


def inner_programs(jaxpr: jex.Jaxpr) -> list[jex.Jaxpr]:
    """The programs right inside a program."""
    return [_opened(inner) for inner in _closed_or_not(jaxpr)]


def _closed_or_not(jaxpr: jex.Jaxpr) -> list[jex.Jaxpr | jex.ClosedJaxpr]:
    values = (value for eqn in jaxpr.eqns for value in eqn.params.values())
    items = (item for v in values for item in (v if isinstance(v, tuple | list) else (v,)))
    return [item for item in items if isinstance(item, jex.ClosedJaxpr | jex.Jaxpr)]


def _opened(program: jex.Jaxpr | jex.ClosedJaxpr) -> jex.Jaxpr:
    return program.jaxpr if isinstance(program, jex.ClosedJaxpr) else program


_INLINED_CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat",
    "checkpoint",
    "custom_jvp_call",
)


def dependence(jaxpr: jex.Jaxpr) -> list[frozenset[int]]:
    """For each output, the positions of the inputs that can influence it."""
    inputs = [frozenset((i,)) for i in range(len(jaxpr.invars))]
    return _walk(jaxpr, inputs)


def _walk(jaxpr: jex.Jaxpr, inputs: list[frozenset[int]]) -> list[frozenset[int]]:
    known: dict[object, frozenset[int]] = dict(zip(jaxpr.invars, inputs, strict=True))

    def of(var: object) -> frozenset[int]:
        return frozenset() if isinstance(var, jex.Literal) else known.get(var, frozenset())

    for eqn in jaxpr.eqns:
        sources = [of(var) for var in eqn.invars]
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if eqn.primitive.name in _INLINED_CALLS and inner is not None:
            body = inner.jaxpr if isinstance(inner, jex.ClosedJaxpr) else inner
            outputs = _walk(body, sources)
        else:
            outputs = [frozenset().union(*sources)] * len(eqn.outvars)
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [of(var) for var in jaxpr.outvars]
