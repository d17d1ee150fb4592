"""The asking side of the transport."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any

import numpy as np

from drumline.distribute.parameter_server.wire import registry
from drumline.distribute.parameter_server.wire.errors import (
    CallTimeoutError,
    TransportError,
)
from drumline.distribute.parameter_server.wire.message import Form, Message, Request
from drumline.distribute.parameter_server.wire.server import HEARTBEAT_SECONDS
from drumline.distribute.parameter_server.wire.tls import ClientTls, client_tls

if TYPE_CHECKING:
    from drumline.distribute.parameter_server.wire.local_link import LocalLink
    from drumline.distribute.parameter_server.wire.remote_link import RemoteLink

_MOST_BYTES = 1 << 30


class Connection:
    """One lane of requests to a server. Any thread may use it.

    Requests are handled in the order in which they were submitted, and each is answered as soon as
    its reply is ready. A server of the same process is reached without the network. Callbacks of
    the futures run in the thread that reads the replies, and must not wait for others of this
    connection.

    Args:
        address: the server's ``"host:port"``.
        token: the cluster's; see `cluster_token`.
        tls: whom to believe, where the server encrypts; None does as the environment says.
        timeout_seconds: for connecting, and for each `call` that names no other.
        heartbeat_seconds: after which a server of which nothing is heard is given up.
        most_bytes: of arrays that may be on their way, or waited for; `submit` waits for room.

    Attributes:
        address: the server's.
        in_process: whether the server is part of this process.

    Raises:
        PeerUnavailableError: if nothing listens at the address, or it does not answer in time.
        AuthenticationError: if the server has another token, or there is none to share with it.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str,
        tls: ClientTls | None = None,
        timeout_seconds: float = 60.0,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self.address = address
        self._process = os.getpid()
        self._timeout_seconds = timeout_seconds
        self._link: RemoteLink | LocalLink
        server = registry.find(address)
        self.in_process = server is not None
        if server is not None:
            from drumline.distribute.parameter_server.wire.local_link import LocalLink

            self._link = LocalLink(address, server, token, most_bytes)
        else:
            from drumline.distribute.parameter_server.wire.remote_link import RemoteLink

            self._link = RemoteLink(
                *(address, token, tls or client_tls()),
                timeout_seconds=timeout_seconds,
                silence_seconds=heartbeat_seconds,
                most_bytes=most_bytes,
            )

    def submit(
        self, op: str, header: dict[str, Any], arrays: Sequence[np.ndarray] = ()
    ) -> Future[Message]:
        """Send a request, and return its reply to come.

        The arrays must not change until then. The future fails with a `RemoteError` if the handler
        raised, and with a `PeerUnavailableError` if the server is gone.

        Args:
            op: the operation.
            header: what JSON can hold.
            arrays: of numbers, times or fixed-size strings.

        Raises:
            PeerUnavailableError: if the server was found gone already.
            TypeError: if the header or an array cannot be sent.
        """
        return self.submit_many([(op, header, arrays)])[0]

    def submit_many(self, requests: Sequence[Request]) -> list[Future[Message]]:
        """Send several requests at once, small ones together; see `submit`.

        That takes about half the processor time of as many calls of `submit`.

        Args:
            requests: operation, header and arrays of each.

        Raises:
            TransportError: in a forked child of the process that made the connection.
        """
        if os.getpid() != self._process:
            raise TransportError(
                f"The connection to {self.address} was made before this process was forked. "
                f"Make connections after the fork."
            )
        return self._link.submit_many(requests)

    def call(
        self,
        op: str,
        header: dict[str, Any],
        arrays: Sequence[np.ndarray] = (),
        timeout_seconds: float | None = None,
    ) -> Message:
        """Send a request and wait for its reply; see `submit`.

        Raises:
            CallTimeoutError: if it does not come in time.
            RemoteError: if the handler raised.
            PeerUnavailableError: if the server is gone.
        """
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        future = self.submit(op, header, arrays)
        try:
            return future.result(limit)
        except FutureTimeoutError:
            if future.done():
                raise
            raise CallTimeoutError(
                f"{self.address} has not answered {op!r} within {limit:.3g} s, though it is alive."
            ) from None

    @property
    def is_lost(self) -> bool:
        """Whether it has ended, by whatever cause."""
        return self._link.is_lost

    def empties(self, forms: Sequence[Form]) -> list[np.ndarray]:
        """Uninitialised, 64-byte aligned arrays of these shapes and dtypes for one request.

        It need not copy them.
        """
        return self._link.empties(forms)

    def close(self) -> None:
        """End the connection. Requests without a reply fail with a `PeerUnavailableError`.

        In a forked child nothing is done: the connection is its parent's.
        """
        if os.getpid() == self._process:
            self._link.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
