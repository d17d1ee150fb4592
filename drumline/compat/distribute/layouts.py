"""Meshes and layouts, as ``tf.experimental.dtensor.Mesh`` and ``Layout``, over JAX's shardings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from drumline.compat.values.tensor import Tensor

UNSHARDED = "unsharded"
MATCH = "match"
_HOST = "/job:localhost/replica:0/task:0/device:"


class MeshDimension(NamedTuple):
    """A dimension of a mesh.

    Attributes:
        name: of it.
        size: how many devices are along it.
    """

    name: str
    size: int


def device_name(device: jax.Device) -> str:
    """The name of a device of JAX's, as TensorFlow has it."""
    kind = "CPU" if device.platform == "cpu" else device.platform.upper()
    return f"/job:localhost/replica:0/task:{device.process_index}/device:{kind}:{_number(device)}"


def _number(device: jax.Device) -> int:
    """Which of its kind a device is, in its process."""
    found: int = getattr(device, "local_hardware_id", None) or 0
    own = [d for d in jax.devices(device.platform) if d.process_index == device.process_index]
    return own.index(device) if device in own else found


def devices_named(names: Sequence[Any] | None, kind: str | None) -> list[jax.Device]:
    """Devices of JAX's by TensorFlow's names, as ``"CPU:0"``; all of a kind without names.

    Raises:
        ValueError: there is no such device.
    """
    if names is None:
        return list(jax.devices(kind.lower()) if kind else jax.devices())
    found: list[jax.Device] = []
    for name in names:
        text = name if isinstance(name, str) else name.to_string()
        which, _, number = text.rpartition("device:")[2].strip("/").rpartition(":")
        present = jax.local_devices(backend=which.lower())
        if not number.isdigit() or int(number) >= len(present):
            raise ValueError(
                f"There is no device {text!r}: there are {len(present)} of {which}; "
                "tf.config.set_logical_device_configuration divides the CPU into several"
            )
        found.append(present[int(number)])
    return found


