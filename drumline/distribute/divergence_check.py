"""Checking that what replicas wrote is the same on all of them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from drumline.distribute.replica_context import ReplicaContext
from drumline.distribute.replica_scope import has_copies, summed_when_read
from drumline.training.keras_internals import Variable
from drumline.training.state_scope import current_values


def require_agreement(context: ReplicaContext, variable: Variable) -> None:
    """Refuse a variable that now differs between the replicas.

    The values are compared in the compiled step, and only a difference calls back to Python.

    Raises:
        RuntimeError: if it differs and the step is no compiled one.
    """
    if context.num_replicas_in_sync == 1 or has_copies(variable) or summed_when_read(variable):
        return
    (value,) = current_values([variable])
    copies = context.all_gather(value[None])
    differs = jnp.any((copies != copies[:1]) & ~((copies != copies) & (copies[:1] != copies[:1])))
    refuse = functools.partial(_refuse, variable.path)
    if not isinstance(differs, jax.core.Tracer):
        if bool(differs):
            refuse()
        return
    jax.lax.cond(differs, lambda: jax.debug.callback(refuse), lambda: None)


def _refuse(path: str, *_: Any) -> None:
    raise RuntimeError(
        f"ReplicaContext.update wrote different values to {path!r} on different replicas. Give it "
        "the same on all: reduce first, with `get_replica_context().all_reduce('SUM', value)`."
    )
