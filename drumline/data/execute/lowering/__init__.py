"""From a plan to running stages."""

from drumline.data.execute.lowering.lower import Lowering

__all__ = ["Lowering"]
