"""Values that a compiled step gives to this process beside its results, without stopping for it.

Code within a step delivers values to a `Receiver` (`deliver`). Whoever compiles the step collects
them while it is traced (`collecting`), returns them from the program as `Parcels`, and sends these
when the program has been started (`Parcels.send`): the thread of `background` waits for the arrays
and calls the receivers, in the order in which they were given values. So a program that delivers
is one like others to JAX. A callback in it would take it off JAX's fast path, which costs each call
a hundred microseconds and more, and each value as much again.

Scalars travel packed, as one array of their bits for nearly all dtypes: a program's call costs a
microsecond or two for each array that it returns.

Within a branch or a loop of the program, and in programs that others compile (``jax.jit``), a
value cannot become a result. There, the device calls back.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from drumline.training import jax_internals
from drumline.training.background import background


class Receiver(Protocol):
    """Who gets values, in the thread of `background`."""

    def receive(self, values: Sequence[Any], when: float) -> None:
        """Take the arrays of one run of the step; raises nothing.

        Args:
            values: arrays of numpy's.
            when: the step was started, in seconds since 1970.
        """

    def failed(self, error: Exception) -> None:
        """The values could not be computed, or fetched."""


def deliver(receiver: Receiver, values: Sequence[Any], replica: Any = 0) -> None:
    """Have `receiver` get these values each time that the step which is being traced runs.

    Args:
        receiver: who gets them.
        values: arrays, or symbols of the trace.
        replica: the replica whose step this is, 0 or a symbol; the first one delivers.
    """
    by_replica = isinstance(replica, jax.core.Tracer)
    given = (*values, replica) if by_replica else tuple(values)
    _delivered_p.bind(*given, receiver=receiver, by_replica=by_replica)


def _arrive(trace: Any, values: Sequence[Any], *, receiver: Receiver, by_replica: bool) -> None:
    outbox = _outbox.get()
    if outbox is not None and outbox.trace is trace and (outbox.of_replicas or not by_replica):
        outbox.add(receiver, values[:-1] if by_replica else values)
        return
    if jax_internals.is_staged(trace):
        jax.debug.callback(functools.partial(_called_back, receiver, by_replica), *values)
    elif not (by_replica and int(values[-1])):
        background.put(_of_one(receiver, values[:-1] if by_replica else values))


def _called_back(receiver: Receiver, by_replica: bool, *values: Any) -> None:
    if by_replica and int(values[-1]):
        return
    # The device may use a callback's memory again. And it waits for the callback: so that must not.
    kept = [np.array(value) for value in (values[:-1] if by_replica else values)]
    background.put(_of_one(receiver, kept), may_wait=False)


def _of_one(receiver: Receiver, arrays: Sequence[Any]) -> _Sent:
    slots = tuple((index, None, None) for index in range(len(arrays)))
    nbytes = sum(array.size * array.dtype.itemsize for array in arrays)
    return _Sent(arrays, _Layout([(receiver, slots)], [False] * len(arrays), nbytes), time.time())


_delivered_p = jax_internals.delivering_primitive("delivered", _arrive)

Slot = tuple[int, int | None, np.dtype | None]
"""Where a value is: in which array, and of one that is packed at which position, as which dtype."""


class _Layout:
    """What is where in the arrays of `Parcels`.

    Args:
        entries: each receiver, and where its values are.
        cut: for each array whether it is cut over the replicas' devices: the first one's counts.
        nbytes: of all arrays.
        rows: whether the arrays have a row for each replica.
        steps: how many steps of a loop the arrays are of, along an axis before all others.
    """

    def __init__(
        self,
        entries: Sequence[tuple[Receiver, tuple[Slot, ...]]],
        cut: Sequence[bool],
        nbytes: int,
        *,
        rows: bool = False,
        steps: int | None = None,
    ) -> None:
        self.entries, self.cut, self.nbytes = entries, cut, nbytes
        self._rows, self._steps = rows, steps

    def of_steps(self, steps: int) -> _Layout:
        """That of arrays of several steps, stacked."""
        return _Layout(self.entries, self.cut, self.nbytes * steps, rows=self._rows, steps=steps)

    def hand_out(self, arrays: Sequence[np.ndarray], when: float) -> None:
        """Give the receivers what is theirs."""
        if self._steps is None:
            self._hand_out_step(arrays, when)
            return
        for step in range(self._steps):
            self._hand_out_step([array[step] for array in arrays], when)

    def _hand_out_step(self, arrays: Sequence[np.ndarray], when: float) -> None:
        if self._rows:
            arrays = [array[0] for array in arrays]
        for receiver, slots in self.entries:
            values = [_value_at(arrays[index], place, kind) for index, place, kind in slots]
            receiver.receive(values, when)

    def failed(self, error: Exception) -> None:
        """Tell all receivers."""
        for receiver, _ in self.entries:
            receiver.failed(error)


def _value_at(array: np.ndarray, position: int | None, dtype: np.dtype | None) -> Any:
    if position is None:
        return array
    value = array[position]
    if dtype is None:
        return value
    return value.astype(bool) if dtype == np.bool_ else value.view(dtype)


class _Nested:
    """The receiver of parcels of a program within a program: who gets them in the end.

    Attributes:
        layout: of those parcels.
    """

    def __init__(self, layout: _Layout) -> None:
        self.layout = layout

    def receive(self, values: Sequence[Any], when: float) -> None:
        self.layout.hand_out(values, when)

    def failed(self, error: Exception) -> None:
        self.layout.failed(error)


class _Sent:
    """Parcels on their way: an entry of `background`."""

    def __init__(self, arrays: Sequence[Any], layout: _Layout, when: float) -> None:
        self._arrays, self._layout, self._when = arrays, layout, when
        self.nbytes = layout.nbytes

    def write(self) -> None:
        """Wait for the arrays, and hand them out."""
        try:
            arrays = [
                _fetched(array, cut)
                for array, cut in zip(self._arrays, self._layout.cut, strict=True)
            ]
        except Exception as error:  # whatever it is, the thread must continue
            self._layout.failed(error)
        else:
            self._layout.hand_out(arrays, self._when)


def _fetched(array: Any, cut: bool) -> np.ndarray:
    """The array, or of one that is cut over devices the first one's part."""
    if not cut or isinstance(array, np.ndarray) or array.is_fully_replicated:
        return np.asarray(array)
    return np.asarray(array.addressable_data(_first_part(array.sharding, array.shape)))


