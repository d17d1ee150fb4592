"""Which inputs of a program each of its outputs depends on."""

from __future__ import annotations

from jax.extend import core as jex

_CALLS = ("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "custom_jvp_call")


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
        if eqn.primitive.name in _CALLS and inner is not None:
            body = inner.jaxpr if isinstance(inner, jex.ClosedJaxpr) else inner
            outputs = _walk(body, sources)
        else:
            outputs = [frozenset().union(*sources)] * len(eqn.outvars)
        known.update(zip(eqn.outvars, outputs, strict=True))
    return [of(var) for var in jaxpr.outvars]
