"""Input that a user describes for each pipeline or replica."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputContext:
    """What a function that makes an input pipeline may want to know, as ``tf.distribute``'s.

    Attributes:
        num_input_pipelines: how many pipelines feed the strategy: one for each process.
        input_pipeline_id: the number of this one, from 0.
        num_replicas_in_sync: how many replicas share a global batch.
    """

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """The rows of a global batch that each replica gets.

        Raises:
            ValueError: if the batch does not divide.
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"A global batch of {global_batch_size} does not divide over "
                f"{self.num_replicas_in_sync} replicas; use a multiple of that."
            )
        return global_batch_size // self.num_replicas_in_sync


@dataclass(frozen=True)
class ValueContext:
    """What a function that makes a replica's value may want to know, as ``tf.distribute``'s.

    Attributes:
        replica_id_in_sync_group: the replica's number, from 0.
        num_replicas_in_sync: how many replicas there are.
    """

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1
