"""Parameter servers: variables that live on servers, and steps that workers run for a chief."""

from drumline.distribute.parameter_server import coordinator, partitioners
from drumline.distribute.parameter_server.errors import (
    ChiefLostError,
    ClosureCancelledError,
    ClosureError,
    OutOfRangeError,
    ParameterServerLostError,
)
from drumline.distribute.parameter_server.server_variable import ServerVariable, ShardedVariable
from drumline.distribute.parameter_server.strategy import ParameterServerStrategy
from drumline.distribute.parameter_server.task import Server

__all__ = [
    "ChiefLostError",
    "ClosureCancelledError",
    "ClosureError",
    "OutOfRangeError",
    "ParameterServerLostError",
    "ParameterServerStrategy",
    "Server",
    "ServerVariable",
    "ShardedVariable",
    "coordinator",
    "partitioners",
]
