"""What a parameter server keeps and does."""

from drumline.distribute.parameter_server.server.owner import Owner

__all__ = ["Owner"]
