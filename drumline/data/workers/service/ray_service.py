"""A Ray cluster as a service."""

from __future__ import annotations

import dataclasses

from drumline._extras import require_extra
from drumline.data.workers.remote.cluster import Cluster


@dataclasses.dataclass(frozen=True)
class RayService:
    """The cluster at an address.

    Attributes:
        address: of a node; ``None`` for the environment's, or one that is started.
        workers: how many; ``None`` for one for each free CPU.
        cpus_per_worker: how many CPUs each takes.

    Raises:
        ImportError: Ray is not installed.
    """

    address: str | None
    workers: int | None
    cpus_per_worker: float

    def __post_init__(self) -> None:
        require_extra("ray", "ray", "Dataset.distribute")
        if not self.cpus_per_worker > 0:
            raise ValueError(
                f"distribute: cpus_per_worker must be positive, got {self.cpus_per_worker}"
            )

    def connect(self) -> Cluster:
        # Ray takes seconds to load.
        from drumline.data.workers.service.ray_cluster import RayCluster

        return RayCluster(self.address, self.workers, self.cpus_per_worker)

    def describe(self) -> str:
        number = "" if self.workers is None else f", {self.workers} workers"
        return f"Ray{'' if self.address is None else f' at {self.address}'}{number}"
