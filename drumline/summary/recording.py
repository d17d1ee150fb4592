"""How a summary is recorded: at once, or when the compiled step that it is part of runs."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline._jax_start import traces
from drumline.distribute.global_arrays import to_local_array
from drumline.distribute.replica import running_replica
from drumline.distribute.values import PerReplica
from drumline.summary.writer import Made, SummaryWriter, default_writer, get_step, recording, tag_of
from drumline.training.keras_internals import Variable
from drumline.training.outbox import deliver


def record(name: str, make: Made, data: Any, step: Any, check: Callable[[Any], None]) -> Any:
    """Record a summary.

    In a compiled step the summary is recorded each time the step runs, which delivers it (see
    `drumline.training.outbox`); of a strategy's replicas the first one records.

    Args:
        name: its tag, in the scopes that are entered.
        make: makes a ``Summary`` message of the tag and the array.
        data: the array, or a function that gives it.
        step: None for the default step.
        check: refuses arrays that the summary cannot be made of, by shape and dtype.

    Returns:
        Whether it is recorded: a bool, or in a compiled step what that computes.

    Raises:
        ValueError: there is no step.
        OSError: earlier summaries could not be written.
    """
    wanted = _current(recording())
    if not isinstance(wanted, jax.core.Tracer) and not bool(wanted):
        return False
    writer = default_writer()
    assert writer is not None
    chosen = _step(name, step)
    value = array_of(name, data() if callable(data) else data)
    check(value)
    if writer.path is None:
        return True
    writer.raise_error()
    replica = _replica()
    if not traces():
        if replica:
            return False
        writer.put(tag_of(name), make, value, chosen, time.time())
        return True
    if isinstance(replica, int) and replica:
        return False
    summary = _InStep(writer, tag_of(name), make, (value, chosen, wanted))
    deliver(summary, summary.computed, replica)
    return wanted


def write_raw(message: bytes, step: Any = None) -> bool:
    """Record a serialized ``Summary`` message, as ``tf.summary.experimental.write_raw_pb``.

    Args:
        message: the message.
        step: as of `scalar`.

    Returns, raises: as `scalar`.
    """
    writer = default_writer()
    if writer is None or not bool(_current(recording())):
        return False
    chosen = _step("raw", step)
    if writer.path is not None:
        writer.raise_error()
        writer.put_message(message, chosen)
    return True


def _step(name: str, step: Any) -> Any:
    chosen = _current(get_step() if step is None else step)
    if chosen is None:
        raise ValueError(
            f"No step set: the summary {name!r} needs one. Give it, `step=...`, or set a default, "
            "`writer.as_default(step=...)` or `dl.summary.set_step(...)`."
        )
    return chosen


def should_record_summaries() -> Any:
    """Whether a summary is recorded here: there is a writer, and `record_if`'s condition holds.

    A bool, or in a compiled step what it computes.
    """
    wanted = _current(recording())
    return wanted if isinstance(wanted, jax.core.Tracer) else bool(wanted)


class _InStep:
    """A summary of a compiled step, which receives its values whenever the step has run.

    Args:
        writer: where it goes.
        tag: its name.
        make: makes its message.
        parts: value, step and condition: constants, and what the step computes.

    Attributes:
        computed: those of the parts that the step computes.
    """

    def __init__(
        self, writer: SummaryWriter, tag: str, make: Made, parts: tuple[Any, Any, Any]
    ) -> None:
        self._writer, self._tag, self._make = writer, tag, make
        self.computed = [part for part in parts if isinstance(part, jax.core.Tracer)]
        self._computes = [isinstance(part, jax.core.Tracer) for part in parts]
        self._constants = [
            None if computed else part for part, computed in zip(parts, self._computes, strict=True)
        ]

    def receive(self, values: Sequence[Any], when: float) -> None:
        """See `Receiver`."""
        given = iter(values)
        value, step, wanted = [
            next(given) if computed else constant
            for constant, computed in zip(self._constants, self._computes, strict=True)
        ]
        if wanted:
            self._writer.write(self._tag, self._make, value, step, when)

    def failed(self, error: Exception) -> None:
        """See `Receiver`."""
        self._writer.failed(self._tag, error)


def _replica() -> Any:
    """The replica whose step this is: 0 where there is one, or in its place what computes it."""
    context = running_replica()
    if context is None or context.num_replicas_in_sync == 1:
        return 0
    return context.replica_id_in_sync_group


def _current(value: Any) -> Any:
    """What a variable holds, in a buffer that the next step does not give away."""
    if not isinstance(value, Variable):
        return value
    held = to_local_array(value.value)
    if not isinstance(held, jax.Array) or isinstance(held, jax.core.Tracer):
        return held
    if traces():
        return jnp.copy(held)
    found = _copies.get(id(held))
    if found is not None and found[0]() is held:
        return found[1]
    if len(_copies) >= _MOST_COPIES:
        _copies.clear()
    # Of several devices' copies one: a program that runs on all of them would cost more.
    copy = _copied(held.addressable_data(0) if held.is_fully_replicated else held)
    if not held.ndim:
        _copies[id(held)] = weakref.ref(held), copy
    return copy


_copied = jax.jit(jnp.copy)
_copies: dict[int, tuple[Any, jax.Array]] = {}
"""Of scalars that variables hold, as steps: several summaries of a step read the same."""
_MOST_COPIES = 8


def array_of(name: str, data: Any) -> Any:
    """An array of the data, which nothing changes any more.

    Raises:
        TypeError: the replicas have one each.
    """
    if isinstance(data, PerReplica):
        raise TypeError(
            f"The summary {name!r} is given a value of each replica. Reduce it: "
            "`strategy.reduce(ReduceOp.MEAN, value, axis=None)`."
        )
    if isinstance(data, Variable):
        return _current(data)
    if isinstance(data, jax.Array):
        return data if jax.process_count() == 1 else to_local_array(data)
    array = np.asarray(data)
    return array.copy() if array.flags.writeable and array is data else array
