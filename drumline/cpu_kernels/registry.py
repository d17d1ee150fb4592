"""Installing the kernels, taking them out again, and seeing which are in.

Installing replaces entries of JAX's tables. What the entries lead to, the forms of convolutions and
the kernels behind them, is imported when JAX lowers the first program for a CPU that has a use for
it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drumline import _settings
from drumline.cpu_kernels import jax_internals
from drumline.cpu_kernels.convolution_call import Program, describe

if TYPE_CHECKING:
    import jax

    from drumline.cpu_kernels.convolution_call import ConvolutionCall

    Computation = Callable[[jax.Array, jax.Array], jax.Array]
    Form = Callable[[ConvolutionCall, Program], Computation | None]
    """Given a call and the program it is part of, how to compute the call, or ``None`` to leave it
    to others."""

FORMS = ("pointwise_convolution", "direct_convolution", "weight_gradient", "few_channels")
"""Groups whose ``form`` may take a convolution, in the order in which they are asked."""

_DTYPES = frozenset(("float32", "float64", "bfloat16"))

_installed: tuple[str, ...] = ()
_replaced: dict[Any, Any | None] = {}


def install(names: Iterable[str] = _settings.CPU_KERNELS) -> tuple[str, ...]:
    """Register kernels for the CPU in the place of JAX's own lowerings, and return their names.

    Calling it again replaces the earlier choice, so calling it twice is calling it once.

    Args:
        names: the groups to install, of `drumline.cpu_kernels`; by default all.

    Raises:
        ValueError: if a name is none of these.
    """
    global _installed
    chosen = _settings.ordered(names)
    uninstall()
    if "max_pool_gradient" in chosen:
        _replace(jax_internals.MAX_POOL_GRADIENT, _max_pool_gradient_rule)
    if "pooled_convolution" in chosen:
        jax_internals.rewrite_programs(_with_pooled_layers)
    forms = tuple(name for name in FORMS if name in chosen)
    if forms:
        _replace(jax_internals.CONVOLUTION, lambda original: _convolution_rule(original, forms))
    if "eigen_convolution" in chosen:
        jax_internals.override_cpu_options(_eigen_options)
    _installed = chosen
    return chosen


def uninstall() -> None:
    """Put JAX's own lowerings back; without effect when none are replaced."""
    global _installed
    for primitive, entry in _replaced.items():
        jax_internals.restore(primitive, entry)
    _replaced.clear()
    jax_internals.rewrite_programs(None)
    jax_internals.override_cpu_options(None)
    _installed = ()


def installed() -> tuple[str, ...]:
    """Return the names of the groups that are installed now."""
    return _installed


def _replace(primitive: Any, make: Callable[[jax_internals.Rule], jax_internals.Rule]) -> None:
    """Replace the rule that is in force by ``make`` of it, and remember what was there."""
    _replaced[primitive] = jax_internals.cpu_entry(primitive)
    jax_internals.register(primitive, make(jax_internals.current_rule(primitive)))


def _max_pool_gradient_rule(original: jax_internals.Rule) -> jax_internals.Rule:
    def lower(*args: Any, **params: Any) -> Sequence[Any]:
        from drumline.cpu_kernels.max_pool_gradient import rule

        return rule(original)(*args, **params)

    return lower


def _with_pooled_layers(traced: Any, program: Program) -> Any:
    if not any(equation.primitive.name == "reduce_window_max" for equation in traced.eqns):
        return traced
    from drumline.cpu_kernels import pooled_convolution

    return pooled_convolution.rewrite(traced, program)


def _convolution_rule(original: jax_internals.Rule, names: tuple[str, ...]) -> jax_internals.Rule:
    """The lowering rule that tries the forms of these names in order, and then ``original``."""

    def lower(context: Any, lhs: Any, rhs: Any, **params: Any) -> Sequence[Any]:
        if _considered(context, **params):
            call = describe(*context.avals_in, *context.avals_out, **params)
            program = Program(jax_internals.partitioned(context), jax_internals.exported(context))
            for form in _forms(names):
                computation = form(call, program)
                if computation is not None:
                    return jax_internals.lower(computation, context, lhs, rhs)
        return original(context, lhs, rhs, **params)

    return lower


@functools.cache
def _forms(names: tuple[str, ...]) -> tuple[Form, ...]:
    from drumline.cpu_kernels import (
        direct_convolution,
        pointwise_convolution,
        weight_gradient,
    )

    known: Mapping[str, Form] = {
        "pointwise_convolution": pointwise_convolution.form,
        "direct_convolution": direct_convolution.form,
        "weight_gradient": weight_gradient.form,
        "few_channels": weight_gradient.few_channels_form,
    }
    return tuple(known[name] for name in names)


def _considered(
    context: Any, *, feature_group_count: int, batch_group_count: int, **_: Any
) -> bool:
    if not jax_internals.static_shapes(context) or jax_internals.explicitly_sharded(context):
        return False
    lhs, rhs = context.avals_in
    (out,) = context.avals_out
    return (
        feature_group_count == 1
        and batch_group_count == 1
        and lhs.dtype == rhs.dtype
        and str(lhs.dtype) in _DTYPES
        and str(out.dtype) in _DTYPES
        and min(lhs.size, rhs.size, out.size) > 0
    )


OPTION = "xla_cpu_experimental_ynn_fusion_type"
"""The field of XLA's ``DebugOptions`` that lists what YNNPACK computes.

Newer jaxlibs give 2-D convolutions to YNNPACK, which here takes about twice as long over them as
Eigen, to which they went before. Eigen knows no float64, so that the option stays as it is where
JAX may use 64 bits, where jaxlib does not know it, and where a program's own compiler options or
``XLA_FLAGS`` set it.
"""

WITHOUT_CONVOLUTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"


def _eigen_options(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if OPTION in given or jax_internals.set_by_flag(OPTION) or jax_internals.x64_enabled():
        return given
    if not jax_internals.knows_option(OPTION, WITHOUT_CONVOLUTIONS):
        return given
    return {**given, OPTION: WITHOUT_CONVOLUTIONS}
