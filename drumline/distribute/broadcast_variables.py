"""Broadcasting variables' initial values from the first process to all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline.distribute.process_group.host_collectives import all_gather_host, broadcast
from drumline.training.keras_internals import Variable

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy

_SAME = "_drumline_same_start"

CHUNK_BYTES = 64 * 2**20
"""How much travels at once."""


def broadcast_initial_values(strategy: Strategy, variables: Sequence[Variable]) -> None:
    """Give `variables` the values that they have in the first process, once each.

    All processes call this together, with the same variables. Those with a value for each replica
    keep what they have.

    Args:
        strategy: their strategy, which spans the processes.
        variables: variables that hold values.

    Raises:
        RuntimeError: if the processes have different variables.
    """
    new = [variable for variable in variables if not vars(variable).get(_SAME)]
    if not new:  # then no process exchanges anything: one alone may have come here
        return
    values = [variable._value for variable in new]
    _require_same_variables(strategy, new)
    whole = [index for index, value in enumerate(values) if value.is_fully_addressable]
    first = first_values(strategy, [values[index] for index in whole])
    for index, value in zip(whole, first, strict=True):
        new[index]._direct_assign(value)
    for variable in new:
        vars(variable)[_SAME] = True


def forget_start(variables: Sequence[Variable]) -> None:
    """Let `broadcast_initial_values` treat `variables` as new ones."""
    for variable in variables:
        vars(variable).pop(_SAME, None)


def first_values(strategy: Strategy, values: Sequence[Any]) -> list[np.ndarray]:
    """What the first process has for each of `values`, arrays of the same shapes in all."""
    own = [np.asarray(value) for value in values]
    sizes = [value.nbytes for value in own]
    flat = [np.ascontiguousarray(value).reshape(-1).view(np.uint8) for value in own if value.size]
    buffer = np.concatenate([np.zeros(0, np.uint8), *flat])
    chunks = [
        broadcast(strategy, buffer[at : at + CHUNK_BYTES])
        for at in range(0, len(buffer), CHUNK_BYTES)
    ]
    received = np.concatenate([np.zeros(0, np.uint8), *chunks])
    ends = np.cumsum(sizes)
    return [
        received[end - size : end].view(value.dtype).reshape(value.shape)
        for end, size, value in zip(ends, sizes, own, strict=True)
    ]


def _require_same_variables(strategy: Strategy, variables: Sequence[Variable]) -> None:
    described = [f"{v.path} {v.dtype}{list(v.shape)}" for v in variables]
    counts = all_gather_host(strategy, np.array([len(described), _digest(described)], np.uint64))
    if (counts == counts[0]).all():
        return
    raise RuntimeError(
        f"The processes use different variables in a step: this one {len(described)} new ones, "
        f"process by process {counts[:, 0].tolist()}. All processes must build the same model and "
        f"take the same steps in the same order. The ones here: {', '.join(described[:20])}"
    )


def _digest(lines: Sequence[str]) -> int:
    return int.from_bytes(hashlib.sha256("\n".join(lines).encode()).digest()[:8], "little")
