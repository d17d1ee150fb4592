"""What a process of a cluster does in the tests: steps with its peers, then a fault."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from drumline.distribute import process_group
from drumline.distribute.cluster_resolver import TFConfigClusterResolver

Compute = Callable[[float], np.ndarray]
Fault = Callable[[bool, Compute, float], None]

LISTENING = "0A"


def say(**facts: object) -> None:
    """Write facts into this member's log, for the test."""
    print(json.dumps({"facts": facts, "time": time.time()}), flush=True)


def join(**timeouts: int) -> process_group.ProcessGroup:
    """Become part of the cluster that ``TF_CONFIG`` describes."""
    return process_group.start(
        TFConfigClusterResolver(), initialization_timeout_seconds=60, **timeouts
    )


def sum_of_all() -> Compute:
    """A function that adds one number per device, over all devices of all processes."""
    mesh = Mesh(np.array(jax.devices()), ("replica",))
    sharding = NamedSharding(mesh, PartitionSpec("replica"))
    add = jax.jit(
        jax.shard_map(
            lambda x: lax.psum(x, "replica"),
            mesh=mesh,
            in_specs=PartitionSpec("replica"),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
    )

    def compute(value: float) -> np.ndarray:
        own = np.full((jax.local_device_count(), 4), value, np.float32)
        total = add(jax.make_array_from_process_local_data(sharding, own))
        return np.asarray(total.addressable_data(0))

    return compute


def together(index: int, fault: str, seconds: float = 0, **timeouts: int) -> None:
    """Take three steps with the others; then process `index` does what `fault` says."""
    group = join(**timeouts)
    compute = sum_of_all()
    for step in range(3):
        with process_group.watchdog(step):
            compute(float(step))
    say(joined=group.tasks)
    mine = group.process_index == index
    FAULTS[fault](mine, compute, seconds)


def late(name: str, **arguments: Any) -> None:
    """As `together`, but process 1 does not come before the file `name` is there."""
    while json.loads(os.environ["TF_CONFIG"])["task"]["index"] and not os.path.exists(name):
        time.sleep(0.02)
    together(**arguments)


def train() -> None:
    """Steps without a fault; says all that a test wants to know of them."""
    counts = {"cache_hits": 0, "cache_misses": 0}

    def count(event: str, **_: object) -> None:
        name = event.rpartition("/")[2]
        if name in counts:
            counts[name] += 1

    jax.monitoring.register_event_listener(count)
    group = join()
    assert join() == group
    compute = sum_of_all()
    with process_group.watchdog(0, timeout_seconds=60):
        total = compute(group.process_index + 1.0)
    say(
        tasks=group.tasks,
        index=group.process_index,
        chief=group.is_chief,
        devices=[jax.local_device_count(), jax.device_count()],
        total=total[0].tolist(),
        listening=listening_addresses(),
        sigterm_ends=not _caught(signal.SIGTERM),
        **counts,
    )
    try:
        os.environ["TF_CONFIG"] = os.environ["TF_CONFIG"].replace("127.0.0.3", "127.0.0.4")
        join()
    except RuntimeError as error:
        say(other_cluster=str(error))


def listening_addresses() -> list[str]:
    """The addresses on which this process listens, from ``/proc``."""
    links = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if _is_link(entry)]
    own = {link[8:-1] for link in links if link.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[column] for column in (1, 3, 9))
            if state == LISTENING and inode in own:
                found.append(_ip(local.partition(":")[0]))
    return sorted(found)


def _caught(number: int) -> bool:
    status = Path("/proc/self/status").read_text()
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    return bool((int(masks["SigCgt"], 16) | int(masks["SigIgn"], 16)) >> (number - 1) & 1)


def _ip(hexadecimal: str) -> str:
    words = [hexadecimal[start : start + 8] for start in range(0, len(hexadecimal), 8)]
    address = ipaddress.ip_address(b"".join(bytes.fromhex(word)[::-1] for word in words))
    return str(getattr(address, "ipv4_mapped", None) or address)


def _is_link(entry: os.DirEntry[str]) -> bool:
    return os.path.islink(entry.path)


def alone(seconds: int) -> None:
    """Wait for a peer that does not come."""
    process_group.start(TFConfigClusterResolver(), initialization_timeout_seconds=seconds)


def raise_error(mine: bool, compute: Compute, seconds: float) -> None:
    if mine:
        say(fault=time.time())
        raise ValueError("this rank's own\nmistake")
    keep_computing(compute)


def raise_while_others_idle(mine: bool, compute: Compute, seconds: float) -> None:
    if mine:
        say(fault=time.time())
        raise ValueError("this rank's own\nmistake")
    time.sleep(120)


def send(number: int) -> Fault:
    def fault(mine: bool, compute: Compute, seconds: float) -> None:
        if mine:
            say(fault=time.time())
            os.kill(os.getpid(), number)
        keep_computing(compute)

    return fault


def kill_while_others_idle(mine: bool, compute: Compute, seconds: float) -> None:
    if mine:
        say(fault=time.time())
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(120)


def hang(mine: bool, compute: Compute, seconds: float) -> None:
    for step in range(3, 6):
        if mine and step == 4:
            say(fault=time.time())
            stand_still()
        with process_group.watchdog(step, timeout_seconds=seconds):
            compute(1.0)


def stand_still() -> None:
    time.sleep(120)


def be_late(mine: bool, compute: Compute, seconds: float) -> None:
    say(fault=time.time())
    if mine:
        time.sleep(seconds)
    keep_computing(compute)


def leave(mine: bool, compute: Compute, seconds: float) -> None:
    if mine:
        say(fault=time.time())
        sys.exit(0)
    keep_computing(compute)


def leave_and_let_work(mine: bool, compute: Compute, seconds: float) -> None:
    say(fault=time.time())
    if not mine:
        time.sleep(seconds)
    say(done=time.time())


def keep_computing(compute: Compute) -> None:
    for step in range(3, 100_000):
        with process_group.watchdog(step):
            compute(1.0)
        time.sleep(0.01)


FAULTS = {
    "raise": raise_error,
    "raise while others idle": raise_while_others_idle,
    "kill while others idle": kill_while_others_idle,
    "kill": send(signal.SIGKILL),
    "stop": send(signal.SIGSTOP),
    "terminate": send(signal.SIGTERM),
    "hang": hang,
    "leave": leave,
    "leave and let work": leave_and_let_work,
    "be late": be_late,
    "none": lambda mine, compute, seconds: keep_computing(compute),
}
