"""Fingerprints of 64 bits, and of pairs of them, as TensorFlow crosses features by."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline._core import hash_strings

HASH_KEY = 0xDECAFCAFFE
"""What crosses begin with in TensorFlow."""

_MUL = np.uint64(0xC6A4A7935BD1E995)
_LARGE = 2**63 - 1


def _mixed(value: Any) -> Any:
    return value ^ (value >> np.uint64(47))


def joined(first: Any, second: Any) -> Any:
    """The fingerprint of two fingerprints, as TensorFlow's ``FingerprintCat64``."""
    result = (first ^ _MUL) ^ (_mixed(second * _MUL) * _MUL)
    return _mixed(_mixed(result * _MUL) * _MUL)


def fingerprints(values: np.ndarray) -> np.ndarray:
    """The 64 bits of the hash of strings of any shape, of which buckets are remainders."""
    flat = np.ascontiguousarray(values).reshape(-1)
    low = hash_strings(flat, 2**62).astype(np.uint64)
    rest = hash_strings(flat, _LARGE).astype(np.uint64)
    found = rest
    for quotient in (1, 2):
        other = rest + np.uint64(quotient) * np.uint64(_LARGE)
        found = np.where(other % np.uint64(2**62) == low, other, found)
    return found.reshape(values.shape)