@functools.lru_cache(256)
def _first_part(sharding: Any, shape: tuple[int, ...]) -> int:
    """Which of this process's parts begins where the array does."""
    parts = sharding.addressable_devices_indices_map(shape).values()
    return next(
        place for place, index in enumerate(parts) if not any(cut.start for cut in index or ())
    )


@jax.tree_util.register_pytree_node_class
class Parcels:
    """What a run of a step delivers, as results of its program.

    Args:
        arrays: the arrays; symbols, while the program is traced.
        layout: what is where in them.
    """

    def __init__(self, arrays: Sequence[Any], layout: _Layout) -> None:
        self.arrays, self._layout = arrays, layout

    def tree_flatten(self) -> tuple[Sequence[Any], _Layout]:
        """Return arrays and layout, as JAX's pytree registry asks for them."""
        return self.arrays, self._layout

    @classmethod
    def tree_unflatten(cls, layout: _Layout, arrays: Sequence[Any]) -> Parcels:
        """Rebuild from a layout and arrays."""
        return cls(arrays, layout)

    def of_steps(self, steps: int) -> Parcels:
        """These of so many steps, where `jax.lax.scan` has stacked their arrays."""
        return Parcels(self.arrays, self._layout.of_steps(steps)) if self._layout.entries else self

    def send(self) -> None:
        """Have the receivers get the values when they are there.

        Where the program became part of another one, that is to deliver them.
        """
        if not self._layout.entries:
            return
        if jax_internals.is_evaluating():
            background.put(_Sent(self.arrays, self._layout, time.time()))
        else:
            deliver(_Nested(self._layout), self.arrays)


_NOTHING = Parcels((), _Layout((), (), 0))


