"""Messages between the processes of a cluster, over TCP or shared memory."""

from drumline.distribute.parameter_server.errors import (
    AuthenticationError,
    CallTimeoutError,
    PeerUnavailableError,
    ProtocolError,
    RemoteError,
    TransportError,
)
from drumline.distribute.parameter_server.wire.codec import (
    ArrayForm,
    Handler,
    Handlers,
    Lane,
    Message,
)
from drumline.distribute.parameter_server.wire.connection import Connection
from drumline.distribute.parameter_server.wire.greeting import cluster_token
from drumline.distribute.parameter_server.wire.server import TransportServer
from drumline.distribute.parameter_server.wire.stream import ClientTls, ServerTls

__all__ = [
    "ArrayForm",
    "AuthenticationError",
    "CallTimeoutError",
    "ClientTls",
    "Connection",
    "Handler",
    "Handlers",
    "Lane",
    "Message",
    "PeerUnavailableError",
    "ProtocolError",
    "RemoteError",
    "ServerTls",
    "TransportError",
    "TransportServer",
    "cluster_token",
]
