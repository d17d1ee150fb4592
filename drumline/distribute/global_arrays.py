"""Arrays of this process's devices, and the same arrays seen by the programs of all processes.

A program that runs on the devices of several processes takes and returns arrays that lie on all of
them, of which each process can read only its own part. What a user holds lies on the devices of
the user's process alone, so that whatever is done with it involves no other process. Going from
the one to the other copies nothing. `ReplicaArrays` places a strategy's arrays, and computes with
the values of its replicas.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import (
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)

from drumline.data.elements.precision import (
    any_wide,
    keeping_64_bits,
    require_all_fit,
    require_fits,
)
from drumline.distribute.collectives import CrossDeviceOps, ReplicaAxis
from drumline.distribute.collectives.collective_channels import (
    ChannelAllocator,
    ChannelRange,
    allocate_channels,
)
from drumline.distribute.collectives.devices import is_local
from drumline.distribute.process_group import watchdog
from drumline.distribute.process_group.host_collectives import joint_actions
from drumline.distribute.values import REPLICA_AXIS, PerReplica
from drumline.training.cut_values import (
    CutValue,
    cut,
    is_cut,
    row_length,
    row_of,
    rows_shape,
    uncut,
)
from drumline.training.jax_internals import current_trace, is_staged
from drumline.training.keras_internals import return_taken_values

if TYPE_CHECKING:
    from drumline.distribute.strategy import Strategy


@functools.lru_cache(maxsize=64)
def mesh_of(devices: tuple[jax.Device, ...]) -> Mesh:
    """The mesh with the one axis `replica` over `devices`."""
    return Mesh(np.array(devices), (REPLICA_AXIS,), axis_types=(AxisType.Auto,))


@functools.lru_cache(maxsize=64)
def copies_on(devices: tuple[jax.Device, ...]) -> jax.sharding.Sharding:
    """A copy on each of `devices`."""
    if len(devices) == 1:
        return SingleDeviceSharding(devices[0])
    return NamedSharding(mesh_of(devices), PartitionSpec())


def to_global_array(value: jax.Array, sharding: jax.sharding.Sharding) -> jax.Array:
    """`value`, of which this process's devices hold copies, as an array of all processes'.

    The processes hold the same value; this is not checked.

    Args:
        value: as `to_local_array` returns it; what lies on all processes already stays.
        sharding: a copy on each device of all processes, `value`'s among them.
    """
    if not value.is_fully_addressable or sharding.is_fully_addressable:
        return value
    parts = [value] if len(value.devices()) == 1 else _parts(value)
    return jax.make_array_from_single_device_arrays(value.shape, sharding, parts)


def to_local_array(value: Any) -> Any:
    """`value` as this process's devices hold it.

    What is no array of several processes stays, and so does one that is divided between them.
    """
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return value
    if value.is_fully_addressable or not value.is_fully_replicated:
        return value
    if len(value.sharding.addressable_devices) == 1:
        return value.addressable_data(0)
    parts = _parts(value)
    devices = tuple(device for part in parts for device in part.devices())
    return jax.make_array_from_single_device_arrays(value.shape, copies_on(devices), parts)


def shard(tree: Any, mesh: Mesh, axis: int = 0) -> Any:
    """A pytree that all processes have, the `axis` of its arrays cut over the mesh's devices."""
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, REPLICA_AXIS))
    if sharding.is_fully_addressable:
        return jax.device_put(tree, sharding)
    return jax.tree.map(
        lambda leaf: jax.make_array_from_callback(leaf.shape, sharding, leaf.__getitem__), tree
    )


