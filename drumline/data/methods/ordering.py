"""Methods that choose and order elements."""

from __future__ import annotations

from typing import Self

from drumline.data.cardinality import INFINITE, UNKNOWN
from drumline.data.methods.arguments import count_of, seed_of
from drumline.data.methods.planned import Planned
from drumline.data.plan import ordering
from drumline.data.random_access import no_access, obstacle


class Ordering(Planned):
    """What decides which elements come, and when."""

    def shuffle(
        self,
        buffer_size: int | str,
        seed: int | None = None,
        reshuffle_each_iteration: bool = True,
        name: str | None = None,
    ) -> Self:
        """Draws each element at random from a buffer of the next ``buffer_size``.

        Over a random-access source the buffer holds positions, not elements.

        Args:
            buffer_size: in elements; one at least as large as the dataset gives a uniform order.
                ``dl.data.UNKNOWN_CARDINALITY`` is one that holds all elements: ``cardinality()``
                may be given as it is. ``dl.data.GLOBAL`` permutes all elements of a random-access
                dataset by a formula, without memory for them.
            seed: the order depends on it and on the epoch. ``None`` draws one now, from Python's
                ``random``, which ``keras.utils.set_random_seed`` seeds.
            reshuffle_each_iteration: whether each epoch (and each pass of a ``repeat``) differs.
            name: shown by ``explain()``.

        Raises:
            TypeError: ``GLOBAL`` and no random access; the message names the operation that
                prevents it.
            ValueError: ``buffer_size`` is not positive, or that of all elements of a dataset that
                never ends.
        """
        everything = buffer_size == ordering.GLOBAL
        if everything and obstacle(self._plan) is not None:
            raise TypeError(f"shuffle(GLOBAL): {no_access(self._plan)}")
        if everything and self._plan.cardinality == INFINITE:
            raise ValueError(
                "shuffle(GLOBAL): the dataset never ends; take(n) of it, or shuffle it "
                "before repeat()"
            )
        size = 0 if everything else self._buffer_size(buffer_size)
        drawn = seed_of(seed, "shuffle")
        reshuffle = True if reshuffle_each_iteration is None else bool(reshuffle_each_iteration)
        kind = ordering.GlobalShuffle if everything else ordering.Shuffle
        return self._with(kind((self._plan,), size, drawn, reshuffle), name)

    def _buffer_size(self, buffer_size: int | str) -> int:
        number = count_of(buffer_size, "shuffle", "buffer_size")
        if number == UNKNOWN and self._plan.cardinality == INFINITE:
            raise ValueError(
                "shuffle: a buffer for all elements of a dataset that never ends is never full; "
                "give a number, or shuffle before repeat"
            )
        least = 1 if number != UNKNOWN else UNKNOWN
        return count_of(number, "shuffle", "buffer_size", least)

    def repeat(self, count: int | None = None, name: str | None = None) -> Self:
        """``count`` passes over the dataset; ``None`` or -1 never ends."""
        number = None if count is None else count_of(count, "repeat", "count", least=-1)
        return self._with(ordering.Repeat((self._plan,), None if number == -1 else number), name)

    def take(self, count: int, name: str | None = None) -> Self:
        """The first ``count`` elements, -1 for all; nothing past them is ever read."""
        number = count_of(count, "take", "count", least=-1)
        return self if number == -1 else self._with(ordering.Take((self._plan,), number), name)

    def skip(self, count: int, name: str | None = None) -> Self:
        """All but the first ``count`` elements; -1 leaves none."""
        number = count_of(count, "skip", "count", least=-1)
        if number == -1:
            return self._with(ordering.Take((self._plan,), 0), name)
        return self._with(ordering.Skip((self._plan,), number), name)

    def shard(self, num_shards: int, index: int, name: str | None = None) -> Self:
        """Every ``num_shards``-th element, from the one at ``index`` on: one worker's share.

        Shard before a ``shuffle``, so that the shards are disjoint, and before what costs much.
        ``experimental.SHARD_HINT`` for both lets a strategy of several processes shard here
        (`AutoShardPolicy.HINT`); without one nothing is left out.

        Raises:
            ValueError: ``num_shards`` is not positive, or ``index`` is not below it.
        """
        if num_shards == index == ordering.SHARD_HINT:
            return self._with(ordering.Shard((self._plan,), num_shards, index), name)
        number = count_of(num_shards, "shard", "num_shards", least=1)
        position = count_of(index, "shard", "index", least=0)
        if position >= number:
            raise ValueError(f"shard: index must be between 0 and {number - 1}, got {position}")
        return self._with(ordering.Shard((self._plan,), number, position), name)
