"""How the replicas of several processes exchange values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class CommunicationImplementation(enum.Enum):
    """Which algorithm, as ``tf.distribute.experimental.CommunicationImplementation``.

    Attributes:
        AUTO: the platform's own, NCCL between GPUs and XLA's between TPUs; between CPUs memory that
            the processes share if all are on one machine, and else whatever is quickest over
            Gloo's connections for the number of replicas and an array's size.
            `MultiWorkerMirroredStrategy.describe` says what it is.
        RING: drumline's ring of point-to-point messages, on any platform.
        NCCL: NCCL, on GPUs alone.
    """

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


CollectiveCommunication = CommunicationImplementation
"""The older name, as ``tf.distribute.experimental.CollectiveCommunication``."""


@dataclass(frozen=True)
class CommunicationOptions:
    """Options of collectives, as ``tf.distribute.experimental.CommunicationOptions``.

    Attributes:
        bytes_per_pack: the most bytes of small arrays (256 KiB at most each) that travel as one; 0
            for no limit.
        timeout_seconds: how long a step may take before the process says where it stands and ends;
            None for no limit. A peer that has died ends the step sooner, whatever this is.
        implementation: a `CommunicationImplementation`, or its name.

    Raises:
        ValueError: for a negative number, or an unknown implementation.
    """

    bytes_per_pack: int = 0
    timeout_seconds: float | None = None
    implementation: CommunicationImplementation = CommunicationImplementation.AUTO

    def __post_init__(self) -> None:
        if self.bytes_per_pack < 0:
            raise ValueError(f"bytes_per_pack must be 0 or more, got {self.bytes_per_pack}.")
        if self.timeout_seconds is not None and self.timeout_seconds <= 0:
            raise ValueError(
                f"timeout_seconds must be above 0, or None, got {self.timeout_seconds}."
            )
        object.__setattr__(self, "implementation", _implementation(self.implementation))

    @classmethod
    def of(cls, options: Any) -> CommunicationOptions:
        """`options`, an implementation as options, or the defaults for None.

        Raises:
            TypeError: if it is something else.
        """
        if options is None:
            return cls()
        if isinstance(options, CommunicationImplementation):
            return cls(implementation=options)
        if not isinstance(options, cls):
            raise TypeError(
                "communication_options must be a CommunicationOptions, got "
                f"{type(options).__name__}."
            )
        return options


def _implementation(value: Any) -> CommunicationImplementation:
    if isinstance(value, CommunicationImplementation):
        return value
    try:
        return CommunicationImplementation[str(value).upper()]
    except KeyError:
        names = ", ".join(member.name for member in CommunicationImplementation)
        raise ValueError(f"implementation must be one of {names}, got {value!r}.") from None