def joined_rows(rows: Sequence[Any], mesh: Mesh) -> jax.Array:
    """The array ``(replicas, ...)`` of which this process has the rows of its own replicas."""
    sharding = NamedSharding(mesh, PartitionSpec(REPLICA_AXIS))
    devices = own_devices(tuple(mesh.devices.flat))
    placed = [jax.device_put(row[None], d) for row, d in zip(rows, devices, strict=True)]
    shape = (mesh.size, *placed[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, placed)


@functools.lru_cache(maxsize=64)
def own_devices(devices: tuple[jax.Device, ...]) -> tuple[jax.Device, ...]:
    """Those of `devices` that are this process's, in their order."""
    return tuple(device for device in devices if is_local(device))


def _parts(value: jax.Array) -> list[jax.Array]:
    return [shard.data for shard in value.addressable_shards]


KEEP_64_BITS = "give an array of JAX's that has them, made under `jax.enable_x64(True)`"
"""What to do about numbers that do not fit into 32 bits, for messages."""


class ReplicaArrays:
    """Places arrays on the devices of a strategy's replicas, and computes there.

    A strategy says which devices and shardings these are (`Strategy.replica_devices`,
    `Strategy.sharding_of`, `Strategy.variable_sharding`); steps, inputs and reductions place their
    arrays here. Where variables live on other devices than replicas run on, programs take copies
    on the replicas' devices, and what they leave returns to where the variables live.

    Args:
        strategy: the strategy, asked each time, since a subclass may override its answers.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._cut_variables: list[weakref.ref[Any]] = []

    @property
    def variables_away(self) -> bool:
        """Whether variables live on other devices than this process's replicas run on."""
        devices = set(self._strategy.local_replica_devices)
        return self._strategy.variable_sharding.device_set != devices

    @property
    def has_home(self) -> bool:
        """Whether variables live on one device, which is not that of the only replica."""
        one = len(self._strategy.variable_sharding.device_set) == 1
        return one and self.variables_away and not self._strategy.spans_processes

    @property
    def local_sharding(self) -> Sharding:
        """Where this process's replicas find what is the same for all of them.

        That is where variables live, unless it is on other devices than the replicas'.
        """
        return self._on_devices(
            self._strategy.variable_sharding, self._strategy.local_replica_devices
        )

    @property
    def program_sharding(self) -> Sharding:
        """Where a program that runs on all replicas finds what is the same for all of them."""
        if self._strategy.spans_processes:
            return copies_on(self._strategy.replica_devices)
        return self.local_sharding

    def program_sharding_of(self, variable: Any) -> Sharding:
        """Where a program that runs on all replicas finds `variable`, and leaves it."""
        devices = self._strategy.replica_devices
        if self._strategy.spans_processes:
            cut = self._strategy._cuts_slots and is_cut(variable)
            return self._strategy.batch_sharding if cut else copies_on(devices)
        return self._on_devices(self._strategy.sharding_of(variable), devices)

    def _on_devices(self, sharding: Sharding, devices: tuple[jax.Device, ...]) -> Sharding:
        return sharding if sharding.device_set == set(devices) else copies_on(devices)

    def moves(self, variables: Iterable[Any]) -> bool:
        """Whether a program on all replicas takes any of `variables` otherwise than it lives.

        With several processes always: a program takes global arrays.
        """
        of, program = self._strategy.sharding_of, self.program_sharding_of
        return self._strategy.spans_processes or any(of(v) != program(v) for v in variables)

    def for_program(self, value: jax.Array) -> jax.Array:
        """Return `value`, placed as variables are, as a program on all replicas takes it."""
        if self._strategy.spans_processes:
            return to_global_array(value, self.program_sharding)
        devices = self._strategy.replica_devices
        if value.sharding.device_set == set(devices):
            return value
        return _moved(value, copies_on(devices))

    def from_program(self, value: Any, variable: Any) -> Any:
        """Return what a program on all replicas left of `variable` as the variable holds it."""
        value = to_local_array(value)
        if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
            return value
        if getattr(variable, "has_copies", False):  # a value for each replica, on its device
            return value
        sharding = self._strategy.sharding_of(variable)
        if not value.is_fully_addressable or value.sharding.device_set == sharding.device_set:
            return value
        return _moved(value, sharding)

    def compute(self, fn: Callable[..., Any], options: tuple[Any, ...], operand: Any) -> Any:
        """Evaluate ``fn(*options, operand)`` to an array that lies where variables do.

        Args:
            fn: a function of the module, compiled once for its options.
            options: what is no array.
            operand: the replicas' values, stacked or in a tuple.
        """
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(operand)):
            return fn(*options, operand)
        if any_wide(jax.tree.leaves(operand)):
            with keeping_64_bits():
                return self._compute(fn, options, operand)
        return self._compute(fn, options, operand)

    def _compute(self, fn: Callable[..., Any], options: tuple[Any, ...], operand: Any) -> Any:
        if isinstance(operand, tuple):
            operand = self.place_everywhere(operand)
        self._strategy._in_flight.wait()
        over_all = not isinstance(operand, tuple) and not operand.is_fully_addressable
        sharding = self.program_sharding if over_all else self.local_sharding
        ops = self._gathering(operand) if over_all else None
        result = _compiled(fn, options, sharding, ops)(operand)
        self._strategy._in_flight.started(result)
        return jax.tree.map(self._with_variables, result)

    def _with_variables(self, value: jax.Array) -> jax.Array:
        """What replicas computed where variables live, so that both can be used together."""
        value = to_local_array(value)
        home = self._strategy.variable_sharding
        if not value.is_fully_addressable or value.sharding.device_set == home.device_set:
            return value
        return _moved(value, home)

    def _gathering(self, stacked: jax.Array) -> CrossDeviceOps | None:
        """What brings the rows of ``(replicas, ...)`` together; None for XLA's own way."""
        ops = self._strategy.cross_device_ops
        axis = ReplicaAxis(REPLICA_AXIS, self._strategy.replica_devices)
        row = jax.ShapeDtypeStruct(stacked.shape[1:], stacked.dtype)
        rows = NamedSharding(self._strategy.mesh, PartitionSpec(REPLICA_AXIS))
        is_by_rows = stacked.shape[:1] == (axis.size,) and stacked.sharding == rows
        return ops if is_by_rows and ops.gathers(row, axis) else None

    def stack(self, values: Sequence[Any]) -> Any:
        """Return one array ``(replicas, ...)`` of arrays of one shape, a row on each device.

        Raises:
            OverflowError: if a 64-bit integer does not fit into 32 bits.
        """
        require_all_fit(values, "A replica's value", KEEP_64_BITS)
        if any(isinstance(value, jax.core.Tracer) for value in values):
            return jax.numpy.stack(values)
        if self._strategy.num_replicas_in_sync == 1:
            return jax.device_put(values[0], self._strategy.replica_devices[0])[None]
        own = [values[index] for index in self._strategy.local_replica_ids]
        return joined_rows(own, self._strategy.mesh)

    def place_variable(self, value: jax.typing.ArrayLike, variable: Any) -> jax.Array:
        """Return `value` placed where `variable` lives; no copy if it is there.

        That of a variable that is cut becomes its rows, ``(replicas, length)``.

        Raises:
            ValueError: if it is divided between processes.
        """
        sharding = self._strategy.sharding_of(variable)
        if self._strategy._cuts_slots and is_cut(variable):
            replicas = self._strategy.num_replicas_in_sync
            if self._strategy.spans_processes:
                return self._own_rows(value, replicas)
            if np.shape(value) != rows_shape(variable, replicas):
                value = _cut(replicas)(value)
        return self._placed(value, sharding)

    def held_value(
        self, value: jax.typing.ArrayLike, variable: Any, *, is_new: bool = False
    ) -> Any:
        """Return what `variable` holds for `value`: the array, or a `CutValue` where it is cut.

        With several processes a new one that is cut holds the first process's value.
        """
        if self._strategy._cuts_slots and is_cut(variable):
            place = self.first_cut_value if is_new else self.cut_value
            return place(value, variable)
        return self.place_variable(value, variable)

    def has_shape_alone(self, variable: Any) -> bool:
        """Whether `variable` needs no value, as no step runs: where a script is planned."""
        return False

    def _own_rows(self, value: jax.typing.ArrayLike, replicas: int) -> jax.Array:
        """The rows of a value that all processes have, of which this one keeps its own."""
        value = to_local_array(value)
        if isinstance(value, jax.Array) and not value.is_fully_addressable:
            return value
        require_fits(value, "An array that goes to the devices", KEEP_64_BITS)
        rows = [row_of(value, replicas, index) for index in self._strategy.local_replica_ids]
        return joined_rows(rows, self._strategy.mesh)

    def first_cut_value(self, value: jax.typing.ArrayLike, variable: Any) -> CutValue:
        """As `cut_value`, of a new variable: with several processes of the first one's value."""
        if not self._strategy.spans_processes:
            return self.cut_value(value, variable)
        own = np.asarray(value)
        named = f"make the variable {variable.path!r} of {own.dtype}{list(own.shape)}"
        vars(variable)[_NUMBER] = len(self._cut_variables)
        self._cut_variables.append(weakref.ref(variable))
        of_first = 0 in self._strategy.local_replica_ids
        first, *_ = joint_actions.wait(named, _fill_of(own) if of_first else "")
        if first:
            filled = np.frombuffer(bytes.fromhex(first), own.dtype)
            return self.cut_value(np.broadcast_to(filled[0], own.shape), variable)
        self._strategy._in_flight.wait()
        with watchdog(timeout_seconds=self._strategy._in_flight.timeout_seconds):
            rows = _rows_of_first(self._strategy.mesh)(self._rows_if_first(own))
            rows.block_until_ready()
        return self.cut_value(rows, variable)

    def _rows_if_first(self, value: np.ndarray) -> jax.Array:
        """``(replicas, replicas, length)``: the rows of the value on replica 0, else zeros."""
        replicas = self._strategy.num_replicas_in_sync
        shape = replicas, row_length(value.size, replicas)
        own = [np.zeros(shape, value.dtype) for _ in self._strategy.local_replica_ids]
        if 0 in self._strategy.local_replica_ids:
            own[0].reshape(-1)[: value.size] = value.reshape(-1)
        return joined_rows(own, self._strategy.mesh)

    def cut_value(self, value: jax.typing.ArrayLike, variable: Any) -> CutValue:
        """Return what `variable`, which is cut, holds for `value`, or for rows of it."""
        named = f"{variable.path!r}, number {vars(variable).get(_NUMBER)}"
        whole = functools.partial(self._read, named, tuple(variable.shape))
        return CutValue(self.place_variable(value, variable), whole)

    def _read(self, named: str, shape: tuple[int, ...], rows: jax.Array) -> jax.Array:
        if self._strategy.spans_processes:
            joint_actions.wait(f"read the variable {named}")
        return self._joined(shape, rows)

    def read_along(self) -> None:
        """Read the variables that the first process reads in what it leads, see `joint_actions`.

        Raises:
            RuntimeError: if it is to do something else, or reads one that is not here.
        """
        for reading in joint_actions.follow():
            number = reading.rpartition(", number ")[2]
            known = number.isdecimal() and int(number) < len(self._cut_variables)
            variable = self._cut_variables[int(number)]() if known else None
            if variable is None:
                raise RuntimeError(
                    f"The first process is to {reading}, in a callback or a save that it does for "
                    "all. The others read along with it variables that are cut over processes "
                    "(`shard=`), and this is none of theirs: make and read it in all processes."
                )
            return_taken_values([variable])
            jax.block_until_ready(variable.value)

    def _joined(self, shape: tuple[int, ...], rows: jax.Array) -> jax.Array:
        strategy = self._strategy
        with jax.ensure_compile_time_eval():
            strategy._in_flight.wait()
            sharding = self.program_sharding if strategy.spans_processes else self.local_sharding
            joined = _compiled(_uncut, (shape,), sharding, None)(rows)
            strategy._in_flight.started(joined)
            return self._with_variables(joined)

    def place_replicated(self, value: jax.typing.ArrayLike) -> jax.Array:
        """Return `value` where each of this process's replicas finds it; no copy if it is there.

        Raises:
            ValueError: if it is divided between processes.
        """
        return self._placed(value, self.local_sharding)

    def _placed(self, value: jax.typing.ArrayLike, sharding: Sharding) -> jax.Array:
        value = to_local_array(value)
        require_fits(value, "An array that goes to the devices", KEEP_64_BITS)
        if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
            if value.sharding == sharding and value.committed:
                return value
            if not value.is_fully_addressable:
                raise ValueError(
                    f"An array of shape {value.shape} is divided between processes, and a variable "
                    "takes a whole one. Combine it first: `strategy.reduce` or `strategy.gather`."
                )
        return jax.device_put(value, sharding)

    def place_copies(self, copies: jax.typing.ArrayLike) -> jax.Array:
        """Return an array ``(replicas, ...)`` with each row on its replica's device.

        Raises:
            NotImplementedError: if the strategy has no program for each replica.
        """
        if self._strategy._partitions:
            raise NotImplementedError(
                f"A Variable with VariableSynchronization.ON_READ has a value for each replica, "
                f"and {self._strategy!r} has one program for all. Use another strategy for it."
            )
        if isinstance(copies, jax.Array) and not copies.is_fully_addressable:
            return copies
        return shard(copies, self._strategy.mesh)

    def place_everywhere(self, tree: Any) -> Any:
        """Return a pytree with its arrays where each replica finds them, and the rest as it is."""
        return self._placed_tree(tree, self.local_sharding)

    def place_with_variables(self, tree: Any) -> Any:
        """Return a pytree with its arrays where variables live, and the rest as it is."""
        return self._placed_tree(tree, self._strategy.variable_sharding)

    def _placed_tree(self, tree: Any, sharding: Sharding) -> Any:
        return jax.tree.map(
            lambda leaf: (
                self._placed(leaf, sharding) if isinstance(leaf, (jax.Array, np.ndarray)) else leaf
            ),
            tree,
        )

    def known_everywhere(self, tree: Any) -> Any:
        """Return a pytree with what is divided between processes gathered on the devices of each.

        Outside of programs it lies where variables do. Of a `PerReplica` this process then has the
        values of all replicas. All processes call this together.
        """

        def whole(node: Any) -> Any:
            if isinstance(node, PerReplica):
                if not _divided(node.stacked):
                    return node
                rows = self.compute(_rows_of, (), node.stacked)
                if node.replicas is None:
                    return PerReplica(rows)
                carried = {n: row for n, row in enumerate(rows) if n not in node.replicas}
                return PerReplica([rows[n] for n in node.replicas], node.replicas, carried)
            if not _divided(node):
                together = self.variables_away and isinstance(node, jax.Array)
                eager = together and not is_staged(current_trace())
                return self.place_with_variables(node) if eager else node
            if is_staged(current_trace()):  # for shapes alone: a program is given what it reads
                return jax.numpy.zeros(node.shape, node.dtype)
            return self.compute(_whole, (), node)

        return jax.tree.map(whole, tree, is_leaf=lambda node: isinstance(node, PerReplica))


