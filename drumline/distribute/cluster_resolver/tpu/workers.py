"""Which machines a TPU has, and which of them this is: who says so, and what they say."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from drumline.distribute.cluster_resolver.tpu.google_cloud import (
    MetadataServer,
    UnansweredError,
    described_tpu,
)

PORT = 8482
"""Where process 0 listens if no port is said: what JAX takes on TPUs, and libtpu leaves free."""

_HOSTNAMES = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")
_NUMBERS = ("TPU_WORKER_ID", "CLOUD_TPU_TASK_ID")
_GKE_ENDPOINTS = "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"


@dataclasses.dataclass(frozen=True)
class TPUWorkers:
    """The machines of a TPU.

    Attributes:
        addresses: one for each, ``host:port``, in the order of their numbers.
        number: this machine's; None if it is not known, or this machine is none of them.
        said_by: who says so, for messages.
    """

    addresses: tuple[str, ...]
    number: int | None
    said_by: str


def of_environment() -> TPUWorkers | None:
    """Return what a TPU VM's or GKE's environment says; None if it says nothing.

    Raises:
        ValueError: if there are several slices, or a number is none of a worker.
    """
    for name in (*_HOSTNAMES, _GKE_ENDPOINTS):
        listed = os.environ.get(name, "").strip()
        if not listed:
            continue
        _require_one_slice()
        if name == _GKE_ENDPOINTS:
            addresses = with_ports(listed.split(","))
        else:
            # libtpu listens at the ports of TPU_PROCESS_ADDRESSES itself.
            addresses = with_ports([_host(each) for each in listed.split(",")])
        number = number_of_environment(len(addresses))
        if number is None and name != _GKE_ENDPOINTS:
            raise ValueError(
                f"{name} lists {len(addresses)} workers, and neither {' nor '.join(_NUMBERS)} "
                "says which of them this is. Set TPU_WORKER_ID to its number, from 0."
            )
        return TPUWorkers(addresses, number, name)
    return None


def of_metadata(server: MetadataServer) -> TPUWorkers:
    """Return what the metadata server says, on a TPU VM.

    Raises:
        UnansweredError: if it says nothing of a TPU.
        ValueError: if it gives the workers in an unknown form, or a number that is none of them.
    """
    listed = server.attribute("worker-network-endpoints")
    number = server.attribute("agent-worker-number")
    _require_one_slice(server)
    hosts = []
    for each in listed.split(","):
        parts = each.strip().split(":")
        if len(parts) not in (1, 3) or not parts[-1]:  # a host, or name:id:address
            raise ValueError(
                f"The metadata server's worker-network-endpoints has {each!r} where it should "
                f"have a host or name:id:address: {listed!r}"
            )
        hosts.append(parts[-1])
    name = "the metadata server's worker-network-endpoints and agent-worker-number"
    return TPUWorkers(with_ports(hosts), _checked(number, "agent-worker-number", len(hosts)), name)


def of_api(
    name: str, zone: str | None, project: str | None, *, credentials: Any, service: Any
) -> TPUWorkers:
    """Return what Google's TPU API says of the TPU `name`.

    Args:
        name: the TPU's.
        zone: where it is; None for the machine's own.
        project: the project it is of; None for the machine's own.
        credentials: see `described_tpu`.
        service: likewise.

    Raises:
        RuntimeError: if the TPU is not ready.
        ValueError: if it is not found.
    """
    server = MetadataServer()
    try:
        project = project or server.read("project/project-id")
        zone = zone or server.read("instance/zone").rpartition("/")[2]
        node = described_tpu(name, project, zone, credentials=credentials, service=service)
    except UnansweredError as error:
        raise ValueError(
            f"Could not look up the TPU {name!r}"
            f"{f' of project {project!r}' if project else ''}"
            f"{f' in zone {zone!r}' if zone else ''}: {error}. Check tpu=, zone= and project=; on "
            "the TPU's own machines leave all three out."
        ) from None
    if node.get("state") != "READY":
        raise RuntimeError(
            f"TPU {name!r} is not ready; its state is {node.get('state')!r}. Wait until it is "
            "READY; one that is PREEMPTED or TERMINATED must be made again."
        )
    endpoints = node.get("networkEndpoints") or [node]
    hosts = [each.get("ipAddress", "") for each in endpoints]
    if not all(hosts):
        raise ValueError(f"TPU {name!r} has machines without an address: {endpoints!r}")
    return TPUWorkers(with_ports(hosts), _own_place(server, hosts), f"Google's TPU API of {name!r}")


def configured_name() -> Mapping[str, str] | None:
    """Return name, project and zone that ``TPU_NAME`` or ``TPU_CONFIG`` give; None without them.

    Raises:
        ValueError: if ``TPU_CONFIG`` is not of its form.
    """
    name = os.environ.get("TPU_NAME", "").strip()
    if name:
        return {"name": name}
    text = os.environ.get("TPU_CONFIG", "").strip()
    if not text:
        return None
    try:
        config = json.loads(text)
        found = {"name": str(config["tpu_node_name"])}
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f'TPU_CONFIG should be as {{"tpu_node_name": "my-tpu", "zone": "us-central1-b", '
            f'"project": "my-project"}}, got {text!r}'
        ) from None
    return found | {key: str(config[key]) for key in ("zone", "project") if config.get(key)}


def with_ports(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return ``host:port`` of each; those without a port get `PORT`, or the next on the same host.

    Raises:
        ValueError: if one is empty.
    """
    seen: Counter[str] = Counter()
    found = []
    for given in addresses:
        address = given.strip().removeprefix("grpc://")
        host = _host(address)
        if not host:
            raise ValueError(f"An address of a TPU's machines is empty: {', '.join(addresses)!r}")
        if host == address:
            literal = f"[{host}]" if ":" in host and not host.startswith("[") else host
            address = f"{literal}:{PORT + seen[host]}"
        seen[host] += 1
        found.append(address)
    return tuple(found)


