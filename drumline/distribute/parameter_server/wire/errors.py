"""What can go wrong between two processes of a cluster."""

from __future__ import annotations


class TransportError(RuntimeError):
    """The base of all errors of the transport."""


class PeerUnavailableError(TransportError):
    """The process at an address cannot be reached, has ended, or does not answer.

    Attributes:
        address: its ``"host:port"``.
        reason: what was observed.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} is unavailable: {reason}")
        self.address = address
        self.reason = reason


class CallTimeoutError(TransportError, TimeoutError):
    """A process is alive, but has not answered a call within the call's time."""


class AuthenticationError(TransportError):
    """The two sides do not know the same token, or one of them has none."""


class ProtocolError(TransportError):
    """What was received is no message of this protocol."""


class RemoteError(TransportError):
    """A handler of the other process raised an exception.

    Attributes:
        type_name: the exception's class, as ``"ValueError"``.
        remote_message: its text.
        remote_traceback: its traceback, as text.
    """

    def __init__(self, address: str, type_name: str, message: str, traceback: str) -> None:
        super().__init__(f"{type_name} at {address}: {message}\n\nThere:\n{traceback}")
        self.type_name = type_name
        self.remote_message = message
        self.remote_traceback = traceback
