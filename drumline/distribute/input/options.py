"""Options of distributed input, and what a user's function is given for a pipeline or replica."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from drumline.data.elements.precision import require_all_fit


class InputReplicationMode(enum.Enum):
    """How many pipelines a function makes, as ``tf.distribute.InputReplicationMode``.

    Attributes:
        PER_WORKER: one for each process, whose replicas take its batches in turn.
        PER_REPLICA: one for each replica.
    """

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


@dataclass(frozen=True)
class InputOptions:
    """How input comes to the replicas, as ``tf.distribute.InputOptions``.

    Attributes:
        experimental_fetch_to_device: whether batches are copied to the replicas' devices when they
            are asked for. If not, they stay numpy arrays, which `Strategy.run` copies.
        experimental_replication_mode: how many pipelines `distribute_datasets_from_function` makes.
        experimental_place_dataset_on_device: must be False; pipelines run on the host.
        experimental_per_replica_buffer_size: how many batches are on a replica's device at most
            before they are used; a copy runs while the step before is computed. At least 1.
        keep_64_bits: whether 64-bit columns keep their bits on the devices, and in the steps that
            are given them. By default they become 32-bit ones, as everywhere in JAX, and a batch
            with an integer that does not fit raises `OverflowError`.

    Raises:
        NotImplementedError: for `experimental_place_dataset_on_device`.
        TypeError: for another type than that of the default.
        ValueError: for a buffer of less than one batch, or one of several on no device.
    """

    experimental_fetch_to_device: bool = True
    experimental_replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1
    keep_64_bits: bool = False

    def __post_init__(self) -> None:
        if self.experimental_place_dataset_on_device:
            raise NotImplementedError(
                "InputOptions: experimental_place_dataset_on_device=True is not supported: input "
                "pipelines run on the host. Leave it out; batches are copied to the devices."
            )
        if not isinstance(self.experimental_replication_mode, InputReplicationMode):
            raise TypeError(
                "InputOptions: experimental_replication_mode must be a "
                f"dl.distribute.InputReplicationMode, got {self.experimental_replication_mode!r}."
            )
        size = self.experimental_per_replica_buffer_size
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(
                f"InputOptions: experimental_per_replica_buffer_size must be an int, got {size!r}."
            )
        if size < 1:
            raise ValueError(
                f"InputOptions: experimental_per_replica_buffer_size must be at least 1, got {size}"
                ": the batch that a step is given lies on the device before the step runs."
            )
        if size > 1 and not self.experimental_fetch_to_device:
            raise ValueError(
                f"InputOptions: experimental_per_replica_buffer_size={size} keeps batches on the "
                "devices, which experimental_fetch_to_device=False forbids. Call `.prefetch(n)` "
                "on the dataset to keep them on the host."
            )

    def to_place(self, batch: Any) -> Any:
        """A batch whose arrays can be copied to devices as they are.

        Its copies have 64-bit numbers where they are made within ``keeping_64_bits(keep_64_bits)``.

        Raises:
            OverflowError: if an integer does not fit into 32 bits, which are not kept.
        """
        if not self.keep_64_bits:
            require_all_fit(
                batch,
                "A batch",
                "distribute the dataset with "
                "`options=dl.distribute.InputOptions(keep_64_bits=True)`",
            )
        return batch

    @classmethod
    def of(cls, options: Any) -> InputOptions:
        """`options`, or the defaults for None.

        Raises:
            TypeError: if they are no input options.
        """
        if options is None:
            return cls()
        if not isinstance(options, cls):
            raise TypeError(
                f"options must be a dl.distribute.InputOptions, got {type(options).__name__}."
            )
        return options


@dataclass(frozen=True)
class InputContext:
    """What a function that makes an input pipeline may want to know, as ``tf.distribute``'s.

    Attributes:
        num_input_pipelines: how many pipelines feed the strategy: one for each process.
        input_pipeline_id: the number of this one, from 0.
        num_replicas_in_sync: how many replicas share a global batch.
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The rows of a global batch that each replica gets.

        Raises:
            ValueError: if the batch does not divide.
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"A global batch of {global_batch_size} does not divide over "
                f"{self.num_replicas_in_sync} replicas; use a multiple of that."
            )
        return global_batch_size // self.num_replicas_in_sync


@dataclass(frozen=True)
class ValueContext:
    """What a function that makes a replica's value may want to know, as ``tf.distribute``'s.

    Attributes:
        replica_id_in_sync_group: the replica's number, from 0.
        num_replicas_in_sync: how many replicas there are.
    """

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1
