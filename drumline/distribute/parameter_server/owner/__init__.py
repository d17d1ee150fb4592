"""What a parameter server keeps and does."""

from drumline.distribute.parameter_server.owner.owner import Owner

__all__ = ["Owner"]
