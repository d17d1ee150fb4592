"""Options of steps, input and communication, with the arguments that TensorFlow gives them."""

from __future__ import annotations

import dataclasses
from typing import Any

from drumline.distribute import CommunicationOptions, InputOptions


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """Options of a step, as ``tf.distribute.RunOptions``; all are about TPUs.

    Attributes:
        experimental_enable_dynamic_batch_size: accepted; each size is compiled once.
        experimental_bucketizing_dynamic_shape: must be False.
        experimental_xla_options: must be None.

    Raises:
        NotImplementedError: for what is not possible here.
    """

    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: Any = None

    def __post_init__(self) -> None:
        if self.experimental_bucketizing_dynamic_shape:
            raise NotImplementedError(
                "tf.distribute.RunOptions(experimental_bucketizing_dynamic_shape=True): batches "
                "are not padded here; pad them in the dataset, with padded_batch or "
                "bucket_by_sequence_length."
            )
        if self.experimental_xla_options is not None:
            raise NotImplementedError(
                "tf.distribute.RunOptions(experimental_xla_options=...): set XLA_FLAGS in the "
                "environment instead."
            )


def collective_hints(bytes_per_pack: int = 0, timeout_seconds: float | None = None) -> Any:
    """Options of collectives, as ``tf.distribute.experimental.CollectiveHints`` makes them."""
    return CommunicationOptions(bytes_per_pack, timeout_seconds)


def core_input_options(options: InputOptions | None, keep_64_bits: bool) -> InputOptions:
    """drumline's options of a user's, which retain 64 bits as tensors do."""
    return dataclasses.replace(InputOptions.of(options), keep_64_bits=keep_64_bits)
