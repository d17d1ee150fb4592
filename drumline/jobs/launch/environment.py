"""The environment of each process, and the ports that no other job on this host is given."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import re
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from drumline import _addresses
from drumline._authentication import FILE_VARIABLE, TOKEN_VARIABLE, token_digest
from drumline.failure_record import DIRECTORY_VARIABLE
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.options import LaunchOptions
from drumline.jobs.launch.process import MARK
from drumline.jobs.launch.tasks import Addresses, LaunchedTask, tf_config

LAUNCHERS_TOKEN_VARIABLE = "DRUMLINE_RENDEZVOUS_TOKEN"
RESTART_VARIABLE = "DRUMLINE_RESTART"
"""How often the process's task was started before."""
_CACHE_VARIABLE = "DRUMLINE_COMPILATION_CACHE"
_GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"


def environments(
    options: LaunchOptions, tasks: Sequence[LaunchedTask], cluster: Addresses, failures: Path
) -> dict[LaunchedTask, dict[str, str]]:
    """The environment of each of this host's `tasks`, without `RESTART_VARIABLE`.

    Raises:
        LaunchError: if there are fewer GPUs than ``--devices-per-worker`` asks for, or nothing to
            make a cluster token of.
    """
    shared = _shared(options, failures) | cluster_token(options, cluster, os.environ)
    shares = gpu_shares(tasks, options.devices_per_worker, os.environ)
    return {
        task: {**shared, "TF_CONFIG": tf_config(cluster, task), **shares.get(task, {})}
        for task in tasks
    }


def cluster_token(
    options: LaunchOptions, cluster: Addresses, environ: Mapping[str, str]
) -> dict[str, str]:
    """The secret by which the processes of a job know each other.

    The user's own, in the environment, stands. On several hosts it follows from the launchers'
    secret and the addresses, which are the same on all and other ones at each start of the job.
    Without that secret there is none: process 0 warns of it.

    Raises:
        LaunchError: if there are parameter servers on several hosts, and no secret.
    """
    if any(environ.get(name) for name in (TOKEN_VARIABLE, FILE_VARIABLE)):
        return {}
    if options.layout.nodes == 1:
        return {TOKEN_VARIABLE: secrets.token_hex(32)}
    if options.token is None:
        if not options.layout.ps:
            return {}
        raise LaunchError(
            f"parameter servers on several hosts need a secret that all processes know. Set "
            f"{LAUNCHERS_TOKEN_VARIABLE} on all hosts, to the same output of 'openssl rand -hex "
            f"32'."
        )
    addresses = json.dumps(cluster, sort_keys=True)
    text = f"drumline cluster token|{addresses}".encode()
    return {TOKEN_VARIABLE: token_digest(options.token, text).hex()}


def mark_for(mark: str) -> None:
    """Make every process started from here carry the job's mark."""
    os.environ[MARK] = mark


def gpu_shares(
    tasks: Sequence[LaunchedTask], each: int | None, environ: Mapping[str, str]
) -> dict[LaunchedTask, dict[str, str]]:
    """``CUDA_VISIBLE_DEVICES`` of each task: `each` GPUs for those that train, none for others.

    Empty where the user did not ask, where there is no GPU and where ``JAX_PLATFORMS`` names none.

    Raises:
        LaunchError: if there are too few GPUs.
    """
    gpus = visible_gpus(environ)
    if each is None or not gpus:
        return {}
    training = [task for task in tasks if task.trains]
    if each * len(training) > len(gpus):
        raise LaunchError(
            f"--devices-per-worker {each} for {len(training)} processes needs "
            f"{each * len(training)} GPUs, and {len(gpus)} are visible ({','.join(gpus)}). Start "
            f"fewer workers, or set JAX_PLATFORMS=cpu to train on CPU devices."
        )
    shares = {task: gpus[i * each : (i + 1) * each] for i, task in enumerate(training)}
    return {task: {_GPUS_VARIABLE: ",".join(shares.get(task, []))} for task in tasks}


