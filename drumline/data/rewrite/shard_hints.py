"""``shard(SHARD_HINT, SHARD_HINT)``: the place where processes take their shares."""

from __future__ import annotations
