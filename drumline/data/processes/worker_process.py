"""A worker process as the process that started it sees it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import numpy as np

from drumline._forks import never_freed, tell_in_child
from drumline.data.elements.block import Block
from drumline.data.processes.channel import Channel
from drumline.data.processes.shared_buffer import SharedBuffer

# It leaves JAX and Keras to functions that need them.
_PROGRAM = "from drumline_command.map_worker import main; main()"


class WorkerDied(RuntimeError):
    """A worker process ended in the middle of its work.

    Attributes:
        row: how many elements of the block it had done.
    """

    def __init__(self, how: str, row: int):
        super().__init__(how)
        self.row = row


class WorkerProcess:
    """Starts a process that calls a function, sent as ``payload``, on one block at a time.

    It is a fresh interpreter, never a fork: JAX's threads would not survive that. It is in a
    process group of its own, so that an interrupt from the terminal reaches only its parent, and
    the kernel ends it when the parent ends.

    Raises:
        RuntimeError: the function could not be loaded there.
    """

    def __init__(self, payload: bytes):
        self._stopping, self._stopped = threading.Lock(), False
        ours, theirs = socket.socketpair()
        read, self._life = os.pipe()
        self._requests, self._replies = SharedBuffer(), SharedBuffer()
        fds = (theirs.fileno(), read, self._requests.fd, self._replies.fd)
        paths = [path or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *map(str, fds)],
            stdin=subprocess.DEVNULL,
            pass_fds=fds,
            process_group=0,
            # A function that uses JAX must not take the accelerators from this process.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"},
        )
        theirs.close()
        os.close(read)
        self._channel = Channel(ours)
        tell_in_child(self)
        self._load(payload)

    def forked(self) -> None:
        """Lets a child not hold on to the process, which ends when this one does."""
        never_freed(self._process)  # which would warn that it still runs
        if not self._stopped:
            os.close(self._life)
            self._channel.close()

    def _load(self, payload: bytes) -> None:
        try:
            self._channel.send(payload)
            failure = self._channel.receive()
        except (EOFError, OSError):
            failure = f"it ended {self._ending()}"
        if failure is not None:
            self.stop()
            raise RuntimeError(
                f"a worker process could not load the function: {failure}. What it uses must be "
                "importable there, or be defined in the program itself."
            )

    def run(self, block: Block, start: int) -> tuple[Block, float]:
        """The function's results for ``block``, whose first element has the index ``start``.

        Returns:
            The block, and the processor seconds that it took.

        Raises:
            WorkerDied: the process ended before it was done.
        """
        placed, others = self._requests.write(block.columns)
        dtypes = [getattr(column, "dtype", None) for column in block.columns]
        # What was done must not be taken from an earlier block if it dies before it begins.
        self._replies.progress = 0
        try:
            self._channel.send((placed, others, dtypes, block.n, start))
            placed, others, dtypes, n, error, cpu = self._channel.receive()
        except (EOFError, OSError):
            done = max(0, self._replies.progress - 1)
            raise WorkerDied(f"ended {self._ending()}", done) from None
        columns: list[np.ndarray] = self._replies.read(placed, others, dtypes)
        return Block(columns, n, error), cpu

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def _ending(self) -> str:
        code = self._process.wait()
        if code < 0:
            why = ", as the system does where memory is short" if -code == signal.SIGKILL else ""
            return f"by signal {-code} ({signal.Signals(-code).name}{why})"
        return f"with exit code {code}"

    def stop(self) -> None:
        """Ends the process at once and waits for it; may be called again."""
        self._process.kill()
        self._process.wait()
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
        os.close(self._life)
        self._channel.close()
        self._requests.close()
        self._replies.close()
