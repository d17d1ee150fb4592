"""How a summary is recorded: at once, or when the compiled step that it is part of runs."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
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


def record(name: str, make: Made, data: Any, step: Any, check: Callable[[Any], None]) -> Any:
    """Record a summary.

    In a compiled step the summary is recorded each time the step runs, by the device's callback; of
    a strategy's replicas the first one records.

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
    texts = isinstance(value, np.ndarray) and value.dtype.kind == "O"
    write = functools.partial(_write, writer, tag_of(name), make)
    if texts:
        write = functools.partial(write, value)
        jax.debug.callback(write, chosen, wanted, replica)
    else:
        jax.debug.callback(write, value, chosen, wanted, replica)
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


def _write(
    writer: SummaryWriter, tag: str, make: Made, value: Any, step: Any, wanted: Any, replica: Any
) -> None:
    if bool(wanted) and not int(replica):
        kept = value if isinstance(value, np.ndarray) else np.array(value)
        writer.put(tag, make, kept, int(step), time.time(), may_wait=False)


def _replica() -> Any:
    """The replica whose step this is: 0 where there is one, or in its place what computes it."""
    context = running_replica()
    if context is None or context.num_replicas_in_sync == 1:
        return 0
    return context.replica_id_in_sync_group


def _current(value: Any) -> Any:
    """What a variable holds, in a buffer that the next step does not give away."""
    if isinstance(value, Variable):
        held = to_local_array(value.value)
        return held if isinstance(held, (jax.core.Tracer, np.ndarray)) else jnp.copy(held)
    return value


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
        return to_local_array(data)
    array = np.asarray(data)
    return array.copy() if array.flags.writeable and array is data else array
