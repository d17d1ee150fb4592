"""Writing the elements of a plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from drumline import _local_path
from drumline.data.elements.block import Block
from drumline.data.elements.spec import ElementSpec
from drumline.data.engine.epochs import Epochs
from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.runtime.stage import Ramp, Stage
from drumline.data.store.directory import DirectoryWriter
from drumline.data.store.shards import ShardsWriter


def store_elements(plan: Node, options: Options, writer: DirectoryWriter | ShardsWriter) -> None:
    """Stores the elements of a plan's first epoch; what was stored before makes way.

    Raises:
        Exception: what making an element raised; then nothing is stored.
    """
    try:
        stage, _ = Epochs(plan, options).start(0, None)
        try:
            for block in blocks_of(stage, plan.spec):
                writer.add(block)
        finally:
            stage.close()
        writer.finish(replace=True)
    except BaseException:
        writer.drop()
        raise


def blocks_of(
    stage: Stage, spec: ElementSpec, room: Callable[[], int | None] = lambda: None
) -> Iterator[Block]:
    """All that a stage makes.

    Args:
        stage: makes elements of ``spec``.
        spec: of the elements.
        room: returns how many elements the next block may have at most.

    Raises:
        Exception: what making an element raised, after the elements before it.
    """
    ramp = Ramp(spec.row_nbytes())
    while True:
        limit = ramp.start(stage.granule) if stage.eager else 1
        block = stage.next(min(limit, room() or limit))
        ramp.stop()
        if block is None:
            return
        yield block
        if block.error is not None:
            raise block.error


def local_path(path: str | bytes | os.PathLike[str], operation: str) -> Path:
    """The path as given by the user.

    Raises:
        ValueError: it is a URL: what is mapped into memory has to be local.
    """
    plain = _local_path.local_path(path, operation, "what is mapped into memory")
    return Path(plain).expanduser().absolute()
