"""Which library computes XLA's convolutions on the CPU.

Newer jaxlibs give 2-D convolutions to YNNPACK, which here takes about twice as long over them as
Eigen, to which they went before. A compile option names the operations that YNNPACK gets; Eigen
knows no float64, so that the option stays as it is where JAX may use 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drumline.lowerings import jax_internals

OPTION = "xla_cpu_experimental_ynn_fusion_type"
"""The field of XLA's ``DebugOptions`` that lists what YNNPACK computes."""

WITHOUT_CONVOLUTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_REDUCE"


def use_eigen() -> None:
    """Lets Eigen compute convolutions in programs that are compiled for the CPU from now on.

    Without effect where jaxlib does not know the option, for programs whose own compiler options
    or ``XLA_FLAGS`` set it, and while ``jax_enable_x64`` is on.
    """
    jax_internals.override_cpu_options(_options)


def use_default() -> None:
    """Takes back what `use_eigen` did."""
    jax_internals.override_cpu_options(None)


def _options(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if OPTION in given or jax_internals.set_by_flag(OPTION) or jax_internals.x64_enabled():
        return given
    if not jax_internals.knows_option(OPTION, WITHOUT_CONVOLUTIONS):
        return given
    return {**given, OPTION: WITHOUT_CONVOLUTIONS}
