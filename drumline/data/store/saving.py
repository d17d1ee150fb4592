"""Writing the elements of a plan."""

from __future__ import annotations

import os
from pathlib import Path

from drumline.data.epochs import Epochs
from drumline.data.execute.ramp import Ramp
from drumline.data.files.remote import has_scheme
from drumline.data.options import Options
from drumline.data.plan.node import Node
from drumline.data.store.directory import DirectoryWriter
from drumline.data.store.shards import ShardsWriter


def store_elements(plan: Node, options: Options, writer: DirectoryWriter | ShardsWriter) -> None:
    """Stores the elements of a plan's first epoch; what was stored before makes way.

    Raises:
        Exception: what making an element raised; then nothing is stored.
    """
    ramp = Ramp(plan.spec.row_nbytes())
    try:
        stage, _ = Epochs(plan, options).start(0, None)
        try:
            while True:
                limit = ramp.start(stage.granule) if stage.eager else 1
                block = stage.next(limit)
                ramp.stop()
                if block is None:
                    break
                writer.add(block)
                if block.error is not None:
                    raise block.error
        finally:
            stage.close()
        writer.finish(replace=True)
    except BaseException:
        writer.drop()
        raise


def local_path(path: str | os.PathLike[str], operation: str) -> Path:
    """The path as given by the user.

    Raises:
        ValueError: it is a URL: what is mapped into memory has to be local.
    """
    if has_scheme(os.fspath(path)):
        raise ValueError(f"{operation}: give a local path, {path!r} cannot be mapped into memory")
    return Path(path).expanduser().absolute()
