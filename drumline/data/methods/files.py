"""Methods that find files."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from drumline.data import construct
from drumline.data.files.listing import as_paths, matching
from drumline.data.methods.arguments import seed_of
from drumline.data.methods.planned import Planned, named
from drumline.data.plan.ordering import Shuffle


class FindingFiles(Planned):
    """Datasets of paths."""

    @classmethod
    def list_files(
        cls,
        file_pattern: Any,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Self:
        """The paths, as ``bytes``, of the files that match now.

        Args:
            file_pattern: a pattern or a list of them: ``*`` and ``?`` stand for any characters and
                one character of a name, ``[...]`` for one of some. A pattern may have a scheme, as
                filenames of ``TFRecordDataset``.
            shuffle: whether they come in a random order, a new one each epoch; true by default.
                Otherwise they are sorted.
            seed: of that order; see ``shuffle``.
            name: shown by ``explain()``.

        Raises:
            FileNotFoundError: no file matches.
        """
        paths = matching(as_paths(file_pattern, "list_files"))
        files = cls(named(construct.slices(np.array(paths, dtype=object)), name))
        if shuffle is not None and not shuffle:
            return files
        drawn = seed_of(seed, "list_files")
        return files._with(Shuffle((files._plan,), len(paths), drawn, True), name)
