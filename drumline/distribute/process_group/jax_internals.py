"""What this room uses of JAX that is not public API (jax 0.8 to 0.12)."""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jaxlib

from drumline._changes import in_forked_child, note
from drumline._forks import never_freed
from drumline._jax_start import require, require_parameters, unsupported

try:
    from jax._src import distributed, xla_bridge
    from jaxlib import _jax
except ImportError as error:
    raise unsupported(str(error)) from error

require(distributed, "global_state")
for _name in ("client", "service", "coordinator_address", "process_id", "num_processes"):
    require(distributed, f"global_state.{_name}")
require(_jax, "get_distributed_runtime_client", "get_distributed_runtime_service")
require(_jax, "make_gloo_tcp_collectives")
require(xla_bridge, "_backend_factories", "make_cpu_client")

_state = distributed.global_state
_SERVICE_OPTION = "recoverable: " in str(_jax.get_distributed_runtime_service.__doc__)


def connect(
    address: str, num_processes: int, process_index: int, *, heartbeat: int, initialization: int
) -> Any:
    """Join the coordination service at `address`, and host it as process 0; returns the client.

    As ``jax.distributed.initialize``, but

    - the service listens on `address` only;
    - a process may leave while others work (no barrier at exit);
    - a process that falls silent does not abort the others: they find out by `live_processes`
      ("recoverable", in the coordination service's words);
    - SIGTERM keeps its meaning: no preemption notifier is started.
    """
    with contextlib.suppress(AttributeError):  # jax 0.8 has no such switch
        jax.config.update("jax_enable_preemption_service", False)
        note(
            "JAX",
            "jax.config.jax_enable_preemption_service=False",
            "SIGTERM keeps its meaning in a process of a job",
            "no strategy over several processes",
        )
    timeouts = {"heartbeat_timeout": heartbeat, "shutdown_timeout": 0}
    service_option = {"recoverable": True} if _SERVICE_OPTION else {}
    client_option = {} if _SERVICE_OPTION else {"recoverable": True}
    if process_index == 0:
        _state.service = _jax.get_distributed_runtime_service(
            address, num_processes, **timeouts, **service_option
        )
    _state.client = _jax.get_distributed_runtime_client(
        address,
        process_index,
        init_timeout=initialization,
        use_compression=True,
        **timeouts,
        **client_option,
    )
    _state.coordinator_address = address
    _state.process_id = process_index
    _state.num_processes = num_processes
    try:
        _state.client.connect()
    except BaseException:
        forget()
        raise
    return _state.client


def is_connected() -> bool:
    """Whether this process is part of a group, ours or one of ``jax.distributed``."""
    return _state.client is not None


def forget() -> None:
    """Be a process of its own again, as before `connect`."""
    _state.client = _state.service = _state.coordinator_address = None
    _state.process_id, _state.num_processes = 0, 1


def _forget_in_child() -> None:
    """Let a forked child leave the group without a word: freed there, the client would speak on its
    parent's connection, of which the service then thinks that it is broken, and ends the job."""
    never_freed(_state.client)
    never_freed(_state.service)
    forget()


in_forked_child(_forget_in_child, "a child leaves its parent's job without a word")


def live_processes(client: Any, indices: Sequence[int]) -> set[int]:
    """Which of the processes are alive; waits until all that are alive have asked."""
    return set(client.get_live_nodes(list(indices)))


def listen_on(host: str) -> None:
    """Let the CPU's collectives listen at `host`, and not at what the host's name resolves to."""

    def cpu_client() -> Any:
        collectives = _jax.make_gloo_tcp_collectives(
            distributed_client=_state.client, hostname=host
        )
        return xla_bridge.make_cpu_client(collectives=collectives)

    registration = xla_bridge._backend_factories["cpu"]
    xla_bridge._backend_factories["cpu"] = dataclasses.replace(registration, factory=cpu_client)


def xla_knows_flag(flag: str) -> bool:
    """Whether XLA has the flag; one that it does not know ends the process."""
    wanted = flag.removeprefix("--").encode()
    for library in Path(jaxlib.__file__).parent.glob("*.so"):
        with (
            library.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
        ):
            if text.find(wanted) >= 0:
                return True
    return False


require_parameters(xla_bridge.make_cpu_client, "collectives")
