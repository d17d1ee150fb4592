"""What a vocabulary is learned from, and what of it is kept."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from drumline._core import TokenCounts
from drumline.data.dataset import Dataset
from drumline.data.elements.spec import STRING, as_array

AT_ONCE = 1024


def documents_of(
    data: Any, batch_size: int | None, steps: int | None, tokens: bool
) -> Iterator[np.ndarray]:
    """Batches of strings: (n,) or (n, 1).

    Args:
        data: a dataset, an array or a list, or an iterable of batches.
        batch_size: how many single strings of a dataset to take at once.
        steps: the most elements to take of it.
        tokens: whether the strings of a batch (n,) are the tokens of one document.
    """
    if isinstance(data, Dataset):
        yield from _of_dataset(data, batch_size, steps, tokens)
    elif isinstance(data, list | tuple | np.ndarray):
        strings = as_array(data)
        yield strings[:, None] if tokens and strings.ndim == 1 else strings
    else:
        yield from map(as_array, itertools.islice(data, steps))


def _of_dataset(
    data: Dataset, batch_size: int | None, steps: int | None, tokens: bool
) -> Iterator[np.ndarray]:
    spec = data.element_spec
    if getattr(spec, "dtype", None) != STRING:
        raise TypeError(
            f"strings.TextVectorization: adapt takes a dataset of strings, this one has {spec}; "
            "map it to its text first"
        )
    taken = data if steps is None else data.take(steps)
    if spec.shape:
        yield from taken
        return
    for batch in taken.batch(batch_size or AT_ONCE):
        yield batch[:, None] if tokens else batch


@dataclasses.dataclass(frozen=True)
class Learned:
    """Tokens in order, in how many documents each was, and how many documents there were."""

    tokens: list[bytes]
    rows: np.ndarray
    documents: int

    def weights(self) -> np.ndarray:
        """The inverse document frequencies of unknown tokens and of these, float32."""
        return with_unknown(np.log(1 + self.documents / (1 + self.rows)).astype(np.float32))


def learned_tokens(counts: TokenCounts, most: int | None) -> Learned:
    """The most frequent tokens, at most so many; of equally frequent ones the greatest first."""
    tokens, times, rows, documents = counts.counts()
    order = np.lexsort((np.argsort(np.argsort(tokens)), times))[::-1]
    special = (b"", b"[UNK]")
    kept = [place for place in order.tolist() if tokens[place] not in special][:most]
    return Learned([tokens[place] for place in kept], rows[kept], documents)


def with_unknown(weights: np.ndarray) -> np.ndarray:
    """Weights with their mean in front, for unknown tokens."""
    mean = np.mean(weights, dtype=np.float32) if len(weights) else np.float32(0)
    return np.concatenate([[mean], weights]).astype(np.float32)
