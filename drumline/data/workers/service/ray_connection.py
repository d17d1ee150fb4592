"""This process's connection to a Ray cluster."""

from __future__ import annotations

import logging
import warnings

import ray

from drumline._forks import ForkSafeLock

_lock = ForkSafeLock()


def connect(address: str | None) -> None:
    """Connect to the cluster at an address, unless the process is connected to it already.

    Args:
        address: of a node, or ``"auto"``; ``None`` for that of the environment, or one on this
            machine, which is started if there is none.

    Raises:
        RuntimeError: it cannot be reached, or the process is connected to another one.
    """
    with _lock:
        if ray.is_initialized():
            _check(address)
            return
        with warnings.catch_warnings():
            # Ray forks to start a program at once, which JAX's threads survive.
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            try:
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError) as error:
                where = address if address not in (None, "auto") else "this machine"
                raise RuntimeError(_reason(where, error)) from error


def _reason(where: str, error: Exception) -> str:
    # Ray says why only in the text of what the error was raised from.
    if "AuthenticationError" in str(error.__cause__):
        return (
            f"the Ray cluster at {where} asks for a token: set RAY_AUTH_MODE=token, and copy "
            "~/.ray/auth_token of the machine on which it was started, or set RAY_AUTH_TOKEN"
        )
    return f"there is no Ray cluster at {where}; `drumline data-service start` starts one ({error})"


def _check(address: str | None) -> None:
    known = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", known):
        raise RuntimeError(
            f"the process is connected to the Ray cluster at {known} already, not to the one at "
            f"{address}; a process can have one"
        )


def free_cpus() -> float:
    """Return how many CPUs of the cluster are free."""
    return float(ray.available_resources().get("CPU", 0))
