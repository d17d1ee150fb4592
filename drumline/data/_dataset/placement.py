"""Where work is done: devices that elements are copied to, and services that run operations."""

from __future__ import annotations

import re

from drumline._lazy import jax
from drumline.data.plan.node import Node
from drumline.data.workers.remote.cluster import Service, ShardingPolicy, policy_of
from drumline.data.workers.remote.nodes import Distribute
from drumline.data.workers.service.sharing import resolved

_NAME = re.compile(r"/?(?:device:)?([a-z]+)(?::(\d+))?", re.IGNORECASE)


def device_of(
    device: str | jax.Device | jax.sharding.Sharding,
) -> jax.Device | jax.sharding.Sharding:
    """The JAX device or sharding meant.

    Raises:
        TypeError: it is neither, and no name.
        ValueError: there is no device of that name.
    """
    if isinstance(device, jax.Device | jax.sharding.Sharding):
        return device
    if not isinstance(device, str):
        raise TypeError(
            f"prefetch_to_device takes a jax.Device, a Sharding or a name, not {device!r:.60}"
        )
    match = _NAME.fullmatch(device)
    try:
        found = jax.local_devices(backend=match[1].lower()) if match else []
    except RuntimeError:
        found = []
    number = int(match[2] or 0) if match else 0
    if number >= len(found):
        known = ", ".join(f"{d.platform}:{d.id}" for d in jax.local_devices())
        raise ValueError(f"prefetch_to_device: there is no device {device!r}; there are {known}")
    return found[number]


def distribution(
    plan: Node, processing_mode: str | ShardingPolicy, service: Service, workers: int | None
) -> Distribute:
    """The plan on the workers of a service.

    Raises:
        ValueError: the mode is none, lacks ``workers``, or does not suit the plan.
    """
    policy = policy_of(processing_mode)
    if policy is ShardingPolicy.DYNAMIC:
        return Distribute((plan,), service, policy, 0)
    if workers is None:
        raise ValueError(
            f"distribute: {policy.name} needs workers=, since the elements depend on their number"
        )
    return Distribute((plan,), service, resolved(plan, policy, workers), workers)