def _host(address: str) -> str:
    """An address without its port; an IPv6 address stands in brackets, or has no port."""
    address = address.strip()
    if address.count(":") == 1 or "]:" in address:
        return address.rpartition(":")[0]
    return address


def number_of_environment(count: int) -> int | None:
    """Return which of `count` workers this is, by ``TPU_WORKER_ID``; None if nothing says it.

    Raises:
        ValueError: if it is none of them.
    """
    for name in _NUMBERS:
        text = os.environ.get(name, "").strip()
        if text:
            return _checked(text, name, count)
    return 0 if count == 1 else None


def _checked(text: str, name: str, count: int) -> int:
    if not text.isdecimal() or int(text) >= count:
        raise ValueError(
            f"{name} should be this worker's number, from 0 to {count - 1}, got {text!r}"
        )
    return int(text)


def _own_place(server: MetadataServer, hosts: Sequence[str]) -> int | None:
    """This machine's place among `hosts`, by its address; None if it is none of them."""
    try:
        own = server.read("instance/network-interfaces/0/ip")
    except UnansweredError:
        return None
    return list(hosts).index(own) if own in hosts else None


def _require_one_slice(server: MetadataServer | None = None) -> None:
    """Refuse a job over several slices.

    Raises:
        ValueError: if it is one.
    """
    said = os.environ.get("MEGASCALE_NUM_SLICES", "")
    if not said and server is not None:
        try:
            said = server.tpu_environment().get("MEGASCALE_NUM_SLICES", "")
        except UnansweredError:
            said = ""  # the attribute is optional
    if said.strip() not in ("", "1"):
        raise ValueError(
            f"MEGASCALE_NUM_SLICES={said}: a TPUClusterResolver knows the machines of one slice, "
            "and drumline trains on one. Start the job on a single slice."
        )