class Mesh:
    """Devices in dimensions that have names, as ``tf.experimental.dtensor.Mesh``.

    Args:
        dim_names: of the dimensions.
        devices: JAX's, in an array of as many dimensions.
        mesh_name: for messages.

    Example:
        >>> from drumline.compat.tf.experimental import dtensor
        >>> mesh = dtensor.create_mesh([("batch", 1), ("model", 1)], devices=["CPU:0"])
        >>> mesh.shape(), mesh.dim_names
        ([1, 1], ['batch', 'model'])
    """

    def __init__(self, dim_names: Sequence[str], devices: np.ndarray, mesh_name: str = ""):
        if len(set(dim_names)) < len(dim_names):
            raise ValueError(f"Mesh dimensions must have names of their own, got {list(dim_names)}")
        self._mesh = jax.sharding.Mesh(devices, tuple(dim_names))
        self._name = mesh_name

    @classmethod
    def of(cls, mesh: jax.sharding.Mesh) -> Mesh:
        """The mesh that is one of JAX's."""
        return cls([str(name) for name in mesh.axis_names], mesh.devices)

    @property
    def jax_mesh(self) -> jax.sharding.Mesh:
        """JAX's."""
        return self._mesh

    @property
    def dim_names(self) -> list[str]:
        """The names of the dimensions."""
        return [str(name) for name in self._mesh.axis_names]

    @property
    def name(self) -> str:
        """Its name; empty if it has none."""
        return self._name

    @property
    def size(self) -> int:
        """How many devices there are."""
        return int(self._mesh.devices.size)

    @property
    def strides(self) -> list[int]:
        """How far apart neighbours along each dimension are, in the order of devices."""
        shape = self.shape()
        return [math.prod(shape[i + 1 :]) for i in range(len(shape))]

    def shape(self) -> list[int]:
        """The sizes of the dimensions."""
        return list(self._mesh.devices.shape)

    def dim_size(self, dim_name: str) -> int:
        """The size of a dimension.

        Raises:
            ValueError: there is none of this name.
        """
        if dim_name not in self.dim_names:
            raise ValueError(
                f'"{dim_name}" not a dimension name in current mesh. '
                f"Dimension names: {self.dim_names}."
            )
        return int(self._mesh.shape[dim_name])

    def contains_dim(self, dim_name: str) -> bool:
        """Whether there is a dimension of this name."""
        return dim_name in self.dim_names

    def __contains__(self, dim_name: str) -> bool:
        return self.contains_dim(dim_name)

    def __getitem__(self, dim_name: str) -> MeshDimension:
        if not self.contains_dim(dim_name):
            raise KeyError(f"Dimension {dim_name} not defined in mesh: {self.dim_names}.")
        return MeshDimension(dim_name, self.dim_size(dim_name))

    def device_type(self) -> str:
        """``"CPU"``, ``"GPU"`` or ``"TPU"``."""
        return self.global_devices()[0].partition("device:")[2].partition(":")[0]

    def global_devices(self) -> list[str]:
        """The names of all devices, in order."""
        return [device_name(device) for device in self._mesh.devices.flat]

    def global_device_ids(self) -> np.ndarray:
        """The numbers of all devices, in the mesh's shape."""
        return np.arange(self.size).reshape(self.shape())

    def local_device_ids(self) -> list[int]:
        """The numbers of this process's devices."""
        own = jax.process_index()
        return [i for i, each in enumerate(self._mesh.devices.flat) if each.process_index == own]

    def local_devices(self) -> list[str]:
        """The names of this process's devices."""
        names = self.global_devices()
        return [names[i] for i in self.local_device_ids()]

    def num_local_devices(self) -> int:
        """How many of them are this process's."""
        return len(self.local_device_ids())

    def min_global_device_id(self) -> int:
        """The first number."""
        return 0

    def is_remote(self) -> bool:
        """Whether none of the devices is this process's."""
        return not self.local_device_ids()

    def unravel_index(self) -> dict[int, dict[str, int]]:
        """Where each device is."""
        places = itertools.product(*map(range, self.shape()))
        return {i: dict(zip(self.dim_names, at, strict=True)) for i, at in enumerate(places)}

    def local_device_locations(self) -> list[dict[str, int]]:
        """Where each of this process's devices is."""
        found = self.unravel_index()
        return [found[i] for i in self.local_device_ids()]

    def coords(self, device_idx: int) -> Tensor:
        """Where a device is, int32 of as many numbers as there are dimensions."""
        return Tensor(np.array(np.unravel_index(device_idx, self.shape()), np.int32))

    def to_string(self) -> str:
        """Its name, dimensions and devices."""
        dims = ",".join(f"{name}={size}" for name, size in self._mesh.shape.items())
        numbers = ",".join(map(str, range(self.size)))
        local = ",".join(map(str, self.local_device_ids()))
        return f"{self._name}|{dims}|{numbers}|{local}|{','.join(self.local_devices())}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._mesh == other._mesh

    def __hash__(self) -> int:
        return hash(self._mesh)

    def __repr__(self) -> str:
        return f"Mesh.from_string({self.to_string()})"


