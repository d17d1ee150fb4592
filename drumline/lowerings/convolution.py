"""The lowering rule for convolutions: the first form that covers a call, or XLA's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from drumline.lowerings import (
    direct_convolution,
    few_channels,
    jax_internals,
    pointwise_convolution,
    weight_gradient,
)
from drumline.lowerings.convolution_call import ConvolutionCall, describe
from drumline.lowerings.program import Program

Computation = Callable[[jax.Array, jax.Array], jax.Array]
Form = Callable[[ConvolutionCall, Program], Computation | None]
"""Given a call and the program it is part of, how to compute the call, or ``None`` to leave it to
others."""

FORMS: Mapping[str, Form] = {
    "pointwise_convolution": pointwise_convolution.form,
    "direct_convolution": direct_convolution.form,
    "weight_gradient": weight_gradient.form,
    "few_channels": few_channels.form,
}

_DTYPES = frozenset(("float32", "float64", "bfloat16"))


def convolution_rule(original: jax_internals.Rule, forms: Sequence[Form]) -> jax_internals.Rule:
    """The lowering rule that tries ``forms`` in their order and then ``original``."""

    def lower(context: Any, lhs: Any, rhs: Any, **params: Any) -> Sequence[Any]:
        if _considered(context, **params):
            call = describe(*context.avals_in, *context.avals_out, **params)
            program = Program(jax_internals.partitioned(context), jax_internals.exported(context))
            for form in forms:
                computation = form(call, program)
                if computation is not None:
                    return jax_internals.lower(computation, context, lhs, rhs)
        return original(context, lhs, rhs, **params)

    return lower


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
