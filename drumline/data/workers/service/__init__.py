"""Parts of a plan on other machines; the names of ``tf.data.experimental.service``."""

from drumline.data.transformations import distribute
from drumline.data.workers.remote.cluster import ShardingPolicy

__all__ = ["ShardingPolicy", "distribute"]
