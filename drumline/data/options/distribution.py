"""Options of datasets that several processes share."""

from __future__ import annotations

import dataclasses

from drumline.data.auto_shard_policy import AutoShardPolicy
from drumline.data.option_groups import Group


@dataclasses.dataclass
class DistributeOptions(Group):
    """As ``tf.data.experimental.DistributeOptions``.

    Attributes:
        auto_shard_policy: how a strategy of several processes divides the dataset among them. One
            process reads all of it.
    """

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO

    checks = {"auto_shard_policy": lambda _, value: AutoShardPolicy.of(value)}  # noqa: RUF012
    refused = {"num_devices": "the strategy knows its devices"}  # noqa: RUF012
