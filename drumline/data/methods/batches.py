"""Methods that stack elements and take stacks apart."""

from __future__ import annotations

from typing import Self

from drumline.data.methods.arguments import AUTOTUNE, check_deterministic, count_of
from drumline.data.methods.planned import Planned
from drumline.data.plan import batching, buffering


class Batches(Planned):
    """What changes how many elements make one."""

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Stacks ``batch_size`` consecutive elements; the last batch may be shorter.

        Args:
            batch_size: how many elements make one.
            drop_remainder: whether a last, shorter batch is left out.
            num_parallel_calls: a thread makes up to so many batches ahead, ``AUTOTUNE`` as many as
                memory allows. Without it a batch is made when it is asked for.
            deterministic: accepted as in ``tf.data``; batches always come in order.
            name: shown by ``explain()``.

        Raises:
            ValueError: ``batch_size`` is not positive. Elements of different shapes raise when
                their batch is asked for, with the element's index.
        """
        check_deterministic(deterministic, "batch")
        size = count_of(batch_size, "batch", "batch_size", least=1)
        made = self._with(batching.Batch((self._plan,), size, bool(drop_remainder)), name)
        if num_parallel_calls is None:
            return made
        ahead = None
        if num_parallel_calls != AUTOTUNE:
            ahead = count_of(num_parallel_calls, "batch", "num_parallel_calls", least=1)
        return made._with(buffering.Prefetch((made._plan,), ahead))

    def unbatch(self, name: str | None = None) -> Self:
        """The rows of each element's leaves as elements.

        Raises:
            ValueError: a leaf is a scalar, or first dimensions are known to differ.
        """
        return self._rows("unbatch", name)

    def _rows(self, operation: str, name: str | None = None) -> Self:
        """``unbatch``, on behalf of an operation."""
        leaves = self._plan.spec.leaves
        if any(not leaf.shape for leaf in leaves):
            raise ValueError(f"{operation}: a leaf has no first dimension: {self.element_spec}")
        if len({leaf.shape[0] for leaf in leaves} - {None}) > 1:
            raise ValueError(f"{operation}: first dimensions differ: {self.element_spec}")
        return self._with(batching.Unbatch((self._plan,), operation=operation), name)
