"""Installing the lowerings, taking them out again, and seeing which are in."""

from __future__ import annotations

import os
from typing import Any

from drumline.lowerings import (
    convolution_library,
    jax_internals,
    kernels,
    max_pool_gradient,
    pooled_convolution,
)
from drumline.lowerings.convolution import FORMS, convolution_rule
from drumline.lowerings.selection import VARIABLE, select

KNOWN = ("max_pool_gradient", *FORMS, "pooled_convolution", "eigen_convolution")

_installed: tuple[str, ...] = ()
_replaced: dict[Any, Any | None] = {}


def install(names: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Registers lowerings for the CPU, in the place of JAX's own, and returns their names.

    Calling it again replaces the earlier choice, so calling it twice is calling it once.

    Args:
        names: those to install, of ``max_pool_gradient``, ``pointwise_convolution``,
            ``direct_convolution``, ``weight_gradient``, ``few_channels``,
            ``pooled_convolution`` and ``eigen_convolution``; by default what
            ``DRUMLINE_CPU_LOWERINGS`` asks for.

    Raises:
        ValueError: if a name, given or in the environment, is none of these.
    """
    global _installed
    if names is None:
        chosen = select(os.environ.get(VARIABLE), KNOWN)
    else:
        chosen = select(",".join(names), KNOWN) if names else ()
    uninstall()
    if "max_pool_gradient" in chosen:
        original = _replace(jax_internals.MAX_POOL_GRADIENT)
        rule = max_pool_gradient.rule(original)
        jax_internals.register(jax_internals.MAX_POOL_GRADIENT, rule)
    if "direct_convolution" in chosen or "pooled_convolution" in chosen:
        kernels.register()
    if "pooled_convolution" in chosen:
        jax_internals.rewrite_programs(pooled_convolution.rewrite)
    forms = tuple(FORMS[name] for name in chosen if name in FORMS)
    if forms:
        original = _replace(jax_internals.CONVOLUTION)
        rule = convolution_rule(original, forms)
        jax_internals.register(jax_internals.CONVOLUTION, rule)
    if "eigen_convolution" in chosen:
        convolution_library.use_eigen()
    _installed = chosen
    return chosen


def uninstall() -> None:
    """Puts JAX's own lowerings back; without effect when none are installed."""
    global _installed
    for primitive, entry in _replaced.items():
        jax_internals.restore(primitive, entry)
    _replaced.clear()
    jax_internals.rewrite_programs(None)
    convolution_library.use_default()
    _installed = ()


def installed() -> tuple[str, ...]:
    """The names of the lowerings that are installed now."""
    return _installed


def _replace(primitive: Any) -> jax_internals.Rule:
    """Remembers what will be replaced, and returns the rule that was in force."""
    _replaced[primitive] = jax_internals.cpu_entry(primitive)
    return jax_internals.current_rule(primitive)
