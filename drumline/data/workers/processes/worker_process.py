"""A worker process as its parent sees it: messages, shared memory, errors that can be sent.

The processes inherit the memory: see `drumline._shared_memory`.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline import _function_pickles
from drumline._forks import never_freed, tell_in_child
from drumline._lost_process import exited
from drumline._memory import padded
from drumline._settings import choices
from drumline._shared_memory import create_memory, map_memory
from drumline.data.elements.block import Block

_LENGTH = struct.Struct("<Q")


class ObjectChannel:
    """Sends and receives Python objects over a connected socket."""

    def __init__(self, connection: socket.socket):
        self._connection = connection

    def send(self, message: Any) -> None:
        """Send an object.

        Raises:
            OSError: the other side is gone.
        """
        body = _function_pickles.dumps(message)
        self._connection.sendall(_LENGTH.pack(len(body)) + body)

    def receive(self) -> Any:
        """Return the next object.

        Raises:
            EOFError: the other side is gone.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self._connection.recv(min(count - len(parts), 1 << 20))
            except ConnectionResetError:
                part = b""
            if not part:
                raise EOFError("the other process is gone")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


_HEADER = 64
_SMALLEST = 1 << 16

Placed = tuple[str, tuple[int, ...], int]
"""An array in the memory: dtype, shape and offset in bytes."""


class SharedBuffer:
    """One process writes arrays into it, the other reads them; they take turns.

    Args:
        fd: of the memory; a new one is made by default.
    """

    def __init__(self, fd: int | None = None):
        self.fd = create_memory(_SMALLEST, can_grow=True) if fd is None else fd
        self._memory = self._mapped()

    def _mapped(self) -> np.ndarray:
        # The array keeps the mapping for as long as anything refers to it.
        return np.frombuffer(map_memory(self.fd), np.uint8)

    @property
    def progress(self) -> int:
        """A number that either process may set at any time."""
        return int(self._memory[:8].view(np.int64)[0])

    @progress.setter
    def progress(self, value: int) -> None:
        self._memory[:8].view(np.int64)[0] = value

    def write(self, columns: Sequence[Any]) -> tuple[list[Placed | None], list[Any]]:
        """Copy numeric arrays in. Return where they are, ``None`` for the others, and those."""
        offsets, end = [], _HEADER
        for column in columns:
            offsets.append(end)
            if _plain(column):
                end += padded(column.nbytes)
        if end > len(self._memory):
            os.ftruncate(self.fd, max(end, 2 * len(self._memory)))
            self._memory = self._mapped()
        placed: list[Placed | None] = []
        others = []
        for column, offset in zip(columns, offsets, strict=True):
            if _plain(column):
                place = (column.dtype.str, column.shape, offset)
                self._view(place, column.dtype)[...] = column
                placed.append(place)
            else:
                placed.append(None)
                others.append(column)
        return placed, others

    def read(
        self, placed: Sequence[Placed | None], others: Sequence[Any], dtypes: Sequence[np.dtype]
    ) -> list[Any]:
        """Copy out what the other process wrote; ``dtypes`` are its arrays'."""
        rest = iter(others)
        columns = []
        for place, dtype in zip(placed, dtypes, strict=True):
            if place is None:
                columns.append(next(rest))
            else:
                columns.append(self._view(place, dtype).copy())
        return columns

    def _view(self, place: Placed, dtype: np.dtype) -> np.ndarray:
        _, shape, offset = place
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if offset + nbytes > len(self._memory):
            self._memory = self._mapped()
        return self._memory[offset : offset + nbytes].view(dtype).reshape(shape)

    def close(self) -> None:
        """Close the descriptor; the memory is freed once no mapping is left."""
        os.close(self.fd)


def _plain(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype != object


# It leaves JAX and Keras to functions that need them.
_PROGRAM = "from drumline_command.map_worker import main; main()"


class WorkerDied(RuntimeError):
    """A worker process ended in the middle of its work.

    Attributes:
        row: how many elements of the block it had done.
        pid: its number.
    """

    def __init__(self, how: str, row: int, pid: int):
        super().__init__(how)
        self.row = row
        self.pid = pid


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
        self._channel = ObjectChannel(ours)
        tell_in_child(self)
        self._load(payload)

    def forked(self) -> None:
        """Close the pipe in a forked child, as the process ends with the parent."""
        never_freed(self._process)  # which would warn that it still runs
        if not self._stopped:
            os.close(self._life)
            self._channel.close()

    def _load(self, payload: bytes) -> None:
        try:
            self._channel.send(choices())
            self._channel.send(payload)
            failure = self._channel.receive()
        except (EOFError, OSError):
            failure = f"it {self._ending()}"
        if failure is not None:
            self.stop()
            raise RuntimeError(
                f"a worker process could not load the function: {failure}. What it uses must be "
                "importable there, or be defined in the program itself."
            )

    def run(self, block: Block, start: int) -> tuple[Block, float]:
        """Return the function's results for ``block``, whose first element has the index ``start``.

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
            raise WorkerDied(self._ending(), done, self.pid) from None
        columns: list[np.ndarray] = self._replies.read(placed, others, dtypes)
        return Block(columns, n, error), cpu

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def _ending(self) -> str:
        return exited(self._process.wait())

    def stop(self) -> None:
        """Stop the process at once and wait for it; may be called again."""
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


def sendable(error: Exception) -> Exception:
    """Return the error with its traceback as a note, or a picklable equivalent."""
    text = "".join(traceback.format_exception(error))
    try:
        sent = pickle.loads(_function_pickles.dumps(error))
        same = type(sent) is type(error) and str(sent) == str(error)
    except Exception:
        same = False
    if not same:
        error = _alike(error)
    error.__cause__ = error.__context__ = None
    error.add_note(f"drumline: in a worker process:\n{text}")
    return error.with_traceback(None)


def _alike(error: Exception) -> Exception:
    made = RuntimeError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    if hasattr(error, "element_index"):
        made.element_index = error.element_index  # type: ignore[attr-defined]
    return made
