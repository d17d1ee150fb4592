"""``tf.experimental.dtensor``: tensors that lie on several devices, by JAX's shardings.

A DTensor is a tensor whose array JAX holds with a `NamedSharding`. Functions of tensors, eager or
compiled, compute on its devices and choose layouts of their results: XLA's partitioner does. So
there is no device of its own, and each function here may be mixed with all others.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.distribute.layouts import Mesh, ShardingLayout, device_name, devices_named
from drumline.compat.training.variable import TensorVariable
from drumline.compat.values.boundary import map_structure
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_traced, raw
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor, wait_for_arrays
from drumline.distribute.step.compiled_step import InFlight

_default: ContextVar[Mesh | None] = ContextVar("drumline_default_mesh", default=None)

Dimensions = Sequence[tuple[str, int]] | Mapping[str, int]


def create_mesh(
    mesh_dims: Dimensions | None = None,
    mesh_name: str = "",
    devices: Sequence[Any] | None = None,
    device_type: str | None = None,
    use_xla_spmd: bool = False,
) -> Mesh:
    """Arrange this process's devices in dimensions, as ``dtensor.create_mesh``.

    Args:
        mesh_dims: names and sizes; one dimension ``"x"`` of all devices by default. One size may be
            -1: what is left.
        mesh_name: for messages.
        devices: as ``["CPU:0", "CPU:1"]``; by default all of the kind.
        device_type: ``"CPU"``, ``"GPU"`` or ``"TPU"``, where ``devices`` are not given.
        use_xla_spmd: of no effect: XLA's partitioner is always used.

    Raises:
        ValueError: there are more devices or fewer than the sizes say, or a name comes twice.
    """
    return _mesh(mesh_dims, mesh_name, devices_named(devices, device_type))


def create_distributed_mesh(
    mesh_dims: Dimensions,
    mesh_name: str = "",
    local_devices: Sequence[Any] | None = None,
    device_type: str | None = None,
    use_xla_spmd: bool = False,
) -> Mesh:
    """Arrange the devices of all processes in dimensions, as ``dtensor.create_distributed_mesh``.

    Processes are those that a strategy, or ``jax.distributed``, has brought together.

    Args:
        mesh_dims: names and sizes.
        mesh_name: for messages.
        local_devices: of this process, where it is the only one; else all devices are used.
        device_type: ``"CPU"``, ``"GPU"`` or ``"TPU"``.
        use_xla_spmd: of no effect.

    Raises:
        ValueError: some of the devices of several processes are chosen, or their number differs
            from the mesh's.
    """
    if local_devices is not None and jax.process_count() > 1:
        chosen = devices_named(local_devices, device_type)
        if chosen != list(jax.local_devices(backend=chosen[0].platform)):
            raise ValueError("a mesh of several processes has all devices of each of them")
        local_devices, device_type = None, chosen[0].platform
    return _mesh(mesh_dims, mesh_name, devices_named(local_devices, device_type))


def _mesh(dims: Dimensions | None, name: str, devices: list[jax.Device]) -> Mesh:
    pairs = list(dims.items() if isinstance(dims, Mapping) else dims or [("x", len(devices))])
    sizes = [int(size) for _, size in pairs]
    if sizes.count(-1) == 1:
        known = int(np.prod([size for size in sizes if size != -1]))
        sizes[sizes.index(-1)] = len(devices) // known
    if int(np.prod(sizes)) != len(devices):
        raise ValueError(
            f"length of devices ({len(devices)}) must be equal to total size of the mesh of shape "
            f"{sizes}"
        )
    if len(devices) > 1 and devices[0].platform == "cpu":
        wait_for_arrays()
    arranged = np.array(devices, object).reshape(sizes)
    return Mesh([each for each, _ in pairs], arranged, name)


def _laid_out(value: Any, layout: ShardingLayout) -> Any:
    """An array in a layout; of one that a function traces, a wish for it.

    Raises:
        InvalidArgumentError: its shape does not go with the layout.
    """
    shape = np.shape(value)
    if len(shape) != layout.rank:
        raise InvalidArgumentError(
            None,
            None,
            f"requires matching rank for layout and input, but got {layout.rank} as suggested rank "
            f"from layout but {len(shape)} from shape.",
        )
    for axis, size in enumerate(shape):
        if size % layout.num_shards(axis):
            raise InvalidArgumentError(
                None,
                None,
                f"requires dimension {axis} to be divisible by sharding specified in DTensorLayout,"
                f" but got dimension size={size} is not divisible by number of shards in layout for"
                f" this dimension={layout.num_shards(axis)}.",
            )
    if is_traced(value):
        return jax.lax.with_sharding_constraint(value, layout.sharding)
    return compute(functools.partial(jax.device_put, device=layout.sharding), value)


def copy_to_mesh(
    tensor: Any, layout: ShardingLayout, source_layout: ShardingLayout | None = None
) -> Tensor:
    """A tensor in a layout.

    Args:
        tensor: the same in all processes.
        layout: how it is to lie.
        source_layout: of no effect.

    Raises:
        InvalidArgumentError: its shape does not go with the layout.
    """
    return Tensor(_laid_out(convert(tensor), layout))


def relayout(tensor: Any, layout: ShardingLayout, name: str | None = None) -> Tensor:
    """A tensor in another layout; within a compiled function one that XLA is to choose there."""
    return copy_to_mesh(tensor, layout)


def relayout_like(tensor: Any, layout_tensor: Any, name: str | None = None) -> Tensor:
    """A tensor in the layout of another."""
    return relayout(tensor, fetch_layout(layout_tensor))


def fetch_layout(tensor: Any) -> ShardingLayout:
    """How a tensor or variable lies.

    Raises:
        InvalidArgumentError: it lies on no mesh.
    """
    found = tensor.layout if isinstance(tensor, DVariable) else ShardingLayout.of(raw(tensor))
    if found is None:
        raise InvalidArgumentError(
            None, None, "FetchLayout expects a tensor placed on the layout device."
        )
    return found


def check_layout(tensor: Any, layout: ShardingLayout) -> None:
    """Require a layout.

    Raises:
        ValueError: the tensor has another.
    """
    found = fetch_layout(tensor)
    if found != layout:
        raise ValueError(f"Layout of tensor: {found}, did not match expected layout: {layout}")


def is_dtensor(tensor: Any) -> bool:
    """Whether a tensor or variable lies on a mesh."""
    return isinstance(tensor, DVariable) or ShardingLayout.of(raw(tensor)) is not None


def unpack(tensor: Any) -> list[Tensor]:
    """A tensor's parts on this process's devices, in the order of these.

    Raises:
        InvalidArgumentError: it lies on no mesh.
    """
    layout = fetch_layout(tensor)
    parts = {part.device: part.data for part in raw(tensor).addressable_shards}
    own = layout.mesh.jax_mesh.devices.flat
    return [Tensor(parts[device]) for device in own if device in parts]


def pack(tensors: Sequence[Any], layout: ShardingLayout) -> Tensor:
    """The tensor whose parts on this process's devices are given, in the order of these.

    Raises:
        InvalidArgumentError: there are more or fewer than devices, or of other shapes.
        ValueError: parts that are to be equal are not of one shape and dtype.
    """
    own = [layout.mesh.jax_mesh.devices.flat[i] for i in layout.mesh.local_device_ids()]
    if len(tensors) != len(own):
        raise InvalidArgumentError(
            None, None, f"expected {len(own)} inputs to DTensorPack, but got {len(tensors)}"
        )
    parts = [convert(each) for each in tensors]
    kinds = {(np.shape(part), np.dtype(part.dtype)) for part in parts}
    if len(kinds) > 1:
        raise InvalidArgumentError(
            None,
            None,
            f"DTensorPack takes parts of one shape and dtype, got {sorted(map(str, kinds))}",
        )
    ((shape, _),) = kinds
    if len(shape) != layout.rank:
        raise InvalidArgumentError(
            None, None, f"parts of shape {shape} do not go with a layout of rank {layout.rank}"
        )
    whole = layout.global_shape_from_local_shape(shape)

    def put(*arrays: Any) -> jax.Array:
        placed = [jax.device_put(part, at) for part, at in zip(arrays, own, strict=True)]
        return jax.make_array_from_single_device_arrays(whole, layout.sharding, placed)

    return Tensor(compute(put, *parts))


def call_with_layout(
    fn: Callable[..., Any], layout: ShardingLayout | None, *args: Any, **kwargs: Any
) -> Any:
    """What a function gives, each tensor in a layout.

    A function of `tf.function` computes each part where it is to lie.

    Args:
        fn: the function.
        layout: of its results; None for those that it gives.
        args: its arguments.
        kwargs: more.
    """
    if layout is None:
        return fn(*args, **kwargs)
    return map_structure(lambda value: relayout(value, layout), fn(*args, **kwargs))


@contextlib.contextmanager
def default_mesh(mesh: Mesh) -> Iterator[None]:
    """Have `copy_to_mesh` and variables without a layout lie on a mesh, whole on each device."""
    token = _default.set(mesh)
    try:
        yield
    finally:
        _default.reset(token)


def run_on(mesh: Mesh) -> contextlib.AbstractContextManager[None]:
    """As `default_mesh`, by its former name."""
    return default_mesh(mesh)


def get_default_mesh() -> Mesh | None:
    """The mesh of the `default_mesh` block that this is in."""
    return _default.get()


@functools.cache
def _in_flight(mesh: Mesh) -> InFlight:
    """What says when compiled functions of variables on a mesh start."""
    return InFlight(list(mesh.jax_mesh.devices.flat))


class DVariable(TensorVariable):
    """A variable that lies on a mesh, as ``dtensor.DVariable``; its layout stays as it is.

    Args:
        initial_value: a tensor on a mesh, or a function that gives one.
        args: as of `tf.Variable`.
        dtype: of its values.
        kwargs: ``layout``, for a value that lies on no mesh; others are those of `tf.Variable`.

    Raises:
        InvalidArgumentError: neither the value nor ``layout`` nor a `default_mesh` says how it is
            to lie.
    """

    def __init__(self, initial_value: Any, *args: Any, dtype: Any = None, **kwargs: Any):
        layout: ShardingLayout | None = kwargs.pop("layout", None)
        value = initial_value() if callable(initial_value) else initial_value
        value = convert(value, dtype)
        mesh = _default.get()
        found = layout or ShardingLayout.of(value)
        if found is None and mesh is not None:
            found = ShardingLayout.replicated(mesh, np.ndim(value))
        if found is None:
            raise InvalidArgumentError(
                None, None, "Neither layout nor DTensor initial value are provided."
            )
        self._on_mesh = found
        super().__init__(value, *args, dtype=dtype, **kwargs)  # type: ignore[misc]
        self._value = _laid_out(convert(value, self.dtype), found)
        self._drumline_in_flight = _in_flight(found.mesh)

    @property
    def layout(self) -> ShardingLayout:
        """How it lies."""
        return self._on_mesh

    @property
    def handle(self) -> DVariable:
        """Itself: there is no handle beside it."""
        return self

    def _placed(self, value: Any) -> Any:
        """A value in the variable's layout.

        Raises:
            InvalidArgumentError: it lies on another mesh.
        """
        array = convert(value, self.dtype)
        given = ShardingLayout.of(array)
        if given is not None and given.mesh != self._on_mesh.mesh:
            raise InvalidArgumentError(
                None,
                None,
                f"a value on {given.mesh} cannot be assigned to a variable on {self._on_mesh.mesh}",
            )
        if np.shape(array) != tuple(self.shape):
            array = jnp.broadcast_to(jnp.asarray(array), tuple(self.shape))
        return _laid_out(array, self._on_mesh)

    def assign(
        self, value: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> DVariable:
        """Give it another value, which is laid out as the variable is."""
        if np.shape(raw(value)) != tuple(self.shape):
            super().assign(value)  # It raises.
        super().assign(self._placed(value))
        return self

    def assign_add(
        self, delta: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> DVariable:
        """Add to its value."""
        super().assign_add(self._placed(delta))
        return self

    def assign_sub(
        self, delta: Any, use_locking: Any = False, name: Any = None, read_value: bool = True
    ) -> DVariable:
        """Subtract from its value."""
        super().assign_sub(self._placed(delta))
        return self


class DTensorDataset:
    """The batches of a dataset in layouts, as ``dtensor.DTensorDataset``.

    Args:
        dataset: of elements, or of batches.
        mesh: on which they lie.
        layouts: of the batches' tensors, in their structure; one for all if it is one.
        global_batch_size: how many elements a batch has, over all devices.
        dataset_already_batched: whether the dataset has batches, of ``global_batch_size``.
        batch_dim: the mesh's dimension along which batches are divided; for messages.
        prefetch: how many batches are read ahead.
        tf_data_service_config: must be None.

    Raises:
        NotImplementedError: ``tf_data_service_config`` is given.
        ValueError: a layout is on another mesh, or batches are not divisible.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        mesh: Mesh,
        layouts: Any,
        global_batch_size: int,
        dataset_already_batched: bool = False,
        batch_dim: str | None = None,
        prefetch: int | None = None,
        tf_data_service_config: Any = None,
    ):
        if tf_data_service_config is not None:
            raise NotImplementedError(
                "DTensorDataset(tf_data_service_config=): drumline's data service runs on Ray; see "
                "drumline.data.service"
            )
        if jax.process_count() > 1:
            raise NotImplementedError(
                "DTensorDataset is for one process: distribute the dataset by a strategy"
            )
        map_structure(functools.partial(self._check, mesh), layouts)
        shards = 1 if batch_dim is None else mesh.dim_size(batch_dim)
        if global_batch_size % shards:
            raise ValueError(
                f"global_batch_size={global_batch_size} must be divisible by the {shards} shards "
                f"of batch_dim {batch_dim!r}"
            )
        batches = dataset
        if not dataset_already_batched:
            batches = dataset.batch(global_batch_size, drop_remainder=True)
        self._dataset = batches if prefetch is None else batches.prefetch(prefetch)
        self._layouts = layouts

    @staticmethod
    def _check(mesh: Mesh, layout: ShardingLayout) -> None:
        if layout.mesh != mesh:
            raise ValueError(f"{layout} is not on the dataset's mesh {mesh}")

    @property
    def element_spec(self) -> Any:
        """Of the batches."""
        return self._dataset.element_spec

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._dataset:
            if isinstance(self._layouts, ShardingLayout):
                yield map_structure(lambda value: relayout(value, self._layouts), batch)
            else:
                yield _paired(batch, self._layouts)


