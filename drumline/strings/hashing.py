"""Strings as numbers of buckets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import hash_strings
from drumline.data.native.apply import apply
from drumline.data.native.string_elementwise import Bad, Elementwise
from drumline.data.plan.arguments import count_of


@dataclasses.dataclass(frozen=True)
class HashBucket(Elementwise):
    """The bucket of each string, by SipHash if there is a key."""

    buckets: int
    key: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return f"strings.to_hash_bucket_{'fast' if self.key is None else 'strong'}"

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int64)

    def compute(self, values: np.ndarray) -> tuple[np.ndarray, Bad | None]:
        return hash_strings(values, self.buckets, self.key), None


def to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """The buckets of strings, as ``tf.strings.to_hash_bucket_fast``: the same as TensorFlow's.

    The hash is FarmHash's ``Fingerprint64``. Who knows it can make strings that share a bucket.

    Args:
        input: a string, or an array of strings of any shape; a ``RaggedArray`` of strings.
        num_buckets: how many there are.

    Returns:
        int64 in ``[0, num_buckets)``, in the shape of ``input``.

    Raises:
        ValueError: ``num_buckets`` is less than 1.
        TypeError: ``input`` holds no strings.
    """
    return apply(HashBucket(_buckets(num_buckets, "strings.to_hash_bucket_fast")), input)


def to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Sequence[int], name: str | None = None
) -> Any:
    """The buckets of strings under a key, as ``tf.strings.to_hash_bucket_strong``.

    The hash is SipHash-2-4, several times slower than ``to_hash_bucket_fast``: who does not know
    the key cannot make strings that share a bucket.

    Args:
        input: as of ``to_hash_bucket_fast``, as what is returned.
        num_buckets: how many there are.
        key: two integers.

    Raises:
        ValueError: ``num_buckets`` is less than 1, or the key has another length.
        TypeError: ``input`` holds no strings.
    """
    name = "strings.to_hash_bucket_strong"
    buckets = _buckets(num_buckets, name)
    if len(key) != 2:
        raise ValueError(f"{name}: key must be two integers, got {key!r:.60}")
    first, second = (int(part) % 2**64 for part in key)
    return apply(HashBucket(buckets, (first, second)), input)


def _buckets(given: int, name: str) -> int:
    buckets = count_of(given, name, "num_buckets", least=1)
    if buckets >= 2**63:
        raise ValueError(f"{name}: num_buckets must be less than 2**63, got {buckets}")
    return buckets
