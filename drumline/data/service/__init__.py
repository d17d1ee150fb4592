"""Parts of a plan on other machines; the names of ``tf.data.experimental.service``."""

from drumline.data.remote.cluster import ShardingPolicy
from drumline.data.transformations import distribute

__all__ = ["ShardingPolicy", "distribute"]
