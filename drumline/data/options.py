"""How a dataset runs; no option changes what it yields."""

from __future__ import annotations

import dataclasses
from typing import Any


class _Group:
    """Rejects names that are no option: a misspelt one must not be silently without effect."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in {field.name for field in dataclasses.fields(self)}:  # type: ignore[arg-type]
            known = ", ".join(field.name for field in dataclasses.fields(self))  # type: ignore[arg-type]
            raise AttributeError(f"{type(self).__name__} has no option {name!r}; it has {known}")
        object.__setattr__(self, name, value)


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
class Options(_Group):
    """Options of a dataset, given by ``Dataset.with_options``; the last ones given hold.

    Attributes:
        threading: how many threads work.
        experimental_optimization: what the optimizer may do.
    """

    threading: ThreadingOptions = dataclasses.field(default_factory=ThreadingOptions)
    experimental_optimization: OptimizationOptions = dataclasses.field(
        default_factory=OptimizationOptions
    )
