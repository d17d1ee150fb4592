"""Methods that stack elements and take stacks apart."""

from __future__ import annotations

from typing import Self

from drumline.data.methods.arguments import count_of
from drumline.data.methods.planned import Planned
from drumline.data.plan import batching


class Batches(Planned):
    """What changes how many elements make one."""

    def batch(self, batch_size: int, drop_remainder: bool = False) -> Self:
        """Stacks ``batch_size`` consecutive elements; the last batch may be shorter.

        Raises:
            ValueError: ``batch_size`` is not positive. Elements of different shapes raise when
                their batch is asked for, with the element's index.
        """
        size = count_of(batch_size, "batch", "batch_size", least=1)
        return self._with(batching.Batch((self._plan,), size, bool(drop_remainder)))

    def unbatch(self) -> Self:
        """The rows of each element's leaves as elements.

        Raises:
            ValueError: a leaf is a scalar, or first dimensions are known to differ.
        """
        leaves = self._plan.spec.leaves
        if any(not leaf.shape for leaf in leaves):
            raise ValueError(f"unbatch: a leaf has no first dimension: {self.element_spec}")
        if len({leaf.shape[0] for leaf in leaves} - {None}) > 1:
            raise ValueError(f"unbatch: first dimensions differ: {self.element_spec}")
        return self._with(batching.Unbatch((self._plan,)))
