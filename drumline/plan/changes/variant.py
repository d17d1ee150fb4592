"""What is planned otherwise than a script says: what `drumline plan` suggests is tried as such."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from drumline.distribute import Strategy
from drumline.distribute.step.compiled_step import NotPlannedError
from drumline.distribute.strategies import CuttingStrategy
from drumline.plan.jax_internals import rematerialize


@dataclasses.dataclass(frozen=True)
class Variant:
    """What to assume of a script in the place of what it says.

    Attributes:
        shard: what its strategies cut; None as they say.
        policy: Keras's dtype policy, such as ``"mixed_bfloat16"``; None as the script sets it.
        rematerializes: whether layers are computed again for their gradients.
    """

    shard: str | None = None
    policy: str | None = None
    rematerializes: bool = False

    def start(self) -> None:
        """Set what holds before the script runs.

        Raises:
            NotPlannedError: if Keras knows no such policy.
        """
        if self.policy is None:
            return
        try:
            keras.config.set_dtype_policy(self.policy)
        except ValueError as error:
            raise NotPlannedError(f"--dtype-policy {self.policy}: {error}") from error

    def cut(self, strategy: Strategy) -> None:
        """Let a strategy that was just made cut what this says.

        Raises:
            NotPlannedError: if it cannot.
        """
        if self.shard is None or strategy.num_replicas_in_sync == 1:
            return
        if not isinstance(strategy, CuttingStrategy):
            raise NotPlannedError(
                f"--shard {self.shard}: {type(strategy).__name__} cuts nothing over its replicas. "
                "MirroredStrategy, MultiWorkerMirroredStrategy and TPUStrategy take `shard=`."
            )
        strategy._cut_by(self.shard)

    def found(self, models: Sequence[keras.Model]) -> None:
        """Change models whose step was found, before it is lowered.

        Raises:
            NotPlannedError: if the script has it otherwise, or nothing can be changed.
        """
        policy = keras.config.dtype_policy().name
        if self.policy is not None and policy != self.policy:
            raise NotPlannedError(
                f"--dtype-policy {self.policy}: the script sets {policy} itself. Change it there."
            )
        if self.rematerializes and not sum(map(rematerialize, models)):
            raise NotPlannedError(
                "--rematerialize: there is no layer to compute again. Keras does so for layers of "
                "a Keras model that write no variable, as BatchNormalization and Dropout do."
            )


AS_WRITTEN = Variant()


def can_be_cut(strategy: Any) -> bool:
    """Whether a script's strategy could take `shard=`, and does not."""
    takes = isinstance(strategy, CuttingStrategy) and strategy.num_replicas_in_sync > 1
    return takes and strategy.shard is None
