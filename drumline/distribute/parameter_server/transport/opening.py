"""Opening the streams of a connection."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from drumline.distribute.parameter_server.transport.errors import (
    AuthenticationError,
    PeerUnavailableError,
    ProtocolError,
)
from drumline.distribute.parameter_server.transport.flight import (
    STREAM_ERRORS,
    FrameStream,
    as_transport_error,
    connect,
)
from drumline.distribute.parameter_server.transport.handshake import (
    greet,
    stream_key,
    tell,
)
from drumline.distribute.parameter_server.transport.shared_memory import SharedMemory
from drumline.distribute.parameter_server.transport.tls import ClientTls
from drumline.distribute.parameter_server.transport.token import HOW_TO_SET, is_made_here


@dataclasses.dataclass(frozen=True)
class Opened:
    """The streams of a connection.

    Attributes:
        client: Flight's, which must outlive them.
        requests: for requests and replies.
        heartbeats: for heartbeats.
        memory: shared with the server, if that is possible.
    """

    client: Any
    requests: FrameStream
    heartbeats: FrameStream
    memory: SharedMemory


def open_streams(address: str, token: str, tls: ClientTls | None, timeout_seconds: float) -> Opened:
    """Connect to a server and prove to each other to know the token.

    Raises:
        AuthenticationError: if the tokens differ, or there is none to share.
        PeerUnavailableError: if nothing listens there, or it does not answer in time.
    """
    if is_made_here(token):
        raise AuthenticationError(
            f"No server of this process listens at {address}, and other processes need the "
            f"cluster's token, which is not set. {HOW_TO_SET}"
        )
    opening = _Opening(address, token, tls)
    opening.start()
    opening.join(timeout_seconds)
    return opening.result(timeout_seconds)


class _Opening(threading.Thread):
    """A thread, since a stream cannot be read with a time limit; cancelling it ends it."""

    def __init__(self, address: str, token: str, tls: ClientTls | None) -> None:
        super().__init__(name="drumline-connect", daemon=True)
        self._address = address
        self._token = token
        self._client = connect(address, tls)
        self._streams: list[FrameStream] = []
        self._memory = SharedMemory()
        self._outcome: Opened | BaseException | None = None

    def run(self) -> None:
        try:
            requests = self._open()
            wishes = {"stream": "requests", "memory": self._memory.offer()}
            granted = greet(requests, self._token, wishes)
            self._memory.confirm(granted.get("accepted"))
            tell(requests, {"accepted": self._memory.accept(granted.get("memory"))})
            beats = self._open()
            greet(beats, self._token, {"stream": "heartbeats", "lane": granted.get("lane")})
            self._outcome = Opened(self._client, requests, beats, self._memory)
        except STREAM_ERRORS as error:
            self._outcome = as_transport_error(self._address, error)
        except ProtocolError as error:
            self._outcome = PeerUnavailableError(self._address, str(error))
        except AuthenticationError as error:
            self._outcome = error
        finally:
            if not isinstance(self._outcome, Opened):
                for stream in self._streams:
                    stream.close()

    def result(self, timeout_seconds: float) -> Opened:
        outcome = self._outcome
        if isinstance(outcome, Opened):
            return outcome
        for stream in list(self._streams):
            stream.cancel()
        self._memory.close()
        if outcome is None:
            reason = f"it does not answer within {timeout_seconds:.3g} s"
            raise PeerUnavailableError(self._address, reason)
        if isinstance(outcome, AuthenticationError):
            raise AuthenticationError(f"{self._address} refuses the connection: {outcome}")
        raise outcome

    def _open(self) -> FrameStream:
        stream = FrameStream.open(self._client, stream_key(self._token))
        self._streams.append(stream)
        return stream