def visible_gpus(environ: Mapping[str, str]) -> list[str]:
    """The GPUs that processes may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    platforms = environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & set(platforms.split(",")):
        return []
    if _GPUS_VARIABLE in environ:
        return [
            name for name in environ[_GPUS_VARIABLE].split(",") if name.strip() not in ("", "-1")
        ]
    devices = os.listdir("/dev") if os.path.isdir("/dev") else []
    present = [found[1] for name in devices if (found := re.fullmatch(r"nvidia(\d+)", name))]
    return [str(number) for number in range(len(present))]


def _shared(options: LaunchOptions, failures: Path) -> dict[str, str]:
    env = dict(os.environ)
    env.pop(LAUNCHERS_TOKEN_VARIABLE, None)  # the launchers' secret is not the scripts' business
    env.setdefault("PYTHONUNBUFFERED", "1")  # else the log lags behind, and a crash loses its end
    env.setdefault("PYTHONFAULTHANDLER", "1")
    env[DIRECTORY_VARIABLE] = str(failures)
    if options.devices_per_worker is not None:
        env["DRUMLINE_CPU_DEVICES"] = str(options.devices_per_worker)
    if options.compilation_cache is None:
        env.pop(_CACHE_VARIABLE, None)
    else:
        env[_CACHE_VARIABLE] = options.compilation_cache
    return env


_LOWEST, _HIGHEST = 10_000, 65_535
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Ports:
    """Free ports at one address of this host, kept from other launchers until `close`.

    They lie outside the range that the system gives to outgoing connections, so that none of these
    takes one before its process listens. Each is claimed by an abstract Unix socket: the kernel
    keeps those unique and frees them when the launcher ends, however it ends.

    Args:
        host: the address the processes listen at.
        count: how many.

    Raises:
        LaunchError: if `host` is no address of this machine, or too few ports are free.
    """

    def __init__(self, host: str, count: int) -> None:
        self._claims: list[socket.socket] = []
        self.addresses: list[str] = []
        family, address = _resolved(host)
        shown = f"[{host}]" if ":" in host else host
        for port in _candidates():
            if len(self.addresses) == count:
                break
            claim = _claim(address, port)
            if claim is None:
                continue
            if _is_free(family, address, port):
                self._claims.append(claim)
                self.addresses.append(f"{shown}:{port}")
            else:
                claim.close()
        if len(self.addresses) < count:
            self.close()
            raise LaunchError(f"{count} free ports are needed at {host}, and there are too few.")

    def close(self) -> None:
        """Give the ports back."""
        for claim in self._claims:
            claim.close()
        self._claims.clear()


def resolve(host: str, port: int) -> tuple[int, tuple[str, int]]:
    """The address family and numeric address of `host`.

    Raises:
        LaunchError: if the name is unknown, or not resolved in time.
    """
    try:
        found = _addresses.resolve(host, port)[0]
    except (OSError, UnicodeError) as error:
        raise LaunchError(
            f"the address {host!r} is unknown: {error}. Give an IP address or a name that "
            f"resolves here."
        ) from None
    return found.family, (str(found.place[0]), int(found.place[1]))


def _resolved(host: str) -> tuple[int, str]:
    family, (address, _) = resolve(host, 0)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            raise LaunchError(
                f"processes cannot listen at {host!r}: {error.strerror}. --host takes an address "
                f"of this machine ('ip address' lists them)."
            ) from None
    return family, address


def _candidates() -> Iterator[int]:
    ports = set(range(_LOWEST, _HIGHEST + 1))
    with contextlib.suppress(OSError, ValueError):  # not there: all ports may be tried
        low, high = map(int, _EPHEMERAL.read_text().split())
        outside = ports - set(range(low, high + 1))
        ports = outside if len(outside) > 1000 else ports
    yield from random.SystemRandom().sample(sorted(ports), len(ports))


def _claim(address: str, port: int) -> socket.socket | None:
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0drumline-launch-{address}-{port}")
    except OSError as error:
        claim.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return claim


def _is_free(family: int, address: str, port: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
