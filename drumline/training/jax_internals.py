"""What this room uses of JAX that is not public API (jax 0.8 to 0.12)."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline._jax_start import require, require_parameters, unsupported

try:
    from jax._src import api_util, core, source_info_util
    from jax._src import linear_util as lu
    from jax._src.ad_util import add_jaxvals_p
    from jax._src.array import ArrayImpl
    from jax._src.interpreters import ad, batching, partial_eval
    from jax._src.lax.lax import copy_p
except ImportError as error:
    raise unsupported(str(error)) from error

require(
    core,
    "EvalTrace",
    "eval_trace",
    "Jaxpr",
    "Literal",
    "Primitive",
    "Trace",
    "TraceTag",
    "Tracer",
    "Var",
)
require(core, "dimension_as_value", "new_jaxpr_eqn", "no_effects", "set_current_trace")
require(core, "take_current_trace", "typeof")
require(core, "trace_ctx.set_trace", "trace_ctx.trace", "Jaxpr.replace")
require(ad, "LinearizeTrace", "LinearizeTracer", "UndefinedPrimal", "Zero")
require(ad, "backward_pass", "instantiate_zeros", "primitive_jvps", "primitive_linearizations")
require(ad, "primitive_transposes")
require(batching, "primitive_batchers")
require(lu, "WrappedFun", "transformation2")
require(partial_eval, "dce_jaxpr", "dce_jaxpr_consts")
require(partial_eval, *(f"DynamicJaxprTrace.{name}" for name in ("new_arg", "to_jaxpr")))
require(partial_eval, "DynamicJaxprTrace.to_jaxpr_tracer")
require(source_info_util, "current", "current_name_stack", "user_context", "user_frames")
require(api_util, "debug_info")
require(copy_p, "bind")

require_parameters(partial_eval.DynamicJaxprTrace, "auto_dce")

Trace = core.Trace
Tracer = core.Tracer
Primitive = core.Primitive
Jaxpr = core.Jaxpr
ClosedJaxpr: Any = getattr(core, "ClosedJaxpr", core.Jaxpr)
"""A program with the values of its constants; since jax 0.12 every program holds them."""
LinearizeTrace = ad.LinearizeTrace
LinearizeTracer = ad.LinearizeTracer
WrappedFun = lu.WrappedFun
Zero = ad.Zero

_HERE = f"{Path(__file__).parents[1]}{os.sep}"
_KERAS = f"{os.sep}site-packages{os.sep}keras{os.sep}"
_LINEARIZE_TAKES_TAG = "tag" in inspect.signature(ad.LinearizeTrace.__init__).parameters


def current_trace() -> Any:
    """The trace in which operations of this thread are now interpreted."""
    return core.trace_ctx.trace


def set_trace(trace: Any) -> None:
    """Make `trace` the current one of this thread."""
    core.trace_ctx.set_trace(trace)


@contextlib.contextmanager
def under(trace: Any) -> Iterator[None]:
    """Let operations be interpreted by `trace` until the block ends."""
    with core.set_current_trace(trace):
        yield


def evaluating() -> contextlib.AbstractContextManager[None]:
    """Within the block operations are computed at once, whatever is being traced around it."""
    return under(core.eval_trace)


@contextlib.contextmanager
def trace_taken() -> Iterator[Any]:
    """Yield the current trace, as a primitive's ``bind`` takes it, until the block ends."""
    with core.take_current_trace() as trace:
        yield trace


def ancestors(trace: Any) -> list[Any]:
    """`trace` and the traces around it, innermost first."""
    found = []
    while trace is not None:
        found.append(trace)
        trace = getattr(trace, "parent_trace", None)
    return found


def is_staged(trace: Any) -> bool:
    """Whether values in `trace` are symbols of a program, and not arrays that exist already."""
    for each in ancestors(trace):
        if isinstance(each, partial_eval.DynamicJaxprTrace):
            return True
        if isinstance(each, core.EvalTrace):
            return False
    return False


def is_staging() -> bool:
    """Whether this thread traces a program, whose values are not known while Python runs.

    Within a gradient tape's block, and within ``jax.grad`` and ``jax.vmap`` that are not compiled,
    JAX traces, too, but computes at once: that is no staging.
    """
    return is_staged(core.trace_ctx.trace)


