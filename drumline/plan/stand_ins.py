"""Strategies of a user's script, each with one in its place whose devices are not there.

Where a script makes a `MirroredStrategy`, an object of a subclass of that is made, on which the
script sees what it would see on the planned hardware: as many replicas, the same scopes. Variables
lie on this process's CPU, and a `StepPlanner` is asked in the place of running a step.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from drumline.distribute.collectives.devices import DeviceLike
from drumline.distribute.parameter_server import ParameterServerStrategy
from drumline.distribute.process_group.start import plan_for
from drumline.distribute.step.compiled_step import InFlight, NotPlannedError, StepPlanner
from drumline.distribute.strategies import DefaultStrategy, OneDeviceStrategy
from drumline.distribute.strategy import Strategy
from drumline.distribute.values import PerReplica
from drumline.plan.changes.variant import AS_WRITTEN, Variant
from drumline.plan.planned_strategy import PlannedArrays, WithoutDevices
from drumline.training.cut_values import CutValue, is_cut, rows_shape
from drumline.training.jax_internals import current_trace, is_staged

LARGEST_VALUE = 1 << 20
"""Bytes: variables that take more have a shape alone."""


class _StandInArrays(PlannedArrays):
    """Everything lies on this process's CPU, from which nothing goes to devices not there.

    Variables that are large, or cut over replicas, have shapes and no values, so that a model that
    this machine has no memory for can be planned. Whoever reads one gets zeros.
    """

    def has_shape_alone(self, variable: Any) -> bool:
        size = math.prod(variable.shape) * jax.numpy.dtype(variable._dtype).itemsize
        return size > LARGEST_VALUE and not getattr(variable, "has_copies", False)

    def held_value(self, value: Any, variable: Any, *, is_new: bool = False) -> Any:
        if not is_cut(variable) and not self.has_shape_alone(variable):
            return self.place_variable(value, variable)
        zeros = functools.partial(_zeros, tuple(variable.shape), variable._dtype)
        return CutValue(self.place_variable(value, variable), zeros)

    def place_variable(self, value: Any, variable: Any) -> Any:
        dtype = jax.numpy.dtype(variable._dtype)
        if is_cut(variable):
            replicas = self._strategy.num_replicas_in_sync
            return jax.ShapeDtypeStruct(rows_shape(variable, replicas), dtype)
        if self.has_shape_alone(variable):
            return jax.ShapeDtypeStruct(tuple(variable.shape), dtype)
        return super().place_variable(value, variable)

    def moves(self, variables: Iterable[Any]) -> bool:
        return False

    def for_program(self, value: jax.Array) -> jax.Array:
        return value

    def stack(self, values: Sequence[Any]) -> Any:
        if any(isinstance(value, jax.core.Tracer) for value in values):
            return jax.numpy.stack(values)
        return np.stack([np.asarray(value) for value in values])

    def place_copies(self, copies: jax.typing.ArrayLike) -> jax.Array:
        return jax.device_put(copies, self._strategy.variable_sharding)

    def compute(self, fn: Callable[..., Any], options: tuple[Any, ...], operand: Any) -> Any:
        return fn(*options, operand)


def _zeros(shape: tuple[int, ...], dtype: Any, _: Any) -> Any:
    """Zeros that take no memory, in a trace as outside of one."""
    if is_staged(current_trace()):
        return jax.numpy.zeros(shape, dtype)
    return np.broadcast_to(np.zeros((), jax.numpy.dtype(dtype)), shape)


class _StandIn(WithoutDevices):
    """What a class of strategies becomes; its own ``__init__`` is given what the script gives."""

    _devices_of_target: Callable[[], tuple[jax.Device, ...]]
    _one = False
    _variant = AS_WRITTEN

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        type(self)._devices_of_target()  # before JAX starts, if it has not
        super().__init__(*args, **kwargs)
        self._variant.cut(self)
        self._arrays = _StandInArrays(self)
        self._in_flight = InFlight((self._here,))

    def _resolved(self, devices: Iterable[DeviceLike]) -> tuple[jax.Device, ...]:
        found = type(self)._devices_of_target()
        return found[:1] if self._one else found

    @property
    def replica_devices(self) -> tuple[jax.Device, ...]:
        return self._devices

    def per_replica(self, values: Sequence[Any]) -> Any:
        return jax.tree.map(lambda *leaves: PerReplica(leaves), *values)


def plan_strategies(
    devices: Callable[[], tuple[jax.Device, ...]] | None,
    planner: StepPlanner | None = None,
    variant: Variant = AS_WRITTEN,
) -> None:
    """Let each strategy that is made from now on stand for one on devices that are not there.

    Args:
        devices: gives the devices, when the first strategy is made; None ends it.
        planner: is asked in the place of running steps.
        variant: what strategies do otherwise than the script says.
    """
    plan_for(devices)
    if devices is None:
        Strategy._stand_in = None
        return
    found = functools.cache(devices)
    plan_for(found)

    @functools.cache
    def stand_in(cls: type[Strategy]) -> type[Strategy]:
        if issubclass(cls, (DefaultStrategy, WithoutDevices)):
            return cls
        if issubclass(cls, ParameterServerStrategy):
            raise NotPlannedError(
                f"{cls.__name__} trains with parameter servers, each worker at its own pace: "
                "there is no step of all chips to plan. Plan a synchronous strategy."
            )
        if cls._partitions:
            raise NotPlannedError(
                f"What {cls.__name__} cuts over a mesh cannot be planned. Plan a MirroredStrategy: "
                "of what the layouts cut, a device then has its part."
            )
        members = {
            "_devices_of_target": staticmethod(found),
            "_planner": planner,
            "_one": issubclass(cls, OneDeviceStrategy),
            "_variant": variant,
        }
        return type(f"Planned{cls.__name__}", (_StandIn, cls), members)

    Strategy._stand_in = staticmethod(stand_in)  # type: ignore[assignment]