def _paired(values: Any, layouts: Any) -> Any:
    """Values in layouts of the same structure."""
    if isinstance(layouts, ShardingLayout):
        return relayout(values, layouts)
    if isinstance(values, Mapping):
        return {key: _paired(value, layouts[key]) for key, value in values.items()}
    pairs = zip(values, layouts, strict=True)
    return type(values)(_paired(value, layout) for value, layout in pairs)


def num_clients() -> int:
    """How many processes there are."""
    return jax.process_count()


def client_id() -> int:
    """Which of them this is."""
    return jax.process_index()


def job_name() -> str:
    """The name of the job that the processes are."""
    return "localhost" if jax.process_count() == 1 else "worker"


def full_job_name(task_id: int | None = None) -> str:
    """The name of a process; of this one by default."""
    return f"{job_name()}/replica:0/task:{client_id() if task_id is None else task_id}"


def jobs() -> list[str]:
    """The addresses of the processes: not known here, where JAX connects them."""
    return []


def preferred_device_type() -> str:
    """``"TPU"`` or ``"GPU"`` if there are some, else ``"CPU"``."""
    platform = jax.default_backend()
    return "CPU" if platform == "cpu" else platform.upper()


def local_devices(device_type: str, for_client_id: int | None = None) -> list[str]:
    """The names of a process's devices of a kind; of this process by default."""
    process = client_id() if for_client_id is None else for_client_id
    found = jax.devices(device_type.lower())
    return [device_name(each) for each in found if each.process_index == process]


