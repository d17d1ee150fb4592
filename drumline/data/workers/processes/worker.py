"""The program of a worker process: calls a function on blocks that another process sends."""

from __future__ import annotations

import fcntl
import functools
import operator
import os
import pickle
import select
import socket
import sys
import time
from typing import Any

import numpy as np

from drumline.data.elements.block import Block
from drumline.data.functions.python_function import PythonFunction
from drumline.data.workers.processes.worker_process import ObjectChannel, SharedBuffer, sendable


class _Noting(PythonFunction):
    """Record in shared memory, which outlives the process, how many elements were begun."""

    progress: SharedBuffer

    def _outcome(self, element: Any) -> list[np.ndarray] | Exception:
        self.progress.progress += 1
        outcome = super()._outcome(element)
        return sendable(outcome) if isinstance(outcome, Exception) else outcome


def main() -> None:
    """Serve until the other side closes the connection or ends."""
    connection, life, requests, replies = (int(argument) for argument in sys.argv[1:5])
    end_with_parent(life)
    channel = ObjectChannel(socket.socket(fileno=connection))
    try:
        _serve(channel, SharedBuffer(requests), SharedBuffer(replies))
    except EOFError:
        os._exit(0)


def end_with_parent(life: int) -> None:
    """Make the kernel end this process when the other end of the pipe is closed.

    A thread that waits for it could be kept from running by a function that holds Python's lock.
    """
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(life, select.POLLIN)
    if poll.poll(0):
        os._exit(1)


def _serve(channel: ObjectChannel, requests: SharedBuffer, replies: SharedBuffer) -> None:
    for setter, value in channel.receive():
        setter(value)
    payload = channel.receive()
    try:
        arguments = pickle.loads(payload)
        function = _Noting(*arguments)
    except Exception as error:
        channel.send(f"{type(error).__name__}: {error}")
        return
    function.progress = replies
    channel.send(None)
    while True:
        placed, others, dtypes, count, start = channel.receive()
        replies.progress = 0
        columns = requests.read(placed, others, dtypes)
        cpu = time.process_time()
        block = function(Block(columns, count), functools.partial(operator.add, start))
        spent = time.process_time() - cpu
        placed, others = replies.write(block.columns)
        dtypes = [getattr(column, "dtype", None) for column in block.columns]
        channel.send((placed, others, dtypes, block.n, block.error, spent))
