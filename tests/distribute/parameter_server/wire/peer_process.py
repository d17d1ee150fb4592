"""A process with a server, or with a client that sends without end; started without JAX."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
import types
from pathlib import Path


def import_without_jax() -> None:
    """The packages above the transport import JAX and Keras, which take seconds."""
    found = importlib.util.find_spec("drumline")  # the checkout's, or the one that is installed
    assert found is not None and found.origin is not None
    packages = Path(found.origin).parents[1]
    above = ("drumline", "drumline.data", "drumline.data.execute", "drumline.distribute")
    for name in (*above, "drumline.distribute.parameter_server"):
        package = types.ModuleType(name)
        package.__path__ = [str(packages / name.replace(".", "/"))]
        sys.modules[name] = package


def serve(address: str, token: str, heartbeat_seconds: str = "1.5") -> None:
    import numpy as np

    from drumline.distribute.parameter_server.wire import Message, TransportServer

    kept: list[object] = []

    def keep(message: Message) -> Message:
        kept.append(message.arrays)
        return Message({"pid": os.getpid()})

    def left(lane: int, reason: str) -> None:
        print(f"left: {reason}", flush=True)

    handlers = {
        "echo": lambda message: Message(message.header, message.arrays),
        "keep": keep,
        "hang": lambda message: (time.sleep(60), Message({}))[1],
        "give": lambda message: Message({}, [np.ones(message.header["n"], np.uint8)]),
    }
    server = TransportServer(
        *(address, handlers),
        token=token,
        heartbeat_seconds=float(heartbeat_seconds),
        client_left=left,
    )
    server.start()
    print(server.address, flush=True)
    sys.stdin.read()
    server.close(0.3)


def flood(address: str, token: str) -> None:
    """Sends until it is killed."""
    import numpy as np

    from drumline.distribute.parameter_server.wire import Connection

    connection = Connection(address, token=token)
    print("connected", flush=True)
    threading.Thread(target=sys.stdin.read, daemon=True).start()
    while True:
        connection.submit("note", {}, [np.ones(10_000_000, np.uint8)])


def busy(address: str, token: str) -> None:
    """Keeps a handler busy, and sends what fills the connection."""
    import numpy as np

    from drumline.distribute.parameter_server.wire import Connection

    connection = Connection(address, token=token)
    connection.submit("hang", {})
    print("connected", flush=True)
    while True:
        connection.submit("echo", {}, [np.ones(10_000_000, np.uint8)])


def fork(address: str, token: str) -> None:
    """Has a connection, and a child that does nothing; says which one."""
    from drumline.distribute.parameter_server.wire import Connection

    connection = Connection(address, token=token)
    child = os.fork()
    if child == 0:
        time.sleep(600)
    connection.call("echo", {})
    print(child, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    import_without_jax()
    {"serve": serve, "flood": flood, "busy": busy, "fork": fork}[sys.argv[1]](*sys.argv[2:])
