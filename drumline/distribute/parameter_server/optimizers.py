"""Which update the servers apply to which shard, and with which learning rate."""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from drumline.distribute.parameter_server.compiler import export_update, native_optimizer
from drumline.distribute.parameter_server.compiler.exporting import digest_of, unpack_checked
from drumline.distribute.parameter_server.servers import Servers
from drumline.distribute.parameter_server.wire.messages import (
    AttachUpdate,
    DefineUpdate,
    NativeUpdate,
    SetHyperparameters,
    SetIteration,
    ShardLayout,
    SlotSpec,
    VariableLayout,
)
from drumline.distribute.replica import without_strategy

_LET_GO_SECONDS = 2.0


class OptimizerRegistry:
    """The updates of optimizers, exported once for each shape and sent where they are used.

    Args:
        servers: the parameter servers.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._ordinals: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._numbers = itertools.count()
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._exported: dict[Any, tuple[str, bytes, Any]] = {}
        self._sent: dict[int, set[tuple[int, str]]] = {}
        self._attached: dict[str, tuple[str, int]] = {}
        self._rates: dict[int, Any] = {}
        self._early: dict[str, dict[str, np.ndarray]] = {}
        self._restored: set[str] = set()
        self._counted: dict[int, Any] = {}
        self._updated: dict[int, set[tuple[int, str]]] = {}
        self._lock = threading.RLock()

    def attach(
        self,
        optimizer: Any,
        variable: Any,
        layout: VariableLayout,
        shard: ShardLayout,
        sparse: bool,
    ) -> str:
        """The update by which `optimizer` updates a shard; the shard's server knows it then.

        Args:
            optimizer: a Keras optimizer.
            variable: what it updates.
            layout: of the variable.
            shard: of the layout.
            sparse: whether it is given gradients of single rows.

        Raises:
            ValueError: if another optimizer updates the shard already.
        """
        shape = layout.shard_shape(shard)
        name = layout.shard_name(shard)
        with self._lock:
            number = self._number_of(optimizer)
            whole = len(layout.shards) == 1
            # Some variables may be excluded from weight decay: each has its own update then.
            own = layout.key if getattr(optimizer, "weight_decay", None) else None
            kind = (shape[1:] if sparse else shape, layout.dtype, sparse, whole, own)
            key = (number, *kind)
            if key not in self._exported:
                with without_strategy():
                    program, slots = export_update(
                        optimizer, shape, layout.dtype, sparse, whole=whole, variable=variable
                    )
                update = _name_of(number, program, slots)
                self._exported[key] = (update, program, slots)
            update, program, slots = self._exported[key]
            before = self._attached.get(name)
            if before == (update, number):
                return update
            other = None if before is None or before[1] == number else before[1]
            if other is not None and self._lives(other):
                raise ValueError(
                    f"Variable {layout.path!r} is already updated by another optimizer than "
                    f"{optimizer.name!r}. Its optimizer state on the servers belongs to that one."
                )
            sent = self._sent.setdefault(number, set())
            if (shard.server, update) not in sent:
                with without_strategy():
                    native = native_optimizer(optimizer, layout.dtype)
                define = DefineUpdate(
                    update=update,
                    sparse=sparse,
                    slots=tuple(SlotSpec(**slot) for slot in slots),
                    native=None if native is None else NativeUpdate(**native),
                    program=np.frombuffer(program, np.uint8),
                )
                self._servers.ask(shard.server, define)
                sent.add((shard.server, update))
                self._send_rate(shard.server, update, _rate_of(optimizer))
            updates = _count_of(optimizer)
            self._counted.setdefault(number, updates)
            attach = AttachUpdate(
                name=name, update=update, iteration=int(updates), reset=other is not None
            )
            self._servers.ask(shard.server, attach)
            self._attached[name] = (update, number)
            self._updated.setdefault(number, set()).add((shard.server, name))
            if self.has_slots(layout):
                for slot, value in self._early.pop(layout.key, {}).items():
                    self._servers.write_slot(layout, slot, value)
            return update

    def has_slots(self, layout: VariableLayout) -> bool:
        """Whether the servers have the optimizer's state of a variable."""
        attached = all(layout.shard_name(shard) in self._attached for shard in layout.shards)
        return attached or layout.key in self._restored

    def is_early(self, layout: VariableLayout, name: str) -> bool:
        """Whether a slot was set that the servers do not have yet."""
        with self._lock:
            return not self.has_slots(layout) and name in self._early.get(layout.key, {})

    def restored(self, layout: VariableLayout, has_slots: bool) -> None:
        """The servers have taken the optimizer's state of a variable from a checkpoint.

        Args:
            layout: of the variable.
            has_slots: whether there was any: the variable had been updated before it was saved.
        """
        with self._lock:
            self._early.pop(layout.key, None)
            (self._restored.add if has_slots else self._restored.discard)(layout.key)

    def slot(self, layout: VariableLayout, name: str) -> np.ndarray | None:
        """What an optimizer keeps beside a variable; None if it was never set."""
        with self._lock:
            if self.has_slots(layout):
                return self._servers.slots(layout).get(name)
            return self._early.get(layout.key, {}).get(name)

    def set_slot(self, layout: VariableLayout, name: str, value: np.ndarray) -> None:
        """Set it, or have it set as soon as the servers know the optimizer."""
        with self._lock:
            if self.has_slots(layout):
                self._servers.write_slot(layout, name, value)
            else:
                self._early.setdefault(layout.key, {})[name] = value

    def counted(self) -> None:
        """The optimizers' ``iterations`` say what the servers have counted themselves."""
        with self._lock:
            for number, optimizer in self._living():
                self._counted[number] = _count_of(optimizer)

    def send_iterations(self) -> None:
        """Tell the servers the ``iterations`` that were assigned on the chief."""
        for number, optimizer in self._living():
            current = _count_of(optimizer)
            if self._counted.get(number) is current:
                continue
            with self._lock:
                self._counted[number] = current
                for server, name in self._updated.get(number, ()):
                    self._servers.ask(server, SetIteration(names=(name,), iteration=int(current)))

    def send_learning_rates(self) -> None:
        """Tell the servers the learning rates that have changed on the chief."""
        for number, optimizer in self._living():
            held = getattr(optimizer, "_learning_rate", None)
            current = getattr(held, "_value", held)
            if self._rates.get(number) is current:
                continue
            with self._lock:
                self._rates[number] = current
                rate = _rate_of(optimizer)
                for server, update in self._sent.get(number, ()):
                    self._send_rate(server, update, rate)

    def forget(self, layouts: Iterable[VariableLayout]) -> list[tuple[int, str]]:
        """Know nothing more of variables that have died, and of optimizers that have.

        Returns:
            The updates that are not used any more, with their servers.
        """
        with self._lock:
            for layout in layouts:
                self._early.pop(layout.key, None)
                self._restored.discard(layout.key)
                for shard in layout.shards:
                    name = layout.shard_name(shard)
                    _, number = self._attached.pop(name, (None, -1))
                    self._updated.get(number, set()).discard((shard.server, name))
            unused: list[tuple[int, str]] = []
            for number in [n for n, optimizer in self._optimizers.items() if optimizer() is None]:
                unused += self._sent.pop(number, ())
                for known in (self._optimizers, self._rates, self._counted, self._updated):
                    known.pop(number, None)
                self._exported = {k: v for k, v in self._exported.items() if k[0] != number}
            return unused

    def _number_of(self, optimizer: Any) -> int:
        number = self._ordinals.get(optimizer)
        if number is None:
            number = self._ordinals[optimizer] = next(self._numbers)
            self._optimizers[number] = weakref.ref(optimizer)
        return number

    def _living(self) -> list[tuple[int, Any]]:
        found = [(number, optimizer()) for number, optimizer in list(self._optimizers.items())]
        return [(number, optimizer) for number, optimizer in found if optimizer is not None]

    def _lives(self, number: int) -> bool:
        """Whether an optimizer is there, and not only waits to be collected.

        A thread that has just used it may hold it for a moment still.
        """
        optimizer = self._optimizers.get(number)
        deadline = time.monotonic() + _LET_GO_SECONDS
        while optimizer is not None and optimizer() is not None:
            gc.collect()
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return optimizer is not None and optimizer() is not None

    def _send_rate(self, server: int, update: str, rate: float) -> None:
        values = {"learning_rate": rate}
        self._servers.ask(server, SetHyperparameters(update=update, values=values))


def _count_of(optimizer: Any) -> Any:
    """The array that ``iterations`` holds: another one after each assignment."""
    return optimizer.iterations._value


def _rate_of(optimizer: Any) -> float:
    return float(optimizer.learning_rate)


def _name_of(optimizer: int, program: bytes, slots: Any) -> str:
    """Equal for a chief that starts again with the same optimizer, and for no other update.

    Optimizers of one chief may have equal programs; each has a learning rate of its own.
    """
    exported = jax.export.deserialize(bytearray(unpack_checked(program)))
    text = f"{digest_of(exported)} {json.dumps(slots)}"
    # Checkpoints have these names.
    return f"rule {optimizer} {hashlib.sha256(text.encode()).hexdigest()[:20]}"