def _moved(value: jax.Array, sharding: Sharding) -> jax.Array:
    """An array on other devices: at once, also where a trace reads a variable."""
    with jax.ensure_compile_time_eval():
        return jax.device_put(value, sharding)


class RepeatedMoves:
    """Moves the values of variables, and returns what it moved last while a value is the same.

    A step that only reads a variable, run again and again, so transfers it once.

    Args:
        move: ``move(value, variable)``, as `ReplicaArrays.from_program`.
    """

    def __init__(self, move: Callable[[Any, Any], Any]) -> None:
        self._move = move
        self._last: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any, variable: Any) -> Any:
        before, moved = self._last.get(id(variable), (None, None))
        if before is not value or moved.is_deleted():
            moved = self._move(value, variable)
            self._last[id(variable)] = value, moved
        return moved


_NUMBER = "_drumline_cut_number"
"""Of a variable that is cut over processes: the same in all of them."""


def _fill_of(value: np.ndarray) -> str:
    """The bytes of the one element that the value repeats, in hex; empty if there are others."""
    bits = value.reshape(-1).view(f"u{value.dtype.itemsize}")
    is_one = (bits[:64] == bits[0]).all() and (bits == bits[0]).all()
    return bits[:1].tobytes().hex() if is_one else ""


@functools.lru_cache(maxsize=64)
def _rows_of_first(mesh: Mesh) -> Callable[[jax.Array], jax.Array]:
    """Each replica's row of what replica 0 has."""

    def on_replica(rows: jax.Array) -> jax.Array:
        return jax.lax.all_to_all(rows[0], REPLICA_AXIS, 0, 0, tiled=True)[:1]

    spec = PartitionSpec(REPLICA_AXIS)
    program: Callable[[jax.Array], jax.Array] = jax.jit(
        jax.shard_map(on_replica, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    )
    return program


def _uncut(shape: tuple[int, ...], rows: jax.Array) -> jax.Array:
    return uncut(rows, shape)


@functools.lru_cache(maxsize=64)
def _cut(replicas: int) -> Callable[[Any], jax.Array]:
    return jax.jit(functools.partial(cut, replicas=replicas))


def _divided(value: Any) -> bool:
    traced = isinstance(value, jax.core.Tracer)
    return isinstance(value, jax.Array) and not traced and not value.is_fully_addressable


def _whole(value: jax.Array) -> jax.Array:
    return value


def _rows_of(stacked: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(stacked[index] for index in range(stacked.shape[0]))


@functools.lru_cache(maxsize=64)
def _compiled(
    fn: Any, options: tuple[Any, ...], sharding: Sharding, ops: CrossDeviceOps | None
) -> Callable[[Any], Any]:
    """``fn`` of a stacked array, compiled, whose rows come together by `ops`, if it is given."""
    evaluate = functools.partial(fn, *options)
    if ops is None:
        return _jitted(evaluate, sharding)
    assert isinstance(sharding, NamedSharding)
    mesh = sharding.mesh
    axis = ReplicaAxis(REPLICA_AXIS, tuple(mesh.devices.flat))

    def on_replica(rows: jax.Array) -> Any:
        with allocate_channels():
            return evaluate(ops.gather_rows(rows[0], axis))

    program = jax.shard_map(
        on_replica,
        mesh=mesh,
        in_specs=PartitionSpec(REPLICA_AXIS),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    return _jitted(ChannelRange(program, ChannelAllocator()), sharding)


def _jitted(program: Callable[[Any], Any], sharding: Sharding) -> Callable[[Any], Any]:
    compiled: Callable[[Any], Any] = jax.jit(program, out_shardings=sharding)
    return compiled
