"""The only place here that touches private parts of JAX (0.8 to 0.12).

A lowering rule takes a context, the operands as MLIR values and the primitive's parameters, and
returns the results as MLIR values. JAX keeps one table of rules for every platform.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from drumline._changes import forget, full_name, note
from drumline._jax_start import require, unsupported
from drumline.cpu_kernels.convolution_call import Program

try:
    from jax._src import compiler, core
    from jax._src.interpreters import mlir, partial_eval
    from jax._src.lax.convolution import conv_general_dilated_p
    from jax._src.lax.windowed_reductions import select_and_scatter_add_p
except ImportError as error:
    raise unsupported(str(error)) from error

require(compiler, "get_compile_options")
require(core, "Literal", "Primitive", "ShapedArray", "Var", "new_jaxpr_eqn", "no_effects")
require(mlir, "_lowerings", "_platform_specific_lowerings", "jaxpr_subcomp")
require(mlir, "lower_fun", "register_lowering")
require(partial_eval, "dce_jaxpr")

Rule = Callable[..., Sequence[Any]]
Override = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Rewrite = Callable[[Any, Program], Any]

OFF = "dl.config.set_cpu_kernels(False), or DRUMLINE_CPU_KERNELS=0"

CONVOLUTION = conv_general_dilated_p
"""The primitive of ``jax.lax.conv_general_dilated`` and of its gradients."""

MAX_POOL_GRADIENT = select_and_scatter_add_p
"""The primitive of the gradient of max and min pooling."""


def cpu_entry(primitive: Any) -> Any | None:
    """What JAX's table for the CPU holds for ``primitive``; ``None`` if nothing."""
    return mlir._platform_specific_lowerings["cpu"].get(primitive)


def current_rule(primitive: Any) -> Rule:
    """The rule by which ``primitive`` is lowered for the CPU now."""
    own = cpu_entry(primitive)
    entry: Any = mlir._lowerings[primitive] if own is None else own
    rule: Rule = getattr(entry, "rule", entry)
    return rule


def register(primitive: Any, rule: Rule) -> None:
    """Lowers ``primitive`` by ``rule`` on the CPU."""
    mlir.register_lowering(primitive, rule, platform="cpu")
    note(
        "JAX",
        _entry(primitive),
        "XLA compiles it poorly for CPUs; what no kernel here takes goes to JAX's own rule",
        OFF,
    )


def restore(primitive: Any, entry: Any | None) -> None:
    """Puts back what ``cpu_entry`` returned."""
    forget("JAX", _entry(primitive))
    table = mlir._platform_specific_lowerings["cpu"]
    if entry is None:
        table.pop(primitive, None)
    else:
        table[primitive] = entry


def _entry(primitive: Any) -> str:
    return full_name(mlir, f'_platform_specific_lowerings["cpu"][{primitive.name}]')


def lower(function: Callable[..., Any], context: Any, *operands: Any) -> Sequence[Any]:
    """Lowers a JAX function of arrays, with one array as result, in the place of a primitive."""
    return mlir.lower_fun(function, multiple_results=False)(context, *operands)


def static_shapes(context: Any) -> bool:
    """Whether all shapes are known; a program being exported may have symbolic ones."""
    return static((*context.avals_in, *context.avals_out))


def static(avals: Sequence[Any]) -> bool:
    """Whether all shapes are known."""
    return all(isinstance(size, int) for aval in avals for size in aval.shape)


def explicitly_sharded(context: Any) -> bool:
    """Whether the types of operands or results carry the axes of a mesh."""
    return explicit((*context.avals_in, *context.avals_out))


def explicit(avals: Sequence[Any]) -> bool:
    """Whether any of the types carries the axes of a mesh."""
    shardings = [getattr(aval, "sharding", None) for aval in avals]
    return any(bool(s.mesh.explicit_axes) for s in shardings if s is not None)


def partitioned(context: Any) -> bool:
    """Whether the compiler will split this program over devices by itself.

    False on one device, and inside ``shard_map``, where each device has its own program.
    """
    return _partitioned(context.module_context)


def _partitioned(module: Any) -> bool:
    axes = module.axis_context
    devices = getattr(axes, "num_devices", None)
    if devices is not None:
        return bool(devices > 1)
    mesh = getattr(axes, "mesh", None)
    manual: frozenset[str] = getattr(axes, "manual_axes", frozenset())
    return mesh is None or set(manual) != set(mesh.axis_names)


def exported(context: Any) -> bool:
    """Whether ``jax.export`` writes this program down for other processes."""
    return bool(context.module_context.lowering_parameters.for_export)


_lower_program: Callable[..., Any] = mlir.jaxpr_subcomp


