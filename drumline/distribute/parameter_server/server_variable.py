"""Variables whose values live on parameter servers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data.elements.precision import require_fits
from drumline.distribute.parameter_server.compiler.step_program import REMEDY_64_BITS
from drumline.distribute.parameter_server.optimizers import OptimizerRegistry
from drumline.distribute.parameter_server.servers import Servers
from drumline.distribute.parameter_server.wire.messages import (
    ReadShard,
    ShardLayout,
    VariableLayout,
)
from drumline.distribute.variable import strategy_of_variable
from drumline.training.checkpoint.external_storage import ExternalStore

_LAYOUT = "_drumline_layout"
_SERVERS = "_drumline_servers"


class ServerVariable:
    """A Keras variable that keeps its value on parameter servers.

    Reading it anywhere outside of a scheduled function fetches the value, assigning sends it.
    Instances are Keras variables that were made in the scope of a `ParameterServerStrategy`.
    """

    @property
    def layout(self) -> VariableLayout:
        """Which servers keep which rows."""
        layout: VariableLayout = vars(self)[_LAYOUT]
        return layout

    @property
    def device(self) -> str:
        """The server that keeps the variable, as TensorFlow names it."""
        return server_name(self.layout.shards[0])

    @property
    def kept_by(self) -> ExternalStore:
        """What saves and restores the value: the servers."""
        strategy: Any = strategy_of_variable(self)
        keeper: ExternalStore = strategy.keeper
        return keeper

    @property
    def variables(self) -> tuple[VariableShard, ...]:
        """Its shards, in the order of their rows."""
        return tuple(VariableShard(self, shard) for shard in self.layout.shards)

    @property
    def _value(self) -> jax.Array:
        value = vars(self)[_SERVERS].read(self.layout)
        require_fits(value, f"{self._described} on parameter servers", REMEDY_64_BITS)
        with jax.ensure_compile_time_eval():
            return jnp.asarray(value)

    @_value.setter
    def _value(self, value: Any) -> None:
        require_fits(
            value, f"What is assigned to {self._described}", REMEDY_64_BITS, self.layout.dtype
        )
        vars(self)[_SERVERS].write(self.layout, np.asarray(value, self.layout.dtype))

    @property
    def _described(self) -> str:
        return f"the variable {vars(self).get('_path')!r}"


class ShardedVariable(ServerVariable):
    """A `ServerVariable` in several shards along axis 0, as TensorFlow's ``ShardedVariable``.

    Unlike there it is one variable to Keras; its shards are in `variables`.
    """


class VariableShard:
    """The rows of a variable that one server keeps.

    Args:
        variable: the whole.
        shard: which rows.
    """

    def __init__(self, variable: Any, shard: ShardLayout) -> None:
        self._variable = variable
        self.shard = shard

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of these rows."""
        layout: VariableLayout = self._variable.layout
        return layout.shard_shape(self.shard)

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        dtype: str = self._variable.layout.dtype
        return dtype

    @property
    def device(self) -> str:
        """The server that keeps them, as TensorFlow names it."""
        return server_name(self.shard)

    def numpy(self) -> np.ndarray:
        """The rows' values."""
        layout = self._variable.layout
        servers: Servers = vars(self._variable)[_SERVERS]
        name = layout.shard_name(self.shard)
        return servers.ask(self.shard.server, ReadShard(name=name)).value

    def __repr__(self) -> str:
        return f"<VariableShard {self._variable.layout.path!r} {self.shard} on {self.device}>"


class SlotVariable:
    """A Keras optimizer's variable that the servers keep beside the variable it belongs to.

    Until a step was traced, servers do not know the optimizer; the chief has the value till then.
    """

    _drumline_slot: tuple[Any, str, Any]

    @property
    def kept_by(self) -> ExternalStore:
        """What saves and restores the value: the servers."""
        keeper: ExternalStore = self.reference.kept_by
        return keeper

    @property
    def reference(self) -> Any:
        """The variable it belongs to."""
        return self._drumline_slot[0]

    @property
    def slot_name(self) -> str:
        """What the servers call it."""
        return self._drumline_slot[1]

    @property
    def first_number(self) -> float | None:
        """What all of its elements are at first; None if they differ."""
        initial = self._drumline_slot[2]
        value = np.asarray(initial((), dtype="float32") if callable(initial) else initial)
        return float(value.flat[0]) if value.size and np.all(value == value.flat[0]) else None

    @property
    def _value(self) -> jax.Array:
        reference, name, initial = self._drumline_slot
        value = _optimizers_of(reference).slot(reference.layout, name)
        with jax.ensure_compile_time_eval():
            if value is None:
                layout: VariableLayout = reference.layout
                value = initial(layout.shape, dtype=layout.dtype) if callable(initial) else initial
            return jnp.asarray(value)

    @_value.setter
    def _value(self, value: Any) -> None:
        reference, name, _ = self._drumline_slot
        value = np.asarray(value, reference.layout.dtype)
        _optimizers_of(reference).set_slot(reference.layout, name, value)


def _optimizers_of(variable: Any) -> OptimizerRegistry:
    """What the servers know of the optimizers of `variable`'s strategy."""
    strategy: Any = strategy_of_variable(variable)
    registry: OptimizerRegistry = strategy.optimizers
    return registry


def server_name(shard: ShardLayout) -> str:
    """A server's name as TensorFlow writes it."""
    return f"/job:ps/replica:0/task:{shard.server}/device:CPU:0"


def move_to_servers(variable: Any, layout: VariableLayout, servers: Servers) -> None:
    """From now on the value of `variable` is what the servers keep under `layout`."""
    kind = ShardedVariable if len(layout.shards) > 1 else ServerVariable
    vars(variable).pop("_value", None)
    vars(variable).update({_LAYOUT: layout, _SERVERS: servers})
    variable.__class__ = _with_value_elsewhere(kind, type(variable))


def make_slot(variable: Any, reference: Any, name: str, initial: Any) -> None:
    """From now on the value of `variable` is the slot `name` that the servers keep.

    Args:
        variable: the optimizer's variable.
        reference: the variable it belongs to.
        name: what the servers call the slot.
        initial: its first value, or what makes it from a shape and a dtype.
    """
    vars(variable).pop("_value", None)
    vars(variable)["_drumline_slot"] = (reference, name, initial)
    variable.__class__ = _with_value_elsewhere(SlotVariable, type(variable))


_classes: dict[tuple[type, type], Any] = {}


def _with_value_elsewhere(kind: type, own: type) -> Any:
    if (kind, own) not in _classes:
        body = {"__module__": own.__module__, "__doc__": own.__doc__}
        _classes[kind, own] = type(own.__name__, (kind, own), body)
    return _classes[kind, own]
