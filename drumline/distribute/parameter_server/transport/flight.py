"""Arrow Flight's streams as streams of frames. Only this file and the server's know pyarrow."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl

from drumline._forks import keep_in_child
from drumline.distribute.parameter_server.transport.codec import Encoded
from drumline.distribute.parameter_server.transport.errors import (
    AuthenticationError,
    PeerUnavailableError,
)
from drumline.distribute.parameter_server.transport.tls import ClientTls

SCHEMA = pa.schema([("bytes", pa.large_binary())])
STREAM_ERRORS = (pa.ArrowException, OSError, EOFError)
"""What pyarrow raises when a stream breaks: FlightError, ArrowInvalid, ArrowCancelled, ..."""

KEY_HEADER = "x-drumline-key"

_CLIENT_OPTIONS = [
    ("grpc.http2.max_frame_size", 16777215),
    ("grpc.experimental.tcp_min_read_chunk_size", 1 << 20),
    ("grpc.experimental.tcp_max_read_chunk_size", 1 << 24),
    ("grpc.use_local_subchannel_pool", 1),
]


def connect(address: str, tls: ClientTls | None) -> fl.FlightClient:
    """A client of the server at `address`; nothing is sent yet."""
    client = _client(address, tls)
    keep_in_child(client)  # gRPC's threads, which it waits for as it is freed, are not there
    return client


def _client(address: str, tls: ClientTls | None) -> fl.FlightClient:
    if tls is None:
        return fl.FlightClient(f"grpc://{address}", generic_options=_CLIENT_OPTIONS)
    keys: dict[str, Any] = {"tls_root_certs": tls.authorities.read_bytes()}
    if tls.certificate is not None and tls.key is not None:
        keys["cert_chain"] = tls.certificate.read_bytes()
        keys["private_key"] = tls.key.read_bytes()
    if tls.server_name is not None:
        keys["override_hostname"] = tls.server_name
    return fl.FlightClient(f"grpc+tls://{address}", generic_options=_CLIENT_OPTIONS, **keys)


class FrameStream:
    """One exchange stream, as its client or its server sees it.

    Writing and reading may be done by two threads at once; writers take `lock`.
    """

    def __init__(self, writer: Any, reader: Any) -> None:
        self.lock = threading.Lock()
        self._writer = writer
        self._reader = reader
        keep_in_child(self)
        writer.begin(SCHEMA)

    @classmethod
    def open(cls, client: fl.FlightClient, key: str) -> FrameStream:
        """A new stream to a server."""
        options = fl.FlightCallOptions(headers=[(KEY_HEADER.encode(), key.encode())])
        descriptor = fl.FlightDescriptor.for_command(b"drumline")
        writer, reader = client.do_exchange(descriptor, options)
        return cls(writer, reader)

    def write(self, frame: bytes) -> None:
        """Send a frame without data.

        Raises:
            ConnectionAbortedError: if the stream is over.
        """
        self._open_writer().write_metadata(pa.py_buffer(frame))

    def write_within(self, seconds: float, frame: bytes) -> None:
        """Send a frame without data, or nothing if others write for longer than that.

        Raises:
            ConnectionAbortedError: if the stream is over.
        """
        if not self.lock.acquire(timeout=seconds):
            return
        try:
            self.write(frame)
        finally:
            self.lock.release()

    def write_chunks(self, encoded: Encoded, seq: int) -> None:
        """Send the chunks of a message.

        Raises:
            ConnectionAbortedError: if the stream is over.
        """
        for head, data in encoded.chunks(seq):
            self._open_writer().write_with_metadata(_batch(data), pa.py_buffer(head))

    def read(self) -> tuple[memoryview, np.ndarray | None] | None:
        """The next frame and its data, or None at the stream's end."""
        try:
            chunk = self._reader.read_chunk()
        except StopIteration:
            return None
        if chunk.app_metadata is None:
            return memoryview(b""), None
        frame = memoryview(chunk.app_metadata)
        return frame, None if chunk.data is None else _data(chunk.data)

    def finish(self) -> None:
        """Let nobody write any more; servers only.

        Flight frees what a server's stream writes to when the call ends, whoever still uses it.
        """
        with self.lock:
            self._writer = None

    def _open_writer(self) -> Any:
        if self._writer is None:
            raise ConnectionAbortedError("the stream is over")
        return self._writer

    def cancel(self) -> None:
        """End the stream at once, from any thread; clients only."""
        self._reader.cancel()

    def close(self) -> None:
        """Cancel, and let go of the stream; clients only, and only by the thread that reads.

        Flight crashes if another thread is still reading.
        """
        self.cancel()
        with self.lock, contextlib.suppress(*STREAM_ERRORS):  # it reports its own cancellation
            self._writer.close()


def _batch(data: np.ndarray) -> pa.RecordBatch:
    offsets = pa.py_buffer(np.array([0, data.nbytes], np.int64))
    buffers = [None, offsets, pa.py_buffer(data)]
    column = pa.Array.from_buffers(pa.large_binary(), 1, buffers)
    return pa.RecordBatch.from_arrays([column], schema=SCHEMA)


def _data(batch: pa.RecordBatch) -> np.ndarray | None:
    if batch.num_columns != 1 or batch.num_rows != 1:
        return None
    value = batch.column(0)[0].as_buffer()
    return None if value is None else np.frombuffer(value, np.uint8)


def as_transport_error(address: str, error: BaseException) -> Exception:
    """What a broken stream means."""
    if isinstance(error, fl.FlightUnauthenticatedError):
        return AuthenticationError(_brief(error))
    return PeerUnavailableError(address, _brief(error))


def _brief(error: BaseException) -> str:
    """gRPC's own words without its details."""
    text = str(error).partition(" gRPC client debug context")[0]
    return text.partition(". Detail:")[0].replace("\n", " ")[:500]