def rewrite_programs(rewrite: Rewrite | None) -> None:
    """Passes every traced program that is lowered for the CPU alone through ``rewrite``.

    The bodies of loops, calls and maps over devices are programs of their own. ``None`` leaves
    them as they are again.
    """
    hook: Any = _lower_program if rewrite is None else _rewriting(rewrite)
    mlir.jaxpr_subcomp = hook
    if rewrite is None:
        forget("JAX", full_name(mlir, "jaxpr_subcomp"))
        return
    note(
        "JAX",
        full_name(mlir, "jaxpr_subcomp"),
        "in programs for CPUs, layers of convolution, bias, relu and pooling become one kernel",
        OFF,
    )


def _rewriting(rewrite: Rewrite) -> Callable[..., Any]:
    @functools.wraps(_lower_program)
    def jaxpr_subcomp(module: Any, traced: Any, *args: Any, **kwargs: Any) -> Any:
        if tuple(module.platforms) == ("cpu",):
            exports = bool(module.lowering_parameters.for_export)
            traced = rewrite(traced, Program(_partitioned(module), exports))
        return _lower_program(module, traced, *args, **kwargs)

    return jaxpr_subcomp


def new_primitive(name: str, function: Callable[..., Sequence[Any]]) -> Any:
    """A primitive for the equations of rewritten programs, computed by ``function``."""
    primitive = core.Primitive(name)
    primitive.multiple_results = True
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=True))
    return primitive


def equation(
    primitive: Any, operands: Sequence[Any], results: Sequence[Any], like: Any, **params: Any
) -> Any:
    """An equation that stands where ``like`` stood."""
    return core.new_jaxpr_eqn(
        list(operands),
        list(results),
        primitive,
        params,
        core.no_effects,
        like.source_info,
        like.ctx,
    )


def new_variable(shape: Sequence[int], dtype: str) -> Any:
    """A value of a program."""
    return core.Var(core.ShapedArray(tuple(shape), jax.dtypes.canonicalize_dtype(dtype)))


def is_variable(atom: Any) -> bool:
    """Whether an operand of an equation is a value, and not a constant written into it."""
    return isinstance(atom, core.Var)


def is_literal(atom: Any) -> bool:
    """Whether an operand of an equation is a constant written into it."""
    return isinstance(atom, core.Literal)


def called_program(equation: Any, names: Sequence[str]) -> Any | None:
    """The traced program that an equation of a primitive called one of ``names`` calls."""
    if equation.primitive.name not in names:
        return None
    program = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    return getattr(program, "jaxpr", program)


def without_dead_code(traced: Any) -> Any:
    """The traced program without what its outputs do not need; all inputs stay."""
    used = [True] * len(traced.outvars)
    alive, _ = partial_eval.dce_jaxpr(traced, used, instantiate=True)
    return alive


def with_equations(traced: Any, equations: Sequence[Any]) -> Any:
    """The traced program with other equations."""
    return traced.replace(eqns=list(equations))


_compile_options = compiler.get_compile_options


def override_cpu_options(override: Override | None) -> None:
    """Passes the compiler options of every program for the CPU through ``override``.

    ``None`` leaves them as they are again.
    """
    if override is None:
        compiler.get_compile_options = _compile_options
        forget("JAX", full_name(compiler, "get_compile_options"))
        return

    @functools.wraps(_compile_options)
    def get_compile_options(*args: Any, **kwargs: Any) -> Any:
        backend = kwargs.get("backend")
        if backend is not None and backend.platform == "cpu":
            kwargs["env_options_overrides"] = override(kwargs.get("env_options_overrides") or {})
        return _compile_options(*args, **kwargs)

    compiler.get_compile_options = get_compile_options
    note(
        "JAX",
        full_name(compiler, "get_compile_options"),
        "convolutions on CPUs are computed by Eigen, where jaxlib takes the slower YNNPACK",
        OFF,
    )


@functools.cache
def knows_option(name: str, value: str) -> bool:
    """Whether jaxlib's compiler for the CPU takes ``value`` for its option ``name``."""
    # In a thread of its own no mesh is in force, as one may be where this is asked.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(_compiles_with, name, value).result()


def _compiles_with(name: str, value: str) -> bool:
    on_cpu = jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
    scalar = jax.ShapeDtypeStruct((), "float32", sharding=on_cpu)
    program = jax.jit(lambda x: x, compiler_options={name: value}).lower(scalar)
    try:
        program.compile()
    except jax.errors.JaxRuntimeError as error:
        if "INVALID_ARGUMENT" not in str(error):
            raise
        return False
    return True


def set_by_flag(name: str) -> bool:
    """Whether the environment's ``XLA_FLAGS`` set the compiler option ``name``."""
    return f"--{name}" in os.environ.get("XLA_FLAGS", "")


def x64_enabled() -> bool:
    """Whether arrays of 64-bit numbers are allowed."""
    return bool(jax.dtypes.canonicalize_dtype("float64") == "float64")