def num_local_devices(device_type: str) -> int:
    """How many devices of a kind this process has."""
    return len(local_devices(device_type))


def num_global_devices(device_type: str) -> int:
    """How many devices of a kind all processes have."""
    return len(jax.devices(device_type.lower()))


def initialize_accelerator_system(
    device_type: str | None = None,
    enable_coordination_service: bool | None = True,
    num_logical_cpu_devices: int | None = None,
    experimental_reset_context: bool | None = False,
    experimental_enable_megcore: bool | None = False,
) -> str:
    """Start the devices, as ``dtensor.initialize_accelerator_system``.

    Args:
        device_type: ``"CPU"``, ``"GPU"`` or ``"TPU"``.
        enable_coordination_service: of no effect: JAX has its own.
        num_logical_cpu_devices: into how many devices the CPU is divided.
        experimental_reset_context: must be False.
        experimental_enable_megcore: must be False.

    Returns:
        The kind of the devices.

    Raises:
        NotImplementedError: for what is not possible here.
        RuntimeError: JAX has started with another number of devices.
    """
    from drumline import config

    if experimental_reset_context or experimental_enable_megcore:
        raise NotImplementedError(
            "initialize_accelerator_system: JAX's devices are not reset within a process, and it "
            "chooses megacores itself"
        )
    if num_logical_cpu_devices is not None:
        config.set_logical_devices("cpu", num_logical_cpu_devices)
    kind = (device_type or preferred_device_type()).upper()
    jax.devices(kind.lower())
    return kind


def shutdown_accelerator_system() -> None:
    """Nothing: JAX ends with the process."""


def barrier(mesh: Mesh, barrier_name: str | None = None, timeout_in_ms: int | None = None) -> None:
    """Wait for all processes of a mesh, once what was begun on its devices is done.

    Args:
        mesh: the devices.
        barrier_name: the same in all processes.
        timeout_in_ms: must be None.

    Raises:
        NotImplementedError: ``timeout_in_ms`` is given.
    """
    if timeout_in_ms is not None:
        raise NotImplementedError("dtensor.barrier waits as long as it takes")
    ones = jax.device_put(
        np.ones(mesh.shape(), np.float32), ShardingLayout(mesh.dim_names, mesh).sharding
    )
    jax.block_until_ready(jax.jit(jnp.sum)(ones))
