"""Whether JAX has started its backends, asked without starting them.

JAX offers no public way to ask: every public question about devices starts the backends. This is
the only place that touches the private one (jax 0.8 to 0.10).
"""

from __future__ import annotations

import jax
from jax._src import xla_bridge

if not hasattr(xla_bridge, "backends_are_initialized"):
    raise ImportError(
        f"This JAX ({jax.__version__}) lacks what drumline builds on: "
        "xla_bridge.backends_are_initialized. Install jax>=0.8,<0.11."
    )


def jax_has_started() -> bool:
    """Whether this process has initialised JAX's backends, after which devices are fixed."""
    return bool(xla_bridge.backends_are_initialized())
