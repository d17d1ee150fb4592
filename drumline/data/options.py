"""How a dataset runs; no option changes what it yields."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

from drumline.data.auto_shard_policy import AutoShardPolicy


class _Group:
    """Options that know which of them were set.

    Names that are no option are rejected: a misspelt one must not be silently without effect.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in {field.name for field in dataclasses.fields(self)}:  # type: ignore[arg-type]
            known = ", ".join(field.name for field in dataclasses.fields(self))  # type: ignore[arg-type]
            raise AttributeError(f"{type(self).__name__} has no option {name!r}; it has {known}")
        object.__setattr__(self, name, value)
        vars(self).setdefault("_assigned", set()).add(name)

    def __post_init__(self) -> None:
        """Options given to the constructor count as set where they are not the default."""
        untouched = {
            field.name
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) == field.default
        }
        vars(self)["_assigned"] -= untouched

    def merged(self, other: Self) -> Self:
        """These options with those that were set in `other`."""
        made = type(self)()
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if isinstance(mine, _Group):
                setattr(made, field.name, mine.merged(theirs))
            elif field.name in vars(other)["_assigned"]:
                setattr(made, field.name, theirs)
            elif field.name in vars(self)["_assigned"]:
                setattr(made, field.name, mine)
        return made


@dataclasses.dataclass
class ThreadingOptions(_Group):
    """As ``tf.data.ThreadingOptions``.

    Attributes:
        private_threadpool_size: how many threads compute the blocks of compiled maps that the
            optimizer runs in parallel; ``None`` takes all CPU cores but one, 1 disables it.
    """

    private_threadpool_size: int | None = None


@dataclasses.dataclass
class OptimizationOptions(_Group):
    """As ``tf.data.experimental.OptimizationOptions``.

    Attributes:
        apply_default_optimizations: whether the plan is rewritten before it runs. The elements are
            the same bits either way.
    """

    apply_default_optimizations: bool = True


@dataclasses.dataclass
class DistributeOptions(_Group):
    """As ``tf.data.experimental.DistributeOptions``.

    Attributes:
        auto_shard_policy: how a strategy of several processes divides the dataset among them. One
            process reads all of it.
    """

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "auto_shard_policy":
            value = AutoShardPolicy.of(value)
        super().__setattr__(name, value)


@dataclasses.dataclass
class Options(_Group):
    """Options of a dataset, given by ``Dataset.with_options``; the last given value holds.

    Attributes:
        experimental_distribute: how a strategy of several processes divides the dataset.
        threading: how many threads work.
        experimental_optimization: what the optimizer may do.
    """

    experimental_distribute: DistributeOptions = dataclasses.field(
        default_factory=DistributeOptions
    )
    threading: ThreadingOptions = dataclasses.field(default_factory=ThreadingOptions)
    experimental_optimization: OptimizationOptions = dataclasses.field(
        default_factory=OptimizationOptions
    )
