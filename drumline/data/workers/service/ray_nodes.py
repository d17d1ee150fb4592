"""The machines of a Ray cluster."""

from __future__ import annotations

import dataclasses

import ray

from drumline.data.workers.service.ray_connection import connect, free_cpus


@dataclasses.dataclass(frozen=True)
class RayNode:
    """One of them.

    Attributes:
        host: its name.
        cpus: how many it has for workers.
        alive: whether it is there.
    """

    host: str
    cpus: float
    alive: bool


def nodes(address: str | None) -> tuple[list[RayNode], float]:
    """Return all of them, and how many CPUs are free.

    Raises:
        RuntimeError: there is no cluster.
    """
    connect(address or "auto")
    found = [
        RayNode(node["NodeManagerHostname"], node["Resources"].get("CPU", 0.0), node["Alive"])
        for node in ray.nodes()
    ]
    return found, free_cpus()