class ShardingLayout:
    """Along which dimensions of a mesh those of a tensor are divided.

    As ``tf.experimental.dtensor.Layout``.

    Args:
        sharding_specs: for each dimension of the tensor the name of one of the mesh, or
            ``UNSHARDED``.
        mesh: the devices.

    Raises:
        ValueError: for a name that is not the mesh's, or that comes twice.

    Example:
        >>> from drumline.compat.tf.experimental import dtensor
        >>> mesh = dtensor.create_mesh([("batch", 1)], devices=["CPU:0"])
        >>> dtensor.Layout(["batch", dtensor.UNSHARDED], mesh).num_shards(0)
        1
    """

    def __init__(self, sharding_specs: Sequence[str], mesh: Mesh):
        specs = list(sharding_specs)
        named = [spec for spec in specs if spec != UNSHARDED]
        for spec in named:
            if not isinstance(spec, str) or not mesh.contains_dim(spec):
                raise ValueError(
                    f"{spec}: A dimension sharding must either be a valid mesh dimension or "
                    "UNSHARDED."
                )
            if named.count(spec) > 1:
                raise ValueError(
                    f"Mesh dimension {spec} was repeated in sharding specification {specs}. Mesh "
                    "dimensions must be unique in a layout."
                )
        self._specs = specs
        self._mesh = mesh

    @classmethod
    def replicated(cls, mesh: Mesh, rank: int) -> ShardingLayout:
        """Of a tensor of ``rank`` dimensions, whole on each device."""
        return cls([UNSHARDED] * rank, mesh)

    @classmethod
    def batch_sharded(cls, mesh: Mesh, batch_dim: str, rank: int, axis: int = 0) -> ShardingLayout:
        """Of one that is divided in one dimension: the first, or ``axis``."""
        specs = [UNSHARDED] * rank
        specs[axis] = batch_dim
        return cls(specs, mesh)

    @classmethod
    def inner_sharded(cls, mesh: Mesh, inner_dim: str, rank: int) -> ShardingLayout:
        """Of one that is divided in its last dimension."""
        return cls.batch_sharded(mesh, inner_dim, rank, axis=rank - 1)

    @classmethod
    def of(cls, array: Any) -> ShardingLayout | None:
        """That of an array of JAX's; None if it does not lie on a mesh of named dimensions."""
        sharding = getattr(array, "sharding", None)
        if not isinstance(sharding, jax.sharding.NamedSharding) or not isinstance(
            sharding.mesh, jax.sharding.Mesh
        ):
            return None
        specs = []
        for part in (*sharding.spec, *[None] * (array.ndim - len(sharding.spec))):
            names = part if isinstance(part, tuple) else (part,)
            if len(names) > 1:
                return None
            specs.append(UNSHARDED if not names or names[0] is None else str(names[0]))
        return cls(specs, Mesh.of(sharding.mesh))

    @property
    def sharding(self) -> jax.sharding.NamedSharding:
        """JAX's."""
        parts = (None if spec == UNSHARDED else spec for spec in self._specs)
        return jax.sharding.NamedSharding(self._mesh.jax_mesh, jax.sharding.PartitionSpec(*parts))

    @property
    def sharding_specs(self) -> list[str]:
        """For each dimension the name of one of the mesh, or ``UNSHARDED``."""
        return list(self._specs)

    @property
    def mesh(self) -> Mesh:
        """The devices."""
        return self._mesh

    @property
    def rank(self) -> int:
        """How many dimensions its tensors have."""
        return len(self._specs)

    @property
    def shape(self) -> list[int]:
        """The sizes of the mesh's dimensions."""
        return self._mesh.shape()

    def num_shards(self, idx: int) -> int:
        """Into how many parts a dimension is divided."""
        spec = self._specs[idx]
        return 1 if spec == UNSHARDED else self._mesh.dim_size(spec)

    def delete(self, dims: Sequence[int]) -> ShardingLayout:
        """That of tensors without some of the dimensions."""
        return ShardingLayout(
            [s for i, s in enumerate(self._specs) if i not in set(dims)], self._mesh
        )

    def is_fully_replicated(self) -> bool:
        """Whether each device has all of a tensor."""
        return all(self.num_shards(i) == 1 for i in range(self.rank))

    def offset_to_shard(self) -> list[tuple[int, ...]]:
        """Which part of a tensor each device has: its number in each dimension."""
        return [
            tuple(0 if spec == UNSHARDED else at[spec] for spec in self._specs)
            for at in self._mesh.unravel_index().values()
        ]

    def global_shape_from_local_shape(self, local_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a tensor whose parts have this one."""
        return tuple(size * self.num_shards(i) for i, size in enumerate(local_shape))

    def local_shape_from_global_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the parts of a tensor of this one."""
        return tuple(size // self.num_shards(i) for i, size in enumerate(global_shape))

    def to_string(self) -> str:
        """Its dimensions and mesh."""
        return f"sharding_specs:{','.join(self._specs)}, mesh:{self._mesh.to_string()}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ShardingLayout)
            and self._specs == other._specs
            and self._mesh == other._mesh
        )

    def __hash__(self) -> int:
        return hash((tuple(self._specs), self._mesh))

    def __repr__(self) -> str:
        return f"Layout.from_string({self.to_string()})"


ShardingLayout.__name__ = ShardingLayout.__qualname__ = "Layout"
