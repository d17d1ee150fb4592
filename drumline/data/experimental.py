"""Names that guides write as ``tf.data.experimental``."""

from drumline.data.auto_shard_policy import AutoShardPolicy
from drumline.data.options import DistributeOptions, OptimizationOptions

__all__ = ["AutoShardPolicy", "DistributeOptions", "OptimizationOptions"]
