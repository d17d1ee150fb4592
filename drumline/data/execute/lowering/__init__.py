"""From a plan to running stages."""

from drumline.data.engine.lowering import Lowering

__all__ = ["Lowering"]
