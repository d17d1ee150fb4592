"""What a parameter server keeps and does."""

from drumline.distribute.parameter_server.server.parameter_server import ParameterServer

__all__ = ["ParameterServer"]