class _Outbox:
    """Collects what a step delivers while it is traced.

    Attributes:
        trace: JAX's current one.
        of_replicas: whether one trace stands for all of several replicas.
    """

    def __init__(self, of_replicas: bool) -> None:
        self.trace = jax_internals.current_trace()
        self.of_replicas = of_replicas
        self._entries: list[tuple[Receiver, Sequence[Any]]] = []

    def add(self, receiver: Receiver, values: Sequence[Any]) -> None:
        """Note values."""
        self._entries.append((receiver, values))

    def parcels(self, sharding: Any = None) -> Parcels:
        """What was collected; called at the end of the trace.

        Args:
            sharding: of arrays of several dimensions, where the compiler is not to choose it.
        """
        if not self._entries:
            return _NOTHING
        with jax_internals.under(self.trace):
            return self._packed(sharding)

    def _packed(self, sharding: Any) -> Parcels:
        packs: dict[str, list[Any]] = {}
        arrays: list[Any] = []
        cut: list[bool] = []
        placed: list[tuple[Receiver, list[Any]]] = []
        for receiver, values in self._entries:
            of_replicas = receiver.layout.cut if isinstance(receiver, _Nested) else ()
            slots: list[Any] = []
            for number, value in enumerate(values):
                if _is_packed(value):
                    bits, kind = _bits(value)
                    pack = packs.setdefault(bits.dtype.name, [])
                    slots.append((bits.dtype.name, len(pack), kind))
                    pack.append(bits)
                    continue
                of_a_cut = bool(of_replicas) and of_replicas[number]
                slots.append((len(arrays), None, None))
                arrays.append(_result(value, None if of_a_cut else sharding))
                cut.append(of_a_cut or self.of_replicas)
            placed.append((receiver, slots))
        at = {name: len(arrays) + index for index, name in enumerate(packs)}
        arrays += [jax.lax.concatenate(pack, 0) for pack in packs.values()]
        cut += [self.of_replicas] * len(packs)
        if self.of_replicas:
            arrays = [jax.lax.expand_dims(array, (0,)) for array in arrays]
        entries = [
            (receiver, tuple((at.get(index, index), place, kind) for index, place, kind in slots))
            for receiver, slots in placed
        ]
        nbytes = sum(array.size * array.dtype.itemsize for array in arrays)
        return Parcels(arrays, _Layout(entries, cut, nbytes, rows=self.of_replicas))


_outbox: contextvars.ContextVar[_Outbox | None] = contextvars.ContextVar(
    "drumline_outbox", default=None
)


@contextlib.contextmanager
def collecting(*, of_replicas: bool = False) -> Iterator[_Outbox]:
    """Collect what the current trace delivers within the block; see `_Outbox`.

    Args:
        of_replicas: whether one trace stands for all of several replicas: arrays then get an axis
            before the others, which is to be cut over these.
    """
    outbox = _Outbox(of_replicas)
    token = _outbox.set(outbox)
    try:
        yield outbox
    finally:
        _outbox.reset(token)


def _is_packed(value: Any) -> bool:
    return not np.shape(value) and isinstance(value.dtype, np.dtype)


def _bits(value: Any) -> tuple[Any, np.dtype | None]:
    """A scalar as one element, and its dtype if that of the element is another."""
    dtype = np.dtype(value.dtype)
    if dtype == np.bool_:
        value = jax.lax.convert_element_type(value, np.int32)
    elif dtype.itemsize == 4 and dtype != np.int32:
        value = jax.lax.bitcast_convert_type(value, np.int32)
    changed = dtype if value.dtype != dtype else None
    return jax.lax.expand_dims(value, (0,)), changed


def _result(value: Any, sharding: Any) -> Any:
    """`value` as a result that shares no memory with what the program is given."""
    if sharding is not None:
        value = jax.lax.with_sharding_constraint(value, sharding)
    return jax_internals.same_value(value, jax_internals.current_trace())


@jax.tree_util.register_pytree_node_class
@dataclass
class WithParcels:
    """The results of a step, and what it delivers."""

    outputs: Any
    parcels: Parcels

    def tree_flatten(self) -> tuple[tuple[Any, Parcels], None]:
        """Return both, as JAX's pytree registry asks for them."""
        return (self.outputs, self.parcels), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any, Parcels]) -> WithParcels:
        """Rebuild from both."""
        return cls(*children)