def is_evaluating() -> bool:
    """Whether operations are computed at once, and no trace of JAX's or of a tape's sees them."""
    return isinstance(core.trace_ctx.trace, core.EvalTrace)


def is_inexact(value: Any) -> bool:
    """Whether `value` is of a type that has derivatives: floating or complex."""
    return bool(jnp.issubdtype(core.typeof(value).dtype, jnp.inexact))


def same_value(value: Any, trace: Any) -> Any:
    """Another object that stands for the same value, made in `trace`.

    Arrays share their buffers; a tracer costs one equation, which compiles to nothing.
    """
    if type(value) is ArrayImpl and not is_staged(trace):
        return ArrayImpl(
            value.aval,
            value.sharding,
            value._arrays,
            committed=value._committed,
            _skip_checks=True,
        )
    with under(trace):
        return copy_p.bind(value)


class TangentProgram:
    """A linear program that JAX stages while other traces compute the primal values."""

    def __init__(self) -> None:
        self._debug_info = _tape_info()
        self._trace = partial_eval.DynamicJaxprTrace(self._debug_info, auto_dce=True)
        self._trace.tag = core.TraceTag()
        self._options: dict[str, Any] = (
            {"tag": self._trace.tag} if _LINEARIZE_TAKES_TAG else {"is_vjp": True}
        )

    @property
    def trace(self) -> Any:
        """The trace that stages the program's equations."""
        return self._trace

    def new_input(self, value: Any) -> Any:
        """The tangent of `value`, as a new input."""
        tangent_type = core.typeof(value).to_tangent_aval()
        return self._trace.new_arg(tangent_type, source_info_util.current())

    def linearizer(self, parent: Any) -> Any:
        """A trace that computes primal values in `parent` and stages tangents here."""
        return LinearizeTrace(parent, self._trace, **self._options)

    def to_jaxpr(self, outputs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The program so far, with the given tangents as outputs, and its constants."""
        here = source_info_util.current()
        tracers = [self._trace.to_jaxpr_tracer(output, here) for output in outputs]
        names = self._debug_info.with_unknown_names()
        program, consts = self._trace.to_jaxpr(tracers, names, here)
        if ClosedJaxpr is Jaxpr:  # constants without values would count as inputs
            program = program.with_consts(consts)
        return program, consts


def _recorded_block() -> None:
    """Names the tape in JAX's messages."""


@functools.cache
def _tape_info() -> Any:
    return api_util.debug_info("GradientTape", _recorded_block, (), {})


def addition(left: Any, right: Any, result: Any) -> Any:
    """The equation `result` = `left` + `right` on tangents."""
    return core.new_jaxpr_eqn([left, right], [result], add_jaxvals_p, {}, core.no_effects)


def new_variable(like: Any) -> Any:
    """A variable of a program, of the type of `like`."""
    return core.Var(like.aval)


def is_variable(atom: Any) -> bool:
    """Whether an equation's operand is a variable, and not a literal."""
    return isinstance(atom, core.Var)


def linear_jaxpr(template: Jaxpr, inputs: list[Any], outputs: list[Any], eqns: list[Any]) -> Jaxpr:
    """A program of the given equations, with the constants of `template`."""
    return template.replace(
        invars=inputs,
        outvars=outputs,
        eqns=eqns,
        debug_info=template.debug_info.with_unknown_names(),
    )


def pruned(jaxpr: Jaxpr, consts: Sequence[Any], kept: int) -> tuple[Jaxpr, list[Any]]:
    """The program without what its outputs do not need, and its constants.

    The first `kept` inputs stay in any case. JAX's rules for transposing a loop rely on this.
    """
    stay = [False] * len(consts) + [i < kept for i in range(len(jaxpr.invars))]
    jaxpr, used, _ = partial_eval.dce_jaxpr_consts(jaxpr, [True] * len(jaxpr.outvars), stay)
    return jaxpr, [const for const, is_used in zip(consts, used, strict=True) if is_used]


def transpose(jaxpr: Jaxpr, consts: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """The cotangents of a linear program's inputs; None where they are zero by structure."""
    inputs = [ad.UndefinedPrimal(variable.aval) for variable in jaxpr.invars]
    # What was computed with 64 bits is transposed with them: the rules make zeros and casts.
    wide = not jax.config.read("jax_enable_x64") and _is_wide(jaxpr)
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        results = ad.backward_pass(jaxpr, True, consts, inputs, cotangents)
    return [None if type(result) is Zero else result for result in results]


def _is_wide(jaxpr: Jaxpr) -> bool:
    made = (variable for eqn in jaxpr.eqns for variable in eqn.outvars)
    return any(
        getattr(variable.aval, "dtype", None) in (np.float64, np.complex128)
        for variable in (*jaxpr.invars, *made)
    )


def wrap_function(function: Any, around: Callable[..., Any]) -> Any:
    """`function`, which JAX gave to a trace, called as ``around(function, *args)``."""
    if isinstance(function, WrappedFun):
        return _called_around(function, around)
    return lambda *args: around(function, *args)


@lu.transformation2
def _called_around(function: Any, around: Callable[..., Any], *args: Any) -> Any:
    return around(function, *args)


def forget_call(function: Any) -> None:
    """Let a function that JAX gave to a trace be called once more."""
    for store in getattr(function, "stores", ()):
        if store:
            store.reset()


def constants_within(params: dict[str, Any]) -> Iterator[Any]:
    """The constants of all programs among a primitive's parameters."""
    for param in params.values():
        for each in param if isinstance(param, (tuple, list)) else (param,):
            if isinstance(each, ClosedJaxpr):
                yield from each.consts
                yield from _literals(each.jaxpr)
            elif isinstance(each, core.Jaxpr):
                yield from _literals(each)


# Loops whose number of steps is known when they run alone have no gradient by transposition.
_FORWARD_ONLY = frozenset({"while", "pure_callback", "io_callback", "ffi_call"})
_WITH_RULES_OF_THEIR_OWN = frozenset({"custom_jvp_call", "custom_vjp_call"})


def has_gradient_as_a_whole(jaxpr: Jaxpr) -> bool:
    """Whether a program can be linearized and transposed without splitting it into operations."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in _FORWARD_ONLY:
            return False
        known = eqn.primitive in ad.primitive_jvps or eqn.primitive in ad.primitive_linearizations
        if not known and name not in _WITH_RULES_OF_THEIR_OWN:
            return False
        for param in eqn.params.values():
            for each in param if isinstance(param, (tuple, list)) else (param,):
                if is_program(each) and not has_gradient_as_a_whole(opened(each)[0]):
                    return False
    return True


# Operations on arrays with nothing else among their parameters than numbers, shapes and dtypes.
_PLAIN_NAMES = """
    abs acos acosh add add_any asin asinh atan atan2 atanh broadcast_in_dim cbrt clamp complex
    concatenate conj conv_general_dilated convert_element_type cos cosh cumlogsumexp cummax cummin
    cumprod cumsum digamma div dot_general dynamic_slice dynamic_update_slice erf erf_inv erfc exp
    exp2 expm1 gather imag integer_pow lgamma log log1p logistic max min mul neg pad pow real
    reduce_max reduce_min reduce_prod reduce_sum reduce_window_max reduce_window_sum reshape rev
    rsqrt scatter-add select_n sign sin sinh slice split sqrt square squeeze sub tan tanh
    transpose
"""
_PLAIN = frozenset(_PLAIN_NAMES.split())


def is_plain(primitive: Primitive) -> bool:
    """Whether an operation has no effect, and depends on its operands and parameters alone."""
    return primitive.name in _PLAIN


def _literals(jaxpr: Jaxpr) -> Iterator[Any]:
    for atom in jaxpr.outvars:
        if isinstance(atom, core.Literal):
            yield atom.val
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, core.Literal):
                yield atom.val
        yield from constants_within(eqn.params)


def refusing_primitive(name: str, refuse: Callable[[str], None]) -> Primitive:
    """A linear primitive that cannot be transposed: asking for it calls ``refuse(reason)``.

    It takes tangents and the parameters `reason` and `types`, those of its outputs.
    """
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *_, types, reason: list(types))

    def transposed(_: Any, *__: Any, types: Any, reason: str) -> None:
        refuse(reason)

    ad.primitive_transposes[primitive] = transposed
    return primitive


def linear_primitive(
    name: str,
    below: Callable[..., list[Any] | None],
    types: Callable[..., list[Any]],
    transposed: Callable[..., list[Any]],
    refuse_staging: Callable[..., None],
) -> Primitive:
    """A linear primitive of several floating arrays, computed by Python below all transformations.

    It takes the parameters `collective`, any object, and `tangents`: False where a user binds it.

    Args:
        name: of the primitive.
        below: ``below(trace, arrays, collective)`` computes it with the values of `trace`; None if
            they are not the lowest ones.
        types: ``types(types, collective)`` are the types of what comes out.
        transposed: ``transposed(cotangents, collective)``.
        refuse_staging: ``refuse_staging(collective)`` raises, where a program would contain it.
    """
    primitive = _Linear(name, below)
    primitive.multiple_results = True

    def abstract(*arrays: Any, collective: Any, tangents: bool) -> list[Any]:
        if not tangents:
            refuse_staging(collective)
        return types(arrays, collective)

    def jvp(primals: Any, directions: Any, *, collective: Any, tangents: bool) -> tuple[Any, Any]:
        outputs = primitive.bind(*primals, collective=collective, tangents=tangents)
        whole = [ad.instantiate_zeros(direction) for direction in directions]
        return outputs, primitive.bind(*whole, collective=collective, tangents=True)

    def transpose_rule(cotangents: Any, *_: Any, collective: Any, tangents: bool) -> list[Any]:
        return transposed([ad.instantiate_zeros(each) for each in cotangents], collective)

    primitive.def_abstract_eval(abstract)
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose_rule
    return primitive


def pulled_primitive(name: str) -> Primitive:
    """A linear primitive of which only the transpose is known.

    Its parameter `pull` is that: from a cotangent for each output to one for each operand. Its
    attribute `types` are the types of the outputs.
    """
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *_, pull: list(pull.types))

    def transposed(cotangents: Any, *_: Any, pull: Any) -> Any:
        return pull([ad.instantiate_zeros(each) for each in cotangents])

    ad.primitive_transposes[primitive] = transposed
    return primitive


def delivering_primitive(name: str, arrive: Callable[..., None]) -> Primitive:
    """A primitive without results that brings values below all transformations.

    There it leaves nothing in a program by itself. Of a function that is mapped, it brings the
    values of each row.

    Args:
        name: of the primitive.
        arrive: ``arrive(trace, values, **params)`` is called with what was bound: arrays, or the
            symbols of a program that `trace` stages.
    """
    primitive = _Delivering(name, arrive)
    primitive.multiple_results = True

    def jvp(primals: Any, _: Any, **params: Any) -> tuple[Any, Any]:
        return primitive.bind(*primals, **params), []

    def of_each_row(values: Any, axes: Any, **params: Any) -> tuple[Any, Any]:
        pairs = list(zip(values, axes, strict=True))
        rows = next(value.shape[axis] for value, axis in pairs if isinstance(axis, int))
        for row in range(rows):
            each = [
                jax.lax.index_in_dim(value, row, axis, keepdims=False)
                if isinstance(axis, int)
                else value
                for value, axis in pairs
            ]
            primitive.bind(*each, **params)
        return [], []

    ad.primitive_jvps[primitive] = jvp
    batching.primitive_batchers[primitive] = of_each_row
    return primitive


class _Delivering(Primitive):
    def __init__(self, name: str, arrive: Callable[..., None]) -> None:
        super().__init__(name)
        self._arrive = arrive

    def bind_with_trace(self, trace: Any, args: Any, *rest: Any) -> Any:
        """As that of `_Linear`."""
        if not isinstance(trace, (core.EvalTrace, partial_eval.DynamicJaxprTrace)):
            return super().bind_with_trace(trace, args, *rest)
        with under(trace):
            self._arrive(trace, args, **rest[-1])
        return []


class _Linear(Primitive):
    def __init__(self, name: str, below: Callable[..., list[Any] | None]) -> None:
        super().__init__(name)
        self._below = below

    def bind_with_trace(self, trace: Any, args: Any, *rest: Any) -> Any:
        """JAX's way to a trace; what comes last are the parameters, in every release."""
        outputs = self._below(trace, args, rest[-1]["collective"])
        return super().bind_with_trace(trace, args, *rest) if outputs is None else outputs


def tangent_type(value: Any) -> Any:
    """The type of a tangent of `value`."""
    return core.typeof(value).to_tangent_aval()


def is_literal(atom: Any) -> bool:
    """Whether an equation's operand is a constant written into it."""
    return isinstance(atom, core.Literal)


def bind(eqn: Any, operands: Sequence[Any], **changed: Any) -> list[Any]:
    """What the equation gives for `operands`, some of its parameters `changed`; always a list."""
    params = eqn.primitive.get_bind_params({**eqn.params, **changed})
    functions, named = params if isinstance(params, tuple) else ((), params)
    with eqn.ctx.manager:
        outputs = eqn.primitive.bind(*functions, *operands, **named)
    return list(outputs) if eqn.primitive.multiple_results else [outputs]


_late_p = Primitive("drumline_late_argument")
_late_p.def_abstract_eval(lambda *, type, number: type)
_late_p.def_impl(lambda *, type, number: None)


def late_argument(like: Any, number: int, trace: Any) -> Any:
    """A symbol of a program that is being traced, for an argument that is found while it is traced.

    Args:
        like: a value of its type.
        number: of the argument, by which `run_program` takes its value.
        trace: that of the program.

    Returns:
        None within `jax.ensure_compile_time_eval`, where there are no symbols.
    """
    with under(trace):
        return _late_p.bind(type=core.typeof(like), number=number)


def type_of(value: Any) -> tuple[Any, Any, bool]:
    """Shape, dtype, and whether other types prevail over it: what a program is traced for."""
    found = core.typeof(value)
    return found.shape, found.dtype, bool(getattr(found, "weak_type", False))


def run_program(program: Any, late: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """What a program of `jax.make_jaxpr` gives, with values for its `late_argument`s."""
    jaxpr, consts = opened(program)
    values = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def value(atom: Any) -> Any:
        return atom.val if is_literal(atom) else values[atom]

    for eqn in jaxpr.eqns:
        if eqn.primitive is _late_p:
            values[eqn.outvars[0]] = late[eqn.params["number"]]
            continue
        names = source_info_util.current_name_stack() + eqn.source_info.name_stack
        with source_info_util.user_context(eqn.source_info.traceback, name_stack=names):
            outputs = bind(eqn, list(map(value, eqn.invars)))
        values.update(zip(eqn.outvars, outputs, strict=True))
    return list(map(value, jaxpr.outvars))


def source_line(eqn: Any) -> str:
    """Where the user wrote what became this equation: file, line and function."""
    frames = list(source_info_util.user_frames(eqn.source_info.traceback))
    own = [
        frame
        for frame in frames
        if not frame.file_name.startswith(_HERE) and _KERAS not in frame.file_name
    ]
    if not (own or frames):
        return "an unknown line"
    frame = (own or frames)[0]
    return f"{frame.file_name}:{frame.start_line} ({frame.function_name})"


def without_dead_code(jaxpr: Jaxpr) -> tuple[Jaxpr, list[bool]]:
    """The program without what its outputs do not need, and for each input whether it is left."""
    return partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))


def opened(program: Any) -> tuple[Jaxpr, Sequence[Any]]:
    """A program of an equation's parameters, and its constants."""
    if isinstance(program, ClosedJaxpr):
        return program.jaxpr, program.consts
    return program, ()


UnknownSize: type[Exception] = (
    jax.errors.InconclusiveDimensionOperation
    if hasattr(jax.errors, "InconclusiveDimensionOperation")
    else jax.core.InconclusiveDimensionOperation  # of jax 0.8
)
"""A program needs the value of a size that is an expression."""


def size_value(size: Any) -> Any:
    """A size that is an expression, as where a program is exported, as an integer array."""
    return core.dimension_as_value(size)


def is_program(param: Any) -> bool:
    """Whether a parameter of an equation is a program."""
    return isinstance(param, (ClosedJaxpr, Jaxpr))
