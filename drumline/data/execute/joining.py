"""Short runs of elements joined to one block."""

from __future__ import annotations

import time
from collections.abc import Callable

from drumline.data.execute.block import Block, concat
from drumline.data.rows import stack
from drumline.data.spec import ElementSpec

_LARGE = 1 << 16
_MANY = 512


def joined_runs(
    peek: Callable[[int], Block | None],
    use: Callable[[int], None],
    limit: int,
    spec: ElementSpec,
    patience: float = 0.002,
) -> Block | None:
    """Up to ``limit`` positions of short runs, for as long as that takes little time.

    Args:
        peek: gives up to so many positions of what comes next; an error comes last, alone or
            after elements.
        use: marks so many positions of it as used.
        limit: how many positions are wanted.
        spec: of the elements.
        patience: how many seconds it may take, about.

    Returns:
        ``None`` at the end.
    """
    parts: list[Block] = []
    rows = 0
    deadline = time.perf_counter() + patience
    while rows < limit:
        part = peek(limit - rows)
        if part is None or (parts and part.n and not parts[-1].same_shapes(part)):
            break
        use(part.events)
        if part.n:
            parts.append(part)
            rows += part.n
        if part.error is not None:
            return _joined(parts, part.error, spec)
        if part.n >= _MANY or _nbytes(part) > _LARGE or time.perf_counter() > deadline:
            break
    return _joined(parts, None, spec) if parts else None


def _joined(parts: list[Block], error: Exception | None, spec: ElementSpec) -> Block:
    if not parts:
        return Block(stack([], spec), 0, error)
    clean = [Block(part.columns, part.n) for part in parts]
    whole = concat(clean)
    return Block([column[: whole.n] for column in whole.columns], whole.n, error)


def _nbytes(block: Block) -> int:
    return sum(column.nbytes for column in block.columns)
