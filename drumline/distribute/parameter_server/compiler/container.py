"""Bytes with a checksum, so that damaged ones are never taken for a program."""

from __future__ import annotations

import hashlib

from drumline.distribute.parameter_server.compiler.errors import CorruptProgramError

_MAGIC = b"drumline program 1\n"
_CHECKSUM_BYTES = 32


def sealed(payload: bytes) -> bytes:
    """`payload` behind a mark and its SHA-256."""
    return _MAGIC + hashlib.sha256(payload).digest() + payload


def unsealed(data: bytes) -> bytes:
    """The payload that `sealed` was given.

    Raises:
        CorruptProgramError: if the bytes are of something else, cut short, or damaged.
    """
    data = bytes(data)
    start = len(_MAGIC) + _CHECKSUM_BYTES
    if len(data) < start or not data.startswith(_MAGIC):
        raise CorruptProgramError(
            f"These {len(data)} bytes are no program of this version of drumline. Let all tasks of "
            "the cluster run the same version."
        )
    payload = data[start:]
    if hashlib.sha256(payload).digest() != data[len(_MAGIC) : start]:
        raise CorruptProgramError(
            f"A program of {len(payload)} bytes does not match its checksum: it was cut short or "
            "damaged on its way. Send it again."
        )
    return payload
