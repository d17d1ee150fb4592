"""Messages of errors in writing files, such as of a full disk."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "free space on its disk, or give a path on another one",
    errno.EDQUOT: "delete files of yours on its disk, or give a path on another one",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or store in more shards",
}


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add to an error which file could not be written, and what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        what = f"{error.strerror}: {_REMEDIES[error.errno]}"
        raise OSError(error.errno, what, str(path)) from error
