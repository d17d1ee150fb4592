"""What a parameter server keeps and does."""

from drumline.distribute.parameter_server.server.parameter_server import Owner

__all__ = ["Owner"]
