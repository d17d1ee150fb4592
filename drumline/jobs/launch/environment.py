"""The environment of each process."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from drumline.failure_record import DIRECTORY_VARIABLE
from drumline.jobs.launch.descendants import MARK
from drumline.jobs.launch.errors import LaunchError
from drumline.jobs.launch.options import Options
from drumline.jobs.launch.tasks import Addresses, Task, tf_config

TOKEN_VARIABLE = "DRUMLINE_RENDEZVOUS_TOKEN"
CLUSTER_TOKEN_VARIABLES = ("DRUMLINE_CLUSTER_TOKEN", "DRUMLINE_CLUSTER_TOKEN_FILE")
RESTART_VARIABLE = "DRUMLINE_RESTART"
"""How often the process's task was started before."""
_CACHE_VARIABLE = "DRUMLINE_COMPILATION_CACHE"
_GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"


def environments(
    options: Options, tasks: Sequence[Task], cluster: Addresses, failures: Path
) -> dict[Task, dict[str, str]]:
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
    options: Options, cluster: Addresses, environ: Mapping[str, str]
) -> dict[str, str]:
    """The secret by which the processes of a job with parameter servers know each other.

    The user's own, in the environment, stands. On several hosts it follows from the launchers'
    secret and the addresses, which are the same on all and other ones at each start of the job.

    Raises:
        LaunchError: if there are several hosts and no secret.
    """
    if not options.layout.ps or any(environ.get(name) for name in CLUSTER_TOKEN_VARIABLES):
        return {}
    if options.layout.nodes == 1:
        return {CLUSTER_TOKEN_VARIABLES[0]: secrets.token_hex(32)}
    if options.token is None:
        raise LaunchError(
            f"parameter servers on several hosts need a secret that all processes know. Set "
            f"{TOKEN_VARIABLE} on all hosts, to the same output of 'openssl rand -hex 32'."
        )
    addresses = json.dumps(cluster, sort_keys=True)
    text = f"drumline cluster token|{addresses}".encode()
    made = hmac.new(options.token.encode(), text, hashlib.sha256).hexdigest()
    return {CLUSTER_TOKEN_VARIABLES[0]: made}


def mark_for(mark: str) -> None:
    """Make every process started from here carry the job's mark."""
    os.environ[MARK] = mark


def gpu_shares(
    tasks: Sequence[Task], each: int | None, environ: Mapping[str, str]
) -> dict[Task, dict[str, str]]:
    """``CUDA_VISIBLE_DEVICES`` of each task: `each` GPUs for those that train, none for others.

    Empty where nobody asked, where there is no GPU and where ``JAX_PLATFORMS`` names none.

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


def _shared(options: Options, failures: Path) -> dict[str, str]:
    env = dict(os.environ)
    env.pop(TOKEN_VARIABLE, None)  # the launchers' secret is not the scripts' business
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
