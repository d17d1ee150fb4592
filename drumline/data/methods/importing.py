"""Methods that make datasets of what other libraries hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from drumline.data import construct
from drumline.data.arrow_columns import arrow_columns
from drumline.data.methods.planned import Planned, named


class Importing(Planned):
    """Constructors over other libraries' tables and datasets."""

    @classmethod
    def from_arrow(cls, table: Any, name: str | None = None) -> Self:
        """Elements are the rows of a table: dicts by column name.

        Numbers are not copied where the table holds a column in one piece. Strings become
        ``bytes``, dictionary columns their values, lists of one length arrays, lists of various
        lengths rows of a ``RaggedArray``, structs dicts.

        Args:
            table: a ``pyarrow.Table`` (as in a Hugging Face dataset's ``data.table``), or anything
                with ``__arrow_c_stream__``: a data frame of pandas (2.2 or later) or Polars, a
                DuckDB relation, a ``RecordBatchReader``.
            name: shown by ``explain()``.

        Raises:
            TypeError: it is no table, or a column's type (a timestamp, a decimal) is none of these.
            ValueError: a column has nulls.
        """
        return cls(named(construct.slices(arrow_columns(table)), name))

    @classmethod
    def from_sequence(
        cls, sequence: Sequence[Any], output_signature: Any = None, name: str | None = None
    ) -> Self:
        """Elements are ``sequence[0]`` to ``sequence[len(sequence) - 1]``, made when asked for.

        Anything with ``len`` and integer indices: lists, map-style datasets of torch, datasets of
        Hugging Face, Grain's data sources. ``__getitems__`` is used where it is there. As access is
        random, a ``shuffle`` permutes positions, ``skip`` and ``shard`` read nothing they leave
        out, and restoring an iterator takes no time. One thread at a time asks the sequence, and
        it must give the same element for the same index each time.

        Args:
            sequence: as above.
            output_signature: a nested structure of ``TensorSpec``; by default that of the first
                item, which then must fit all others.
            name: shown by ``explain()``.

        Raises:
            TypeError: it has no length or no indices.
            ValueError: it is empty and there is no ``output_signature``. An item of other shapes or
                dtypes raises when it is its turn, with its index.
        """
        return cls(named(construct.items(sequence, output_signature), name))
