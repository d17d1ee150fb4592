"""A process of ``tf.data.service``: its dispatcher, or a worker of it.

    python -m benchmarks.workloads.tf_data_servers [DISPATCHER]

It prints its address and ends when its standard input does, so with the process that started it.
"""

from __future__ import annotations

import subprocess
import sys
import weakref
from typing import Any


def start(owner: Any, dispatcher: str | None = None) -> str:
    """Starts a dispatcher, or a worker of ``dispatcher``, which ends with ``owner``.

    Returns:
        The dispatcher's address, host:port.
    """
    command = [sys.executable, "-m", "benchmarks.workloads.tf_data_servers"]
    process = subprocess.Popen(
        command + ([] if dispatcher is None else [dispatcher]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    weakref.finalize(owner, process.communicate)
    assert process.stdout is not None
    if address := process.stdout.readline().strip():
        return address
    raise RuntimeError(f"a server of tf.data.service ended with code {process.wait()}")


def _serve(dispatcher: str | None) -> None:
    import tensorflow as tf

    service = tf.data.experimental.service
    server: Any
    if dispatcher is None:
        server = service.DispatchServer()
        dispatcher = server.target.partition("://")[2]
    else:
        server = service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher))
    print(dispatcher, flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    _serve(sys.argv[1] if len(sys.argv) > 1 else None)
