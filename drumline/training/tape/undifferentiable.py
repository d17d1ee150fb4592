"""Operations without a derivative: an error only where their gradient is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumline.training import jax_internals


def undifferentiable(
    linearizer: Any,
    primitive: Any,
    inputs: Sequence[Any],
    params: dict[str, Any],
    error: Exception,
) -> Any:
    """Compute an operation that failed to be linearized with `error`.

    Its outputs have tangents which raise when a gradient passes through them. If the operation
    fails by itself, that error is raised now.
    """
    pairs = [linearizer.to_primal_tangent_pair(value) for value in inputs]
    outputs = linearizer.process_primitive(primitive, [value for value, _ in pairs], params)
    plain = list(outputs) if primitive.multiple_results else [outputs]
    known = [tangent for _, tangent in pairs if type(tangent) is not jax_internals.Zero]
    with jax_internals.under(linearizer.tangent_trace):
        tangents = _refused_p.bind(
            *known,
            types=tuple(map(jax_internals.tangent_type, plain)),
            reason=f"{primitive}: {error}",
        )
    wrapped = [
        jax_internals.LinearizeTracer(linearizer, value, tangent)
        for value, tangent in zip(plain, tangents, strict=True)
    ]
    return wrapped if primitive.multiple_results else wrapped[0]


def _refuse(reason: str) -> None:
    raise NotImplementedError(
        f"A gradient was asked for through an operation that has none, {reason} Keep it out of the "
        "path from the sources to the target, for instance with jax.lax.stop_gradient on its "
        "inputs."
    )


_refused_p = jax_internals.refusing_primitive("undifferentiable", _refuse)
