"""Whether a dataset can be divided by a static policy."""

from __future__ import annotations

from drumline.data.engine.random_access import length_up_to
from drumline.data.operations.ordering.order import has_shard_hints
from drumline.data.plan.node import Node
from drumline.data.rewrite.shard_files import filenames, keeps_elements
from drumline.data.workers.remote.cluster import ShardingPolicy


def resolved(plan: Node, policy: ShardingPolicy, shards: int) -> ShardingPolicy:
    """Return the policy that holds for a plan: ``FILE_OR_DATA`` becomes one of both.

    Raises:
        ValueError: the plan cannot be divided so.
    """
    if policy is ShardingPolicy.FILE_OR_DATA:
        files = keeps_elements(plan) and _enough(plan, shards)
        return ShardingPolicy.FILE if files else ShardingPolicy.DATA
    if policy is ShardingPolicy.FILE:
        if filenames(plan) is None:
            raise ValueError(
                "distribute: ShardingPolicy.FILE divides the files that a dataset reads, and this "
                "one reads none, or has other elements as well; choose DATA or DYNAMIC"
            )
        if not _enough(plan, shards):
            raise ValueError(
                f"distribute: ShardingPolicy.FILE needs a file for each of {shards} workers, and "
                "there are fewer; split the input into more files, or choose DATA or DYNAMIC"
            )
        if not keeps_elements(plan):
            raise ValueError(
                "distribute: ShardingPolicy.FILE: an operation of the dataset counts or pairs "
                "elements, so that shards of its files are not shards of it; put that operation "
                "after distribute, or choose DATA or DYNAMIC"
            )
    if policy is ShardingPolicy.HINT and not has_shard_hints(plan):
        raise ValueError(
            "distribute: ShardingPolicy.HINT needs `.shard(dl.data.experimental.SHARD_HINT, "
            "dl.data.experimental.SHARD_HINT)` before it, where workers are to take their shares"
        )
    return policy


def _enough(plan: Node, shards: int) -> bool:
    named = filenames(plan)
    return named is not None and all(length_up_to(names, shards) >= shards for names in named)
